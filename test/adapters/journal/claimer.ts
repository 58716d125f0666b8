// Claimer: a process of its own that claims a request, says how that went, and then acts for as long as it lives. It is killed by the test.
import { openLedger } from '../../../src/adapters/journal/ledger.ts';
import { advance, observe } from '../../../src/core/request/life.ts';

const [directory, id, nonce] = process.argv.slice(2);
const ledger = openLedger({ directory: directory!, fleet: 'fleet-4b1d2c' });
const snapshot = advance(observe(id!, 'a'.repeat(64), 1), ['VERIFY', 'SCHEDULE', 'CLAIM'], {
  atMs: 2,
  reason: 'authorised',
});
const claim = {
  id: id!,
  subject: 'a'.repeat(64),
  nonces: [nonce!],
  tip: 'b'.repeat(40),
  policy: 'c'.repeat(64),
  plan: null,
};
const receipt = {
  id: id!,
  subject: claim.subject,
  requestBase64: '',
  statements: [],
  policyBase64: '',
  tip: claim.tip,
  plan: null,
  claimedAtMs: 2,
  outcome: null,
  detail: '',
  endedAtMs: null,
};
const answer = ledger.claim({ ...claim, claimedAtMs: 2 }, snapshot, receipt);
process.stdout.write(`${answer.kind === 'claimed' ? 'claimed' : answer.reason}\n`);
setInterval(() => {}, 1000);
