/** People: what is answered, and the record turned into it. */
import * as z from "zod";
import { iso } from "../control/database.ts";
import type { Person } from "../store/protocol.ts";
import { instant } from "./schemas.ts";

export const personAnswer = z
  .object({
    email: z.string(),
    name: z.string().nullable(),
    company: z.string().nullable(),
    title: z.string().nullable(),
    score: z.int(),
    first_seen: instant,
    last_seen: instant,
    identities: z.array(z.object({ kind: z.enum(["anonymous_id", "user_id"]), value: z.string(), linked_at: instant })),
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
      .meta({ description: "Newest first, at most 100." }),
  })
  .meta({ id: "Person" });

export function personJson(person: Person): z.infer<typeof personAnswer> {
  const { firstSeenMs, lastSeenMs, identities, scoringSignals, ...fields } = person;
  return {
    ...fields,
    first_seen: iso(firstSeenMs),
    last_seen: iso(lastSeenMs),
    identities: identities.map(({ kind, value, linkedAtMs }) => ({ kind, value, linked_at: iso(linkedAtMs) })),
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
