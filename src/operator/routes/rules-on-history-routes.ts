/** Mapping rules on signals that are stored already (design §8.5): tried before saving, applied after, proposed from one. */
import * as z from "zod";
import { PREVIEW_DEFAULT_DAYS, PREVIEW_MAX_DAYS } from "../../limits.ts";
import { byOperator, operator } from "../environment.ts";
import { signalStore } from "../../workspace/objects.ts";
import { applyRule, previewRule, proposeFrom } from "../../workspace/rules-on-history.ts";
import { notFound, operation } from "../operation.ts";
import { previewAnswer, proposedRuleAnswer, ruleJobAnswer, ruleJobJson, sampleJson } from "../answers/rule-answers.ts";
import { newRule } from "../../workspace/rule-schemas.ts";

export const rulesOnHistoryRoutes = operator
  .createApp()
  .post(
    "/workspaces/:workspace_id/rules/preview",
    operation({
      tag: "Mapping rules",
      summary: "Try a mapping rule on stored signals",
      description:
        "What the rule would have scored, enabled, had it been there. Looks at the processed signals of people, the " +
        "latest first; changes nothing.",
      body: newRule,
      bodyExample: { name: "Asked for a demo", event: "Filled Out *", scoring_signal: "demo_requested", points: 20 },
      query: z.strictObject({
        days: z.coerce
          .number()
          .int()
          .min(1)
          .max(PREVIEW_MAX_DAYS)
          .default(PREVIEW_DEFAULT_DAYS)
          .meta({ description: "Signals received in the last so many days." }),
      }),
      answers: { 200: { description: "What it matches.", schema: previewAnswer } },
    }),
    async (c) => {
      const { scoring_signal: scoringSignal, event, match, conditions, points, frequency } = c.req.valid("json");
      const draft = { event, match, conditions, scoringSignal, points, frequency };
      const { samples, scoringSignals, ...counted } = await previewRule(
        c.env,
        c.get("workspace").id,
        draft,
        c.req.valid("query").days,
      );
      return c.json({ ...counted, scoring_signals: scoringSignals, samples: samples.map(sampleJson) });
    },
  )
  .post(
    "/workspaces/:workspace_id/rules/:rule_id/apply",
    operation({
      tag: "Mapping rules",
      summary: "Apply a mapping rule to stored signals",
      description:
        "Brings the rule's scoring signals in line with the rule as it is now, as if it had always been so: missing " +
        "ones are added, those of an earlier version get the present name, points and version, those of signals that it does not " +
        "match any more are removed, and the scores follow. A disabled rule scores nothing: applying it removes all of " +
        "its scoring signals. Scoring signals whose signals are no longer stored stay as they are, unless the rule is " +
        "disabled. Works in the background; calling it again begins anew with the rule as it is then.",
      answers: { 202: { description: "It is going to be applied.", schema: ruleJobAnswer } },
    }),
    async (c) => {
      const job = await applyRule(c.env, c.get("db"), c.get("workspace").id, c.req.param("rule_id"), byOperator());
      return job === null ? notFound(c, "rule") : c.json(ruleJobJson(job), 202);
    },
  )
  .get(
    "/workspaces/:workspace_id/rules/:rule_id/apply",
    operation({
      tag: "Mapping rules",
      summary: "Follow the application of a mapping rule",
      description: "The latest one, also when it has ended, and also of a deleted rule.",
      answers: { 200: { description: "How far it is.", schema: ruleJobAnswer } },
    }),
    async (c) => {
      const job = await signalStore(c.env, c.get("workspace").id).ruleJob(c.req.param("rule_id"));
      return job === null ? notFound(c, "application of a rule") : c.json(ruleJobJson(job));
    },
  )
  .get(
    "/workspaces/:workspace_id/signals/:signal_id/proposed-rule",
    operation({
      tag: "Mapping rules",
      summary: "Propose a mapping rule from a stored signal",
      description:
        "A body for creating a rule: the signal's event, and conditions pre-filled from its payload. It matches this " +
        "signal. Only of signals of the signal queue whose payload is stored: no identify calls, no duplicates.",
      answers: { 200: { description: "The proposed rule.", schema: proposedRuleAnswer } },
    }),
    async (c) => {
      const found = await proposeFrom(c.env, c.get("workspace").id, [c.req.param("signal_id")]);
      if (found === null) return notFound(c, "signal");
      const { scoringSignal, ...proposed } = found;
      return c.json({ ...proposed, scoring_signal: scoringSignal, frequency: "every_time" as const });
    },
  );
