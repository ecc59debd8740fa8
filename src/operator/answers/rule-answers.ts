/** Mapping rules, and rules on stored signals: what is answered, and the records turned into it. */
import * as z from "zod";
import { iso } from "../../control/database.ts";
import type { StoredRule } from "../../control/stored-rules.ts";
import { PREVIEW_MAX_SIGNALS, PREVIEW_SAMPLES } from "../../limits.ts";
import type { PreviewSample, RuleJob } from "../../store/protocol/rules-on-history.ts";
import { newRule, ruleFields } from "../../workspace/rule-schemas.ts";
import { count, idOf, instant, isoOrNull } from "../schema-parts.ts";

export const ruleAnswer = z
  .object({
    id: idOf("rule", "Of the rule."),
    ...ruleFields,
    version: z.int().meta({ description: "Grows with every change; scoring signals carry it." }),
    created_at: instant,
    updated_at: instant,
    updated_by: z.string().meta({ description: "Who made this version: a member's email, or `operator`." }),
  })
  .meta({ id: "MappingRule" });

export function ruleJson(stored: StoredRule): z.infer<typeof ruleAnswer> {
  const { scoringSignal, createdAt, updatedAt, updatedBy, ...rule } = stored;
  const times = { created_at: createdAt, updated_at: updatedAt, updated_by: updatedBy };
  return { ...rule, scoring_signal: scoringSignal, ...times };
}

export const previewAnswer = z
  .object({
    matches: count.meta({ description: "Signals that the rule matches." }),
    scoring_signals: count.meta({
      description:
        "Scoring signals that it would make of them: fewer where it scores a person once a day, or once ever.",
    }),
    people: count.meta({ description: "Persons whose signals these are." }),
    points: z.int().meta({ description: "What these persons' scores would change by, all together." }),
    samples: z
      .array(
        z.object({
          id: idOf("sig", "Of the signal."),
          event: z.string(),
          source: z.string(),
          email: z.string().meta({ description: "The person's." }),
          received_at: instant,
          payload: z.unknown().meta({ description: "The JSON as it was sent." }),
        }),
      )
      .meta({ description: `Matching signals, the latest first, at most ${PREVIEW_SAMPLES}.` }),
    scanned: count.meta({ description: "Signals that were looked at." }),
    complete: z.boolean().meta({
      description: `False: there are more signals than a preview looks at (${PREVIEW_MAX_SIGNALS}), or some in cold storage, which does not answer; the latest were.`,
    }),
  })
  .meta({ id: "RulePreview" });

export function sampleJson({ receivedAtMs, ...sample }: PreviewSample) {
  return { ...sample, received_at: iso(receivedAtMs) };
}

export const ruleJobAnswer = z
  .object({
    rule_id: idOf("rule", "Of the rule."),
    rule_version: z
      .int()
      .nullable()
      .meta({ description: "The version that is applied; null when the rule's scoring signals are removed." }),
    status: z.enum(["queued", "running", "done"]),
    scanned: count.meta({ description: "Signals looked at so far." }),
    total: count.meta({ description: "How many there are to look at, as estimated at the beginning." }),
    matched: count.meta({ description: "Signals that the rule matches." }),
    added: count.meta({ description: "Scoring signals that were missing." }),
    changed: count.meta({ description: "Scoring signals of an earlier version of the rule, brought up to date." }),
    removed: count.meta({ description: "Scoring signals of signals that the rule does not match any more." }),
    requested_at: instant,
    started_at: instant.nullable(),
    finished_at: instant.nullable(),
  })
  .meta({ id: "RuleJob" });

export function ruleJobJson(job: RuleJob): z.infer<typeof ruleJobAnswer> {
  const { ruleId, ruleVersion, requestedAtMs, startedAtMs, finishedAtMs, ...numbers } = job;
  return {
    rule_id: ruleId,
    rule_version: ruleVersion,
    ...numbers,
    requested_at: iso(requestedAtMs),
    started_at: isoOrNull(startedAtMs),
    finished_at: isoOrNull(finishedAtMs),
  };
}

const { enabled: _, ...proposedFields } = newRule.shape;
export const proposedRuleAnswer = z.object(proposedFields).meta({ id: "ProposedRule" });
