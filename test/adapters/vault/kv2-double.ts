// A small KV v2 store over real HTTP on loopback, written from the published interface of the store; and ways to make it misbehave.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

interface Version {
  readonly value: unknown;
  deleted: boolean;
}

export type Misbehave = (request: IncomingMessage, response: ServerResponse) => void;

export interface Kv2Double {
  readonly address: string;
  readonly token: string;
  readonly requests: string[];
  readonly secrets: Map<string, Version[]>;
  /** Answers instead of the store while it is set. */
  misbehave: Misbehave | null;
  /** Called with each write before it is judged. */
  beforeWrite: (path: string) => void;
  close(): Promise<void>;
}

export async function startKv2(mount = 'secret'): Promise<Kv2Double> {
  const sockets = new Set<Socket>();
  const double: { -readonly [K in keyof Kv2Double]: Kv2Double[K] } = {
    address: '',
    token: 'hvs.token-of-the-controller',
    requests: [],
    secrets: new Map(),
    misbehave: null,
    beforeWrite: () => {},
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  const timeOf = (version: number): string => new Date(Date.UTC(2026, 0, 1, 0, 0, version)).toISOString();
  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? '/', 'http://double');
    double.requests.push(`${request.method} ${url.pathname}${url.search}`);
    if (double.misbehave) return double.misbehave(request, response);
    const answer = (status: number, body: unknown): void => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(body === null ? '' : JSON.stringify(body));
    };
    if (request.headers['x-vault-token'] !== double.token) return answer(403, { errors: ['permission denied'] });
    const match = new RegExp(`^/v1/${mount}/(data|metadata)/(.*)$`).exec(decodeURIComponent(url.pathname));
    if (!match) return answer(404, { errors: [`no handler for route "${url.pathname}". route entry not found.`] });
    const [, kind, path = ''] = match;
    const versions = double.secrets.get(path);
    if (kind === 'data' && request.method === 'GET') {
      const newest = versions?.at(-1);
      if (!versions || !newest) return answer(404, { errors: [] });
      const metadata = { version: versions.length, created_time: timeOf(versions.length), destroyed: false };
      if (newest.deleted) return answer(404, { data: { data: null, metadata } });
      return answer(200, { data: { data: newest.value, metadata } });
    }
    if (kind === 'data' && request.method === 'POST') {
      let text = '';
      for await (const chunk of request) text += String(chunk);
      const { data, options } = JSON.parse(text) as { data: unknown; options?: { cas?: number } };
      double.beforeWrite(path);
      const now = double.secrets.get(path) ?? [];
      if (options?.cas !== undefined && options.cas !== now.length)
        return answer(400, { errors: ['check-and-set parameter did not match the current version'] });
      double.secrets.set(path, [...now, { value: data, deleted: false }]);
      return answer(200, { data: { version: now.length + 1 } });
    }
    if (kind === 'metadata' && url.searchParams.get('list') === 'true') {
      const keys = new Set(
        [...double.secrets.keys()]
          .filter((one) => one.startsWith(path))
          .map((one) => /^[^/]+\/?/.exec(one.slice(path.length))?.[0] ?? ''),
      );
      return keys.size === 0 ? answer(404, { errors: [] }) : answer(200, { data: { keys: [...keys] } });
    }
    if (kind === 'metadata' && request.method === 'GET') {
      if (!versions) return answer(404, { errors: [] });
      const entries = versions.map((version, at) => [
        String(at + 1),
        { created_time: timeOf(at + 1), deletion_time: version.deleted ? timeOf(at + 1) : '', destroyed: false },
      ]);
      return answer(200, {
        data: {
          current_version: versions.length,
          updated_time: timeOf(versions.length),
          versions: Object.fromEntries(entries),
        },
      });
    }
    if (kind === 'metadata' && request.method === 'DELETE') {
      double.secrets.delete(path);
      return answer(204, null);
    }
    answer(405, { errors: ['unsupported operation'] });
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  double.address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return double;
}
