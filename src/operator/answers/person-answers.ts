/** People: what is answered, and the record turned into it. */
import * as z from "zod";
import { iso } from "../../control/database.ts";
import { grouped } from "../../domain/grouped.ts";
import { eachTrait } from "../../domain/signal/traits.ts";
import { PERSON_IDENTITIES_LISTED, PERSON_MAX_IDS, PERSON_SCORES_LISTED } from "../../limits.ts";
import type { Person } from "../../store/protocol/people-pages.ts";
import { instant } from "../schema-parts.ts";

export const personAnswer = z
  .object({
    email: z.string(),
    ...eachTrait(() => z.string().nullable()),
    score: z.int(),
    first_seen: instant,
    last_seen: instant,
    identities: z
      .array(z.object({ kind: z.enum(["anonymous_id", "user_id"]), value: z.string(), linked_at: instant }))
      .meta({ description: `Newest first, at most ${PERSON_IDENTITIES_LISTED}.` }),
    identities_dropped: z.int().meta({
      description: `Older ids that were dropped: a person keeps the latest ${grouped(PERSON_MAX_IDS)} of each kind. One that an identify call names once more comes back.`,
    }),
    scoring_signals: z
      .array(
        z.object({
          scoring_signal: z.string(),
          points: z.int(),
          rule_id: z.string(),
          rule_version: z.int(),
          signal_id: z.string(),
          at: instant,
        }),
      )
      .meta({ description: `Newest first, at most ${PERSON_SCORES_LISTED}.` }),
  })
  .meta({ id: "Person" });

export function personJson(person: Person): z.infer<typeof personAnswer> {
  const { firstSeenMs, lastSeenMs, idsDropped, identities, scoringSignals, ...fields } = person;
  return {
    ...fields,
    first_seen: iso(firstSeenMs),
    last_seen: iso(lastSeenMs),
    identities: identities.map(({ kind, value, linkedAtMs }) => ({ kind, value, linked_at: iso(linkedAtMs) })),
    identities_dropped: idsDropped,
    scoring_signals: scoringSignals.map((scored) => ({
      scoring_signal: scored.scoringSignal,
      points: scored.points,
      rule_id: scored.ruleId,
      rule_version: scored.ruleVersion,
      signal_id: scored.signalId,
      at: iso(scored.atMs),
    })),
  };
}
