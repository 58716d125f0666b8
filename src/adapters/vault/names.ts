// Names: which keys and scopes a secret can have, the same in every kind of vault.
import { Fault } from '../../core/fault.ts';
import type { Scope } from '../../ports/vault.ts';

const KEY = /^[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}$/;
const SCOPE = /^(fleet|(stack|group)\/[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})$/;

export function checkKey(key: string): void {
  if (!KEY.test(key) || key.split('/').some((part) => /^\.{0,2}$/.test(part)))
    throw new Fault(
      'USAGE',
      `${JSON.stringify(key.slice(0, 80))} cannot name a secret: letters, digits and _ . / -, at most 200`,
    );
}

export function checkScope(scope: Scope): void {
  if (!SCOPE.test(scope))
    throw new Fault('USAGE', `${JSON.stringify(scope.slice(0, 80))} is no scope: stack/NAME, group/NAME or fleet`);
}
