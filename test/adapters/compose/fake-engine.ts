// An HTTP server on a unix socket that answers as a test tells it.
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export type Handler = (request: http.IncomingMessage, response: http.ServerResponse) => void;

export interface FakeEngine {
  readonly host: string;
  readonly asked: string[];
  /** By `METHOD /path`, without version and query; anything else is 404. */
  on(route: string, handler: Handler | unknown): void;
  /** Cuts every connection and stops listening. */
  stop(): Promise<void>;
}

export async function openFakeEngine(version: Record<string, string> = {}): Promise<FakeEngine> {
  const folder = mkdtempSync(join(tmpdir(), 'windlass-fake-'));
  const path = join(folder, 'engine.sock');
  const routes = new Map<string, Handler>();
  const asked: string[] = [];
  const server = http.createServer((request, response) => {
    const url = (request.url ?? '').split('?')[0]!;
    asked.push(`${request.method} ${request.url}`);
    const handler = routes.get(`${request.method} ${url.replace(/^\/v[\d.]+/, '')}`);
    if (handler) return handler(request, response);
    response
      .writeHead(404, { 'content-type': 'application/json' })
      .end(JSON.stringify({ message: `page not found: ${url}` }));
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const on = (route: string, handler: Handler | unknown) => {
    routes.set(
      route,
      typeof handler === 'function'
        ? (handler as Handler)
        : (_request, response) => response.end(JSON.stringify(handler)),
    );
  };
  on('GET /version', { ApiVersion: '1.45', MinAPIVersion: '1.24', Version: '26.1.5', ...version });
  on('GET /info', { ID: 'engine-1', Name: 'fake' });
  return {
    host: `unix://${path}`,
    asked,
    on,
    async stop() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
