// What a backup and a restore cost: a volume of one GiB (WINDLASS_BENCH_BACKUP_MIB sets another size) against `docker run … tar | zstd` of the same
// volume and back, the same again unchanged, and how much memory it takes. The stack rests meanwhile, so both read the same bytes.
import { spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { Archives } from '../src/operations/archive/archives.ts';
import { backup } from '../src/operations/archive/backup.ts';
import { planRestore } from '../src/operations/archive/plan-restore.ts';
import { restore } from '../src/operations/archive/restore.ts';
import { deploy } from '../src/operations/deploy.ts';
import type { Judged } from '../src/operations/survey.ts';
import { Workbench } from '../src/operations/workbench.ts';
import { BenchFleet, docker } from './fleet.ts';
import { median, type Row, round } from './rig.ts';

const RUNS = 3;
const PEER = 'docker run --log-driver none … tar | zstd -3';
const PEER_BACK = 'zstd -d | docker run -i … tar -x';
const MIB = 1024 * 1024;
const IMAGE = 'windlass-test/busybox:1';

function sizeMib(): number {
  const said = Number(process.env['WINDLASS_BENCH_BACKUP_MIB'] ?? 1024);
  if (!Number.isInteger(said) || said < 8 || said > 65_536)
    throw new Error('WINDLASS_BENCH_BACKUP_MIB is a whole number from 8 to 65536');
  return said;
}

/** Half of it cannot be compressed, half can by much: files of 4 MiB. */
const fill = (files: number): string =>
  `i=0; while [ $i -lt ${files / 2} ]; do
     dd if=/dev/urandom of=/data/random-$i bs=1M count=4 2>/dev/null
     yes "line $i of a file that repeats itself" | head -c 4194304 >/data/text-$i
     i=$((i + 1)); done`;

export async function benchBackup(): Promise<readonly Row[]> {
  const mib = sizeMib();
  const fleet = new BenchFleet(1);
  const name = fleet.names[0]!;
  const volume = `${name}_data`;
  try {
    const commit = fleet.commit({
      [`stacks/${name}/compose.yaml`]: `services:
  web:
    image: ${IMAGE}
    command: sleep 2147483647
    init: true
    network_mode: none
    stop_grace_period: 0s
    volumes: ["data:/data"]
volumes: { data: {} }
`,
    });
    const house = await fleet.open(0);
    const bench = new Workbench(house);
    await house.source.fetch();
    const at = await bench.reader.read(commit);
    const judged = (await bench.survey([name], at, await bench.look.fresh([name]))).filter(
      (one): one is Judged => one.kind === 'judged',
    );
    const { failures } = await deploy({ bench, judged, layers: [[name]], trigger: 'bench' });
    if (failures.size > 0) throw [...failures.values()][0];
    docker('exec', `${name}-web-1`, 'sh', '-c', fill(mib / 4));

    const shell = (line: string): number => {
      const began = performance.now();
      const { status, stderr } = spawnSync('bash', ['-o', 'pipefail', '-c', line], { encoding: 'utf8' });
      if (status !== 0) throw new Error(`the peer failed: ${stderr}`);
      return performance.now() - began;
    };
    const packed = `${fleet.dir}/peer.tar.zst`;
    // Without a log driver: the engine would write all of it into its log as well, five times slower.
    const inside = `docker run --rm --log-driver none --network none`;
    const peer = (): number =>
      shell(
        `${inside} -v ${volume}:/data:ro ${IMAGE} tar -C /data -cf - . | zstd -q -3 -T1 -f -o ${packed} && sync ${packed}`,
      );
    const peerBack = (run: number): number => {
      const back = `${name}_peer${run}`;
      const took = shell(
        `zstd -dcq ${packed} | ${inside} -i -v ${back}:/data ${IMAGE} sh -c 'tar -C /data -xf - && sync'`,
      );
      docker('volume', 'rm', back);
      return took;
    };
    const signal = new AbortController().signal;
    let mostRss = 0;
    let readBy = '';
    let newest = '';
    const oursBack = async (): Promise<number> => {
      const began = performance.now();
      const answer = await planRestore(bench, { stack: name, archive: newest, safety: 'none' }, signal);
      if (answer.kind === 'wait') throw new Error(answer.why);
      const none = (): Promise<string> => Promise.reject(new Error('no safety archive is asked for'));
      await restore(bench, answer.plan, { signal, backup: none });
      return performance.now() - began;
    };
    const ours = async (): Promise<number> => {
      const watch = new AbortController();
      const watching = (async () => {
        while (!watch.signal.aborted) {
          mostRss = Math.max(mostRss, process.memoryUsage.rss());
          await sleep(50);
        }
      })();
      const began = performance.now();
      const { archive } = await backup(bench, name, { signal });
      const took = performance.now() - began;
      newest = archive;
      const { manifest } = await new Archives(house).show(archive).then(({ read }) => read);
      if ('payloads' in manifest) readBy = manifest.payloads.map((one) => one.way).join(', ');
      watch.abort();
      await watching;
      return took;
    };

    const first: number[] = [];
    const peers: number[] = [];
    const again: number[] = [];
    const back: number[] = [];
    const peersBack: number[] = [];
    const restRss = process.memoryUsage.rss();
    for (let run = 0; run < RUNS; run++) {
      // One file differs, so that the payload is another one and is stored anew.
      docker('exec', `${name}-web-1`, 'sh', '-c', `echo ${run} >/data/run`);
      peers.push(peer());
      first.push(await ours());
      again.push(await ours());
      // Each payload is about as large as the volume.
      for (const { id } of await house.archives!.store.list())
        if (run < RUNS - 1 || id !== newest) await house.archives!.store.remove(id);
      await house.archives!.store.collect();
    }
    for (let run = 0; run < RUNS; run++) {
      peersBack.push(peerBack(run));
      back.push(await oursBack());
    }
    const way = `${mib} MiB, half of it random, read by ${readBy}; RSS ${Math.round(restRss / MIB)} → at most ${Math.round(mostRss / MIB)} MiB; stop and start of the service are in it; median of ${RUNS}`;
    const peerMs = round(median(peers));
    return [
      {
        bench: 'backup',
        stacks: 1,
        oursMs: round(median(first)),
        peer: PEER,
        peerMs,
        ratio: round(median(peers) / median(first)),
        // At least 0.8 times as fast as the peer.
        budgetMs: round(median(peers) / 0.8),
        note: way,
      },
      {
        bench: 'backup-unchanged',
        stacks: 1,
        oursMs: round(median(again)),
        peer: PEER,
        peerMs,
        ratio: round(median(peers) / median(again)),
        budgetMs: null,
        note: 'the same data a second time: read and packed again, stored once',
      },
      {
        bench: 'restore',
        stacks: 1,
        oursMs: round(median(back)),
        peer: PEER_BACK,
        peerMs: round(median(peersBack)),
        ratio: round(median(peersBack) / median(back)),
        budgetMs: null,
        note: 'planned, written beside the live volume, read again and compared, switched to, up and ready; without a safety archive',
      },
    ];
  } finally {
    await fleet.dispose();
    // Restores left generations of it.
    const left = docker('volume', 'ls', '-q', '--filter', `label=com.docker.compose.project=${name}`);
    for (const one of left.split('\n').filter(Boolean)) docker('volume', 'rm', '-f', one);
  }
}
