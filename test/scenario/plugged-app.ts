// The files of an app with a secret, a volume and something that others can plug in: of the groups that recovers and drills are about.

export interface PluggedApp {
  /** Further lines of its app.yaml. */
  readonly more?: string;
  /** Further variables of its one service, each with a comma before it. */
  readonly environment?: string;
  /** Further lines of its one service. */
  readonly service?: string;
}

export const pluggedApp = (
  name: string,
  { more = '', environment = '', service = '' }: PluggedApp = {},
): Record<string, string> => ({
  [`apps/${name}/app.yaml`]: `apiVersion: windlass/v1
kind: App
version: "1"
vars: { secret: { secret: true } }
provides: { it: { host: "{{ stack.name }}", password: "{{ vars.secret }}" } }
${more}`,
  [`apps/${name}/compose.yaml`]: `services:
  ${name}:
    image: windlass-test/busybox:1
${service}    environment: { SECRET: "{{ vars.secret }}"${environment} }
    volumes: ["data:/data"]
volumes: { data: {} }
`,
});

/** What of its provider a service sees. */
export const uses = (plug: string): string =>
  `, HOST: "{{ plugs.${plug}.host }}", PASSWORD: "{{ plugs.${plug}.password }}"`;
