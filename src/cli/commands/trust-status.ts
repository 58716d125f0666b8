// `windlass trust status`: what the controller trusts: its anchor, the policy in effect, what drifts from it.
import { helpOf } from '../../core/state/trust/authority.ts';
import type { Command } from '../command.ts';
import { EXIT } from '../exit.ts';

export const status: Command = {
  words: ['trust', 'status'],
  summary: 'tell the trust anchor, the policy in effect and what a newer version of it still lacks',
  usage: '',
  example: 'windlass trust status',
  arity: [0, 0],
  async run({ io, json, surface }) {
    const desk = await surface();
    const { anchor, chain, ledger, tip, requests } = await desk.trustStatus();
    const { revoked, ...shown } = anchor;
    const { effective, drift } = chain;
    if (json) {
      io.json({
        anchor: shown,
        deploy: desk.house.trust?.deploy ?? 'none',
        tip,
        acceptedTip: ledger.acceptedTip(),
        policy: effective && { version: effective.version, sha256: effective.sha256, admins: effective.policy.admins },
        drift,
        revocationList: revoked === null ? 'unreadable' : `${revoked.length} bytes`,
        requests: requests.length,
        claims: ledger.claims().map(({ id, claimedAtMs }) => ({ id, claimedAtMs })),
      });
      return effective ? EXIT.done : EXIT.refused;
    }
    io.data(
      [
        `fleet        ${anchor.fleetId}`,
        `environment  ${anchor.environment}`,
        `ref          ${anchor.ref}`,
        `genesis      ${anchor.genesis}`,
        `deploys      trust.deploy: ${desk.house.trust?.deploy ?? 'none'}`,
        `accepted     ${ledger.acceptedTip() ?? 'no commit yet'}`,
        effective
          ? `policy       version ${effective.version}, sha256:${effective.sha256}\nadmins       ${effective.policy.admins.threshold} of ${effective.policy.admins.members.join(', ')}`
          : 'policy       none in effect: nothing is authorised',
        ...(revoked === null ? ['revoked      the list cannot be read: everything is refused'] : []),
        ...(drift
          ? [
              `drift        version ${drift.version}: ${drift.reason}${drift.detail ? `: ${drift.detail}` : ''}`,
              ...(drift.missing > 0
                ? [
                    `             signed by ${drift.signed.join(', ') || 'nobody'}; ${drift.missing} of ${drift.mayStillSign.join(', ')} must still sign`,
                  ]
                : []),
              `             ${helpOf(drift.reason)}`,
            ]
          : []),
        `requests     ${requests.length} in the tree, ${ledger.claims().length} claimed ever`,
      ].join('\n'),
    );
    return effective ? EXIT.done : EXIT.refused;
  },
};
