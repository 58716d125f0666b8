import { describe, expect, it } from 'vitest';
import { renderTemplate } from '../../../src/core/render/template.ts';

const told = (template: string, context: Record<string, unknown> = {}) => renderTemplate(template, context);

describe('a template', () => {
  it('writes values as they are, and as YAML where it asks for it', () => {
    const context = { a: '<"x": y>', n: 3, list: [1, 'b'], none: null };
    expect(told('{{ a }} {{ n }} {{ none }}\n', context)).toEqual({ text: '<"x": y> 3 none\n' });
    expect(told('a: {{ a | tojson }}, l: {{ list | tojson }}', context)).toEqual({
      text: 'a: "\\u003c\\"x\\": y\\u003e", l: [1,"b"]',
    });
  });

  it.each([
    ['an undefined name', 'a\n{{ vars.b }}', 2, /undefined/],
    ['an undefined name in a condition', '{% if nothing.b %}x{% endif %}', 1, /undefined/],
    ['a mistake of syntax', 'a\n\n{{ b ', 3, /syntax error: unexpected end of input/],
    ['an unknown filter', '{{ 1 | nope }}', 1, /nope/],
    [
      'a loop without end',
      '{% for i in range(9000) %}{% for j in range(9000) %}{% endfor %}{% endfor %}',
      1,
      /takes too long/,
    ],
    ['a macro that calls itself', '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}', 1, /recursion/],
    ['another file', '{% include "/etc/passwd" %}', 1, /not found/],
    ['too long a result', '{{ "a" * 5000000 }}', 0, /larger than/],
  ])('is refused for %s', (_, template, line, wrong) => {
    expect(told(template, { vars: {} })).toMatchObject({ line, wrong: expect.stringMatching(wrong) });
  });

  it('reaches nothing of the host', () => {
    for (const name of ['constructor', '__proto__', 'toString'])
      expect(told(`{{ x.${name} }}`, { x: {} })).toHaveProperty('wrong');
  });

  it('works on after one that failed', () => {
    told('{{ nothing }}');
    expect(told('{{ 1 + 1 }}')).toEqual({ text: '2' });
  });
});
