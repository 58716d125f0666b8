// What a deploy costs over a bare `docker compose up -d --wait`, and how soon a push starts to converge.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Controller } from '../src/controller/controller.ts';
import { deploy } from '../src/operations/deploy.ts';
import type { Judged } from '../src/operations/survey.ts';
import { Workbench } from '../src/operations/workbench.ts';
import { BenchFleet, composeOf, docker } from './fleet.ts';
import { median, type Row, round } from './rig.ts';

const RUNS = 5;
const PEER = 'wlt-bench-peer';

export async function benchDeploy(): Promise<readonly Row[]> {
  const fleet = new BenchFleet(1);
  const peerDir = mkdtempSync(join(tmpdir(), 'wlt-bench-peer-'));
  try {
    const house = await fleet.open(0);
    const bench = new Workbench(house);
    const name = fleet.names[0]!;
    const ours: number[] = [];
    const peers: number[] = [];
    // Alternating versions: every run recreates both services, on both sides.
    for (let run = 0; run <= RUNS; run++) {
      const text = composeOf(1 + (run % 2));
      const commit = fleet.commit({ [`stacks/${name}/compose.yaml`]: text });
      const began = performance.now();
      await house.source.fetch();
      const at = await bench.reader.read(commit);
      const judged = (await bench.survey([name], at, await bench.look.fresh([name]))).filter(
        (one): one is Judged => one.kind === 'judged',
      );
      const outcome = await deploy({ bench, judged, layers: [[name]], trigger: 'bench' });
      if (outcome.failures.size > 0) throw [...outcome.failures.values()][0];
      if (run > 0) ours.push(performance.now() - began);
      writeFileSync(join(peerDir, 'compose.yaml'), text);
      const other = performance.now();
      execFileSync('docker', ['compose', '-p', PEER, '-f', join(peerDir, 'compose.yaml'), 'up', '-d', '--wait'], {
        stdio: 'ignore',
      });
      if (run > 0) peers.push(performance.now() - other);
    }
    const rows: Row[] = [
      {
        bench: 'deploy-overhead',
        stacks: 1,
        oursMs: round(median(ours) - median(peers)),
        peer: 'docker compose up -d --wait',
        peerMs: round(median(peers)),
        ratio: round(median(peers) / median(ours)),
        budgetMs: 150,
        note: `fetch, load, resolve, deploy of 2 recreated services in ${round(median(ours))} ms, settle 0; median of ${RUNS}`,
      },
    ];

    const starts: number[] = [];
    let began = 0;
    let heard: (() => void) | null = null;
    const controller = new Controller({
      house,
      pollMs: 3_600_000,
      intervalMs: 3_600_000,
      log: () => {},
      progress: () => ({
        onStepStart: (_phase, _target, step) => {
          if (step !== 'converge' || began === 0) return;
          starts.push(performance.now() - began);
          began = 0;
          heard?.();
        },
      }),
    });
    await controller.start();
    for (let run = 0; run < RUNS; run++) {
      const started = new Promise<void>((resolve) => {
        heard = resolve;
      });
      fleet.commit({
        [`stacks/${name}/compose.yaml`]: composeOf(1 + (run % 2))
          .replace('services:', `# ${run}\nx-run: ${run}\nservices:`)
          .replace('init: true', `init: true\n    labels: {run: "${run}"}`),
      });
      began = performance.now();
      await started;
      await new Promise((resolve) => setTimeout(resolve, 6_000));
    }
    await controller.stop();
    rows.push({
      bench: 'push-to-converge',
      stacks: 1,
      oursMs: round(median(starts)),
      peer: '',
      peerMs: null,
      ratio: null,
      budgetMs: 300,
      note: `commit in a local repository → the converge step starts; median of ${starts.length}`,
    });
    return rows;
  } finally {
    try {
      const ids = docker('ps', '-aq', '--filter', `label=com.docker.compose.project=${PEER}`)
        .split('\n')
        .filter(Boolean);
      if (ids.length > 0) docker('rm', '-f', ...ids);
      docker('network', 'rm', `${PEER}_default`);
    } catch {
      // it was never made
    }
    rmSync(peerDir, { recursive: true, force: true });
    await fleet.dispose();
  }
}
