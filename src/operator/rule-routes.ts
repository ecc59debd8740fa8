/** Mapping rules (spec §1, design §8.5): changes, versions, import, and rules on stored signals. */
import type { Context } from "hono";
import * as z from "zod";
import { iso } from "../control/database.ts";
import { createRule, restoreRule, updateRule } from "../control/rule-changes.ts";
import { listRuleVersions, type RuleVersion, findRule, listRules, type StoredRule } from "../control/stored-rules.ts";
import { ruleDifferences } from "../domain/rules/rule-content.ts";
import {
  PREVIEW_DEFAULT_DAYS,
  PREVIEW_MAX_DAYS,
  PREVIEW_MAX_SIGNALS,
  PREVIEW_SAMPLES,
  RULES_FILE_MAX_BYTES,
  RULE_VERSIONS_KEPT,
} from "../limits.ts";
import { byOperator, operator, type OperatorEnv } from "./environment.ts";
import { conflict, notFound, operation, validationFailed } from "./operation.ts";
import { count, idOf, instant, isoOrNull, listOf, mapPage, pageAsked, pageQuery } from "./schema-parts.ts";
import type { PreviewSample, RuleJob } from "../store/protocol/store-operations.ts";
import {
  IMPORT_REFUSAL,
  canBeDone,
  importRules,
  planRuleImport,
  type RuleImport,
  importedOf,
  ruleFile,
} from "../workspace/import-rules.ts";
import { signalStore } from "../workspace/objects.ts";
import { NO_ROOM, newRule, ruleChange, ruleFields } from "../workspace/input-schemas.ts";
import { applyRule, endRule, previewRule, proposeFrom } from "../workspace/rules-on-history.ts";

const ruleAnswer = z
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

const previewAnswer = z
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

function sampleJson({ receivedAtMs, ...sample }: PreviewSample) {
  return { ...sample, received_at: iso(receivedAtMs) };
}

const ruleJobAnswer = z
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

function ruleJobJson(job: RuleJob): z.infer<typeof ruleJobAnswer> {
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
const proposedRuleAnswer = z.object(proposedFields).meta({ id: "ProposedRule" });

export const ruleRoutes = operator
  .createApp()
  .post(
    "/workspaces/:workspace_id/rules",
    operation({
      tag: "Mapping rules",
      summary: "Create a mapping rule",
      body: newRule,
      bodyExample: {
        name: "Asked for a demo",
        event: "Filled Out Form",
        match: "all",
        conditions: [{ path: "properties.form_name", operator: "contains", value: "demo" }],
        scoring_signal: "demo_requested",
        points: 20,
      },
      answers: { 201: { description: "The new rule.", schema: ruleAnswer } },
      conflicts: ["too_many_rules", "rules_too_large"],
    }),
    async (c) => {
      const { scoring_signal: scoringSignal, ...rule } = c.req.valid("json");
      const created = await createRule(c.get("db"), c.get("workspace").id, { ...rule, scoringSignal }, byOperator());
      return created.ok ? c.json(ruleJson(created.value), 201) : conflict(c, created.refusal, NO_ROOM[created.refusal]);
    },
  )
  .get(
    "/workspaces/:workspace_id/rules",
    operation({
      tag: "Mapping rules",
      summary: "List the mapping rules",
      query: pageQuery,
      answers: { 200: { description: "The rules, newest first.", schema: listOf(ruleAnswer) } },
    }),
    async (c) => {
      const page = await listRules(c.get("db"), c.get("workspace").id, pageAsked(c.req.valid("query")));
      return c.json(mapPage(page, ruleJson));
    },
  )
  .get(
    "/workspaces/:workspace_id/rules/:rule_id",
    operation({
      tag: "Mapping rules",
      summary: "Get a mapping rule",
      answers: { 200: { description: "The rule.", schema: ruleAnswer } },
    }),
    async (c) => {
      const rule = await findRule(c.get("db"), c.get("workspace").id, c.req.param("rule_id"));
      return rule === null ? notFound(c, "rule") : c.json(ruleJson(rule));
    },
  )
  .patch(
    "/workspaces/:workspace_id/rules/:rule_id",
    operation({
      tag: "Mapping rules",
      summary: "Change a mapping rule",
      description:
        "Takes effect with the next signal that is processed. The scoring signals that the rule has made stay as they " +
        "are, with the version of the rule that made them, also when it is disabled, until the rule is applied again.",
      body: ruleChange,
      bodyExample: { points: 25 },
      answers: { 200: { description: "The rule as it is now.", schema: ruleAnswer } },
      conflicts: ["rules_too_large", "rule_changed"],
    }),
    async (c) => {
      const { scoring_signal: scoringSignal, ...change } = c.req.valid("json");
      const updated = await updateRule(
        c.get("db"),
        c.get("workspace").id,
        c.req.param("rule_id"),
        { ...change, scoringSignal },
        byOperator(),
      );
      if (updated.ok) return c.json(ruleJson(updated.value));
      switch (updated.refusal) {
        case "not_found":
          return notFound(c, "rule");
        case "changed_meanwhile":
          return conflict(c, "rule_changed", "The rule is being changed by others: send it again.");
        case "rules_too_large":
          return conflict(c, "rules_too_large", NO_ROOM.rules_too_large);
        default:
          return updated.refusal satisfies never;
      }
    },
  )
  .delete(
    "/workspaces/:workspace_id/rules/:rule_id",
    operation({
      tag: "Mapping rules",
      summary: "Delete a mapping rule",
      description:
        "The rule makes no further scoring signals. Those that it has made stay with their points, unless " +
        "`scoring_signals=remove` asks for their removal; this may also be asked for after the rule was deleted. An " +
        "apply that is under way goes on when they are kept.",
      query: z.strictObject({
        scoring_signals: z
          .enum(["keep", "remove"])
          .default("keep")
          .meta({ description: "What becomes of the scoring signals that the rule has made." }),
      }),
      answers: {
        202: { description: "Deleted; its scoring signals are being removed.", schema: ruleJobAnswer },
        204: { description: "Deleted; its scoring signals stay." },
      },
    }),
    async (c) => {
      const [db, { id }, ruleId] = [c.get("db"), c.get("workspace"), c.req.param("rule_id")];
      const scoringSignals = c.req.valid("query").scoring_signals;
      const ended = await endRule(c.env, db, id, { ruleId, scoringSignals }, byOperator());
      if (ended === "not_found") return notFound(c, "rule");
      return ended === "deleted" ? c.body(null, 204) : c.json(ruleJobJson(ended), 202);
    },
  );

const versionAnswer = z
  .object({
    version: z.int(),
    at: instant.meta({ description: "Since when the rule says this." }),
    by: z.string().meta({ description: "Who made it so: a member's email, or `operator`." }),
    ...ruleFields,
  })
  .meta({ id: "MappingRuleVersion" });

export const ruleVersionRoutes = operator
  .createApp()
  .get(
    "/workspaces/:workspace_id/rules/:rule_id/versions",
    operation({
      tag: "Mapping rules",
      summary: "List the versions of a mapping rule",
      description:
        `The present one first, then the latest ${RULE_VERSIONS_KEPT} before it, all at once; fewer where the ` +
        "workspace's rules are very large.",
      answers: { 200: { description: "What the rule says and said.", schema: listOf(versionAnswer) } },
    }),
    async (c) => {
      const found = await listRuleVersions(c.get("db"), c.get("workspace").id, c.req.param("rule_id"));
      return found === null ? notFound(c, "rule") : c.json({ items: found.versions.map(versionJson), next: null });
    },
  )
  .post(
    "/workspaces/:workspace_id/rules/:rule_id/versions/:version/restore",
    operation({
      tag: "Mapping rules",
      summary: "Go back to a version of a mapping rule",
      description:
        "Makes a new version that says what that one said, whether it was enabled included. What is stored already is " +
        "left alone until the rule is applied, as with any change.",
      answers: { 200: { description: "The rule as it is now.", schema: ruleAnswer } },
      conflicts: ["rules_too_large", "rule_changed"],
    }),
    async (c) => {
      const [db, { id }, version] = [c.get("db"), c.get("workspace"), Number(c.req.param("version"))];
      const restored = await restoreRule(db, id, c.req.param("rule_id"), version, byOperator());
      if (restored.ok) return c.json(ruleJson(restored.value));
      switch (restored.refusal) {
        case "not_found":
          return notFound(c, "version of a rule");
        case "changed_meanwhile":
          return conflict(c, "rule_changed", "The rule is being changed by others: send it again.");
        case "rules_too_large":
          return conflict(c, "rules_too_large", NO_ROOM.rules_too_large);
        default:
          return restored.refusal satisfies never;
      }
    },
  );

function versionJson({ scoringSignal, ...version }: RuleVersion): z.infer<typeof versionAnswer> {
  return { ...version, scoring_signal: scoringSignal };
}

const importAnswer = z
  .object({
    added: count,
    changed: count,
    unchanged: count.meta({ description: "Rules that say already what the import says." }),
    items: z
      .array(
        z.object({
          name: z.string(),
          result: z.enum(["added", "changed", "unchanged"]),
          rule_id: idOf("rule", "Of the rule; null where it would be added.").nullable(),
          changes: z
            .array(z.string())
            .meta({ description: "Of a rule that is changed, the fields.", example: ["points"] }),
        }),
      )
      .meta({ description: "In the order of the import." }),
  })
  .meta({ id: "RuleImport" });

export const ruleImportRoutes = operator.createApp().post(
  "/workspaces/:workspace_id/rules/import",
  operation({
    tag: "Mapping rules",
    summary: "Import mapping rules",
    description:
      "Takes what the list gives, of this or another workspace. A rule that is here by its `id`, else by its `name`, is " +
      "changed; any other is added; rules that the import does not name stay as they are. Each is switched on or off as the " +
      "import says. All of it is done, or nothing: a 422 names what is wrong by rule. With `dry_run=true` it only says " +
      "what would be done.",
    body: ruleFile,
    bodyMaxBytes: RULES_FILE_MAX_BYTES,
    bodyExample: {
      items: [{ name: "Asked for a demo", event: "Filled Out *", scoring_signal: "demo_requested", points: 20 }],
    },
    query: z.strictObject({
      dry_run: z
        .enum(["true", "false"])
        .default("false")
        .meta({ description: "Says what would be done, and does nothing." }),
    }),
    answers: { 200: { description: "What was done, or would be.", schema: importAnswer } },
    conflicts: ["too_many_rules", "rules_too_large", "rules_changed"],
  }),
  async (c) => {
    const [db, { id }, imported] = [c.get("db"), c.get("workspace"), c.req.valid("json").items.map(importedOf)];
    if (c.req.valid("query").dry_run === "true") {
      const plan = await planRuleImport(db, id, imported);
      return canBeDone(plan) ? c.json(importJson(plan, [])) : impossible(c, plan);
    }
    const done = await importRules(db, id, imported, byOperator());
    if (done.ok) return c.json(importJson(done.value.plan, done.value.addedIds));
    return done.refusal.why === "not_possible"
      ? impossible(c, done.refusal.plan)
      : conflict(c, "rules_changed", "The rules are being changed by others: send it again.");
  },
);

function impossible(c: Context<OperatorEnv>, { steps, noRoom }: RuleImport): Response {
  const errors = steps.flatMap((step, index) =>
    step.what === "refused" ? [{ path: `items.${index}.name`, message: IMPORT_REFUSAL[step.why] }] : [],
  );
  return noRoom === null || errors.length > 0 ? validationFailed(c, errors) : conflict(c, noRoom, NO_ROOM[noRoom]);
}

/** @param addedIds ids of the rules that were added, in order; empty where nothing was done. */
function importJson({ steps }: RuleImport, addedIds: readonly string[]): z.infer<typeof importAnswer> {
  const ids = addedIds.values();
  const items = steps.flatMap((step): z.infer<typeof importAnswer>["items"] => {
    if (step.what === "refused") return [];
    if (step.what === "added") {
      return [{ name: step.rule.name, result: step.what, rule_id: ids.next().value ?? null, changes: [] }];
    }
    const { what, before } = step;
    const after = what === "changed" ? step.rule : before;
    const changes = ruleDifferences(before, after).map(({ field }) =>
      field === "scoringSignal" ? "scoring_signal" : field,
    );
    return [{ name: after.name, result: what, rule_id: before.id, changes }];
  });
  const sum = (result: string) => items.filter((item) => item.result === result).length;
  return { added: sum("added"), changed: sum("changed"), unchanged: sum("unchanged"), items };
}

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
