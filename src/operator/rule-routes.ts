/** Mapping rules (spec §1): changes, versions, import, and rules on stored signals. */
import * as z from "zod";
import { createRule, restoreRule, updateRule } from "../d1/rule-changes.ts";
import { findRule, listRules, listRuleVersions } from "../d1/stored-rules.ts";
import { reject } from "../domain/result.ts";
import { ruleDifferences } from "../domain/rules/rule-content.ts";
import {
  PREVIEW_DEFAULT_DAYS,
  PREVIEW_MAX_DAYS,
  PREVIEW_MAX_SIGNALS,
  PREVIEW_SAMPLES,
  RULES_FILE_MAX_BYTES,
  RULE_VERSIONS_KEPT,
} from "../limits.ts";
import {
  IMPORT_REJECTION,
  isPossible,
  importRules,
  planRuleImport,
  type RuleImport,
  importedOf,
  ruleFile,
} from "../use-cases/import-rules.ts";
import { PREVIEWS } from "../http/workspace-share.ts";
import { newRule, ruleChange, ruleFields } from "../use-cases/rule-schema.ts";
import { applyRule, removeRule, previewRule, proposeFrom } from "../use-cases/rules-on-history.ts";
import {
  listQueryOf,
  contextOf,
  count,
  idOf,
  instant,
  isoInstant,
  listOf,
  mayRead,
  operationsOf,
  listQuery,
  sentPayload,
  snakeCase,
  storeOf,
  tooMany,
  type DomainValue,
} from "./operation.ts";

const operation = operationsOf("Mapping rules", "rule");

const PREVIEW_WAIT_MS = 2_000;
const TOO_MANY_PREVIEWS = `A workspace may have ${PREVIEWS.each} previews under way. Wait for one, then send again after Retry-After seconds.`;

const mappingRule = z
  .object({
    id: idOf("rule", "Of the rule."),
    ...ruleFields,
    version: z.int().describe("Grows with every change. Scoring signals name it."),
    created_at: isoInstant,
    updated_at: isoInstant,
    updated_by: z.string().describe("The author of this version: a member's email, or `operator`."),
  })
  .meta({ id: "MappingRule" });

const version = z
  .object({
    version: z.int(),
    at: isoInstant.describe("When this version began."),
    by: z.string().describe("The author: a member's email, or `operator`."),
    ...ruleFields,
  })
  .meta({ id: "MappingRuleVersion" });

export function tooManyPreviews(c: Parameters<typeof tooMany>[0]): Response {
  return tooMany(c, PREVIEW_WAIT_MS, TOO_MANY_PREVIEWS);
}

/** Which stored signals a preview reads. */
export const previewQuery = z.strictObject({
  days: z.coerce
    .number()
    .int()
    .min(1)
    .max(PREVIEW_MAX_DAYS)
    .default(PREVIEW_DEFAULT_DAYS)
    .describe("Reads signals that were received in this many last days."),
});

export const previewSampleFields = {
  id: idOf("sig", "Of the signal."),
  event: z.string(),
  source: z.string(),
  email: z.string().describe("Of the person."),
  received_at: instant,
};

/** How much a preview has read. */
export const previewEndFields = {
  scanned: count.describe("Signals that the preview has read."),
  complete: z
    .boolean()
    .describe(
      `False: the preview has read only the latest signals, because there are more than ${PREVIEW_MAX_SIGNALS}, or because cold storage does not answer.`,
    ),
};

const preview = z
  .object({
    matches: count.describe("Signals that the rule matches."),
    lapsed: count.describe("Matching signals whose points have lapsed by today (`points_last_days`)."),
    scoring_signals: count.describe(
      "Scoring signals that the rule would make: fewer than `matches` if the rule scores a person once a day or once ever.",
    ),
    people: count.describe("People with a matching signal."),
    points: z.int().describe("Sum of the changes of their scores, without points that have lapsed."),
    samples: z
      .array(z.object({ ...previewSampleFields, payload: sentPayload }))
      .describe(`Matching signals, latest first, at most ${PREVIEW_SAMPLES}.`),
    ...previewEndFields,
  })
  .meta({ id: "RulePreview" });

export const ruleJobFields = {
  status: z.enum(["queued", "running", "done"]),
  scanned: count.describe("Signals read so far."),
  total: count.describe("Signals to read, as estimated at the start."),
  requested_at: instant,
  started_at: instant.nullable(),
  finished_at: instant.nullable(),
};

const ruleJob = z
  .object({
    rule_id: idOf("rule", "Of the rule."),
    rule_version: z
      .int()
      .nullable()
      .describe("The version that is applied. Null: the rule's scoring signals are removed."),
    ...ruleJobFields,
    matched: count.describe("Signals that the rule matches."),
    added: count.describe("Missing scoring signals that were added."),
    changed: count.describe("Scoring signals of an earlier version that were updated."),
    removed: count.describe("Scoring signals that were removed, because the rule no longer matches."),
  })
  .meta({ id: "RuleJob" });

const importResult = z
  .object({
    added: count,
    changed: count,
    unchanged: count.describe("Rules that already have this content."),
    exclusions: z
      .object({ added: z.array(z.string()), changed: z.array(z.string()) })
      .describe("Names of exclusions that were added and changed."),
    items: z
      .array(
        z.object({
          name: z.string(),
          result: z.enum(["added", "changed", "unchanged"]),
          rule_id: idOf("rule", "Of the rule. Null: a dry run would add the rule.").nullable(),
          changes: z.array(z.string()).meta({ description: "Changed fields of a changed rule.", example: ["points"] }),
        }),
      )
      .describe("In the order of the import."),
  })
  .meta({ id: "RuleImport" });

type ImportResult = DomainValue<z.output<typeof importResult>>;

const { enabled: _, ...proposedFields } = newRule.shape;
const proposedRule = z.object(proposedFields).meta({ id: "ProposedRule" });

export const ruleRoutes = [
  operation("POST", "/workspaces/:workspace_id/rules", {
    summary: "Create a mapping rule",
    scope: "rules",
    body: newRule,
    bodyExample: {
      name: "Asked for a demo",
      event: "Filled Out Form",
      match: "all",
      conditions: [{ path: "properties.form_name", operator: "contains", value: "demo" }],
      scoring_signal: "demo_requested",
      points: 20,
    },
    answers: { 201: "The new rule." },
    schema: mappingRule,
    conflicts: ["too_many_rules", "rules_too_large"],
    handle: (c, { body }) => createRule(contextOf(c), body),
  }),
  operation("GET", "/workspaces/:workspace_id/rules", {
    summary: "List the mapping rules",
    scope: "read",
    query: listQuery,
    answers: { 200: "The rules, newest first." },
    schema: listOf(mappingRule),
    handle: (c, { query }) => listRules(c.var.db, c.var.workspace.id, listQueryOf(query)),
  }),
  operation("GET", "/workspaces/:workspace_id/rules/:rule_id", {
    summary: "Get a mapping rule",
    scope: "read",
    answers: { 200: "The rule." },
    schema: mappingRule,
    handle: (c) => findRule(c.var.db, c.var.workspace.id, c.req.param("rule_id")),
  }),
  operation("PATCH", "/workspaces/:workspace_id/rules/:rule_id", {
    summary: "Change a mapping rule",
    scope: "rules",
    description:
      "Takes effect with the next processed signal. Existing scoring signals keep the version of the rule that made them, " +
      "even if the rule is disabled, until the rule is applied to stored signals.",
    body: ruleChange,
    bodyExample: { points: 25 },
    answers: { 200: "The changed rule." },
    schema: mappingRule,
    conflicts: ["rules_too_large", "rule_changed"],
    handle: (c, { body }) => updateRule(contextOf(c), c.req.param("rule_id"), body),
  }),
  operation("DELETE", "/workspaces/:workspace_id/rules/:rule_id", {
    summary: "Delete a mapping rule",
    scope: "rules",
    description:
      "The rule makes no further scoring signals. Its existing scoring signals keep their points, unless " +
      "`scoring_signals=remove` removes them. They can also be removed after the rule was deleted. If they are kept, an " +
      "application of the rule that is running continues.",
    query: z.strictObject({
      scoring_signals: z
        .enum(["keep", "remove"])
        .default("keep")
        .describe("Whether the rule's scoring signals are kept or removed."),
    }),
    answers: {
      202: "Deleted. Its scoring signals are being removed.",
      204: "Deleted. Its scoring signals are kept.",
    },
    schema: ruleJob,
    async handle(c, { query }) {
      const ended = await removeRule(contextOf(c), { ruleId: c.req.param("rule_id"), ...query });
      if (ended === "not_found") return null;
      return ended === "deleted" ? c.body(null, 204) : ended;
    },
  }),
  operation("POST", "/workspaces/:workspace_id/rules/import", {
    summary: "Import mapping rules",
    scope: "rules",
    description:
      "Accepts the list of rules of this or another workspace. A rule with the same `id`, or else the same `name`, is " +
      "changed. Other rules of the import are added. Rules of the workspace that the import does not name are kept. Each " +
      "rule is enabled or disabled as in the import. Exclusions are changed and added in the same way. The import is done completely or not at all: a 422 lists the errors by " +
      "rule. With `dry_run=true` the answer shows what the import would do.",
    body: ruleFile,
    bodyMaxBytes: RULES_FILE_MAX_BYTES,
    bodyExample: {
      items: [{ name: "Asked for a demo", event: "Filled Out *", scoring_signal: "demo_requested", points: 20 }],
    },
    query: z.strictObject({
      dry_run: z
        .enum(["true", "false"])
        .default("false")
        .describe("Shows what the import would do, and changes nothing."),
    }),
    answers: { 200: "What the import did, or would do." },
    schema: importResult,
    conflicts: [
      "too_many_rules",
      "rules_too_large",
      "too_many_exclusions",
      "exclusions_too_large",
      "exclusion_name_taken",
      "rules_changed",
    ],
    async handle(c, { body, query }) {
      const imported = { rules: body.items.map(importedOf), exclusions: body.exclusions };
      if (query.dryRun === "true") {
        const plan = await planRuleImport(c.var.db, c.var.workspace.id, imported);
        return isPossible(plan) ? importResultOf(plan, []) : rejectImport(plan);
      }
      const done = await importRules(contextOf(c), imported);
      if (done.ok) return importResultOf(done.value.plan, done.value.addedIds);
      return done.rejection.reason === "not_possible"
        ? rejectImport(done.rejection.plan)
        : reject("rules_changed" as const);
    },
  }),
  operation("GET", "/workspaces/:workspace_id/rules/:rule_id/versions", {
    summary: "List the versions of a mapping rule",
    scope: "read",
    description:
      `The current version and at most ${RULE_VERSIONS_KEPT} earlier versions, newest first, in one page. There are fewer ` +
      "if the workspace's rules are very large.",
    answers: { 200: "The content of the rule in each version." },
    schema: listOf(version),
    async handle(c) {
      const found = await listRuleVersions(c.var.db, c.var.workspace.id, c.req.param("rule_id"));
      return found && { items: found.versions, next: null };
    },
  }),
  operation("POST", "/workspaces/:workspace_id/rules/:rule_id/versions/:version/restore", {
    summary: "Restore a version of a mapping rule",
    scope: "rules",
    description:
      "Creates a new version with the content of the earlier version, including whether the rule was enabled. Stored " +
      "signals do not change until the rule is applied to them.",
    answers: { 200: "The changed rule." },
    schema: mappingRule,
    conflicts: ["rules_too_large", "rule_changed"],
    noun: "version of a rule",
    handle: (c) => restoreRule(contextOf(c), c.req.param("rule_id"), Number(c.req.param("version"))),
  }),
  operation("POST", "/workspaces/:workspace_id/rules/preview", {
    summary: "Try a mapping rule on stored signals",
    scope: "rules",
    description:
      "Shows what the enabled rule would have scored, as a new rule: what a saved rule has matched in a payload that is lost is not " +
      "counted, and stays. Reads the processed signals of known people, latest first. Changes nothing. A token without the scope `read` gets no samples.",
    body: newRule,
    bodyExample: { name: "Asked for a demo", event: "Filled Out *", scoring_signal: "demo_requested", points: 20 },
    query: previewQuery,
    answers: { 200: "What the rule matches." },
    schema: preview,
    async handle(c, { body: { name: _name, enabled: _enabled, ...draft }, query }) {
      const found = await previewRule(c.env, c.var.workspace.id, draft, query.days);
      if (found === null) return tooManyPreviews(c);
      return mayRead(c, "read") ? found : { ...found, samples: [] };
    },
  }),
  operation("POST", "/workspaces/:workspace_id/rules/:rule_id/apply", {
    summary: "Apply a mapping rule to stored signals",
    scope: "rules",
    description:
      "Changes the rule's scoring signals as if the rule had always been as it is now: missing ones are added, those of an " +
      "earlier version get the current name, points and version, and those that no longer match are removed. The scores " +
      "follow. Applying a disabled rule removes all of its scoring signals. Scoring signals whose signals are no longer " +
      "stored are kept, unless the rule is disabled. Runs in the background. A repeated call starts again with the " +
      "rule's current version.",
    answers: { 202: "The application has started." },
    schema: ruleJob,
    handle: (c) => applyRule(contextOf(c), c.req.param("rule_id")),
  }),
  operation("GET", "/workspaces/:workspace_id/rules/:rule_id/apply", {
    summary: "Follow the application of a mapping rule",
    scope: "read",
    description: "The latest application, even if it has finished or the rule was deleted.",
    answers: { 200: "The progress." },
    schema: ruleJob,
    noun: "application of a rule",
    handle: (c) => storeOf(c).ruleJob(c.req.param("rule_id")),
  }),
  operation("GET", "/workspaces/:workspace_id/signals/:signal_id/proposed-rule", {
    summary: "Propose a mapping rule from a stored signal",
    scope: "read",
    description:
      "A body for the creation of a rule that matches this signal: its event, and conditions from its payload. Works for " +
      "signals of the signal queue with a stored payload, not for identify calls and duplicates.",
    answers: { 200: "The proposed rule." },
    schema: proposedRule,
    noun: "signal",
    async handle(c) {
      const found = await proposeFrom(c.env, c.var.workspace.id, [c.req.param("signal_id")]);
      return found && { ...found, frequency: "every_time" as const, pointsLastDays: null };
    },
  }),
];

function rejectImport({ steps, exceededLimit }: RuleImport) {
  const errors = steps.flatMap((step, index) =>
    step.result === "rejected" ? [{ path: `items.${index}.name`, message: IMPORT_REJECTION[step.why] }] : [],
  );
  return reject(exceededLimit === null || errors.length > 0 ? errors : exceededLimit);
}

/** @param addedIds ids of the added rules, in order; empty for a dry run. */
function importResultOf({ steps, exclusions }: RuleImport, addedIds: readonly string[]): ImportResult {
  const ids = addedIds.values();
  const items = steps.flatMap((step): ImportResult["items"][number][] => {
    if (step.result === "rejected") return [];
    if (step.result === "added") {
      return [{ name: step.rule.name, result: step.result, ruleId: ids.next().value ?? null, changes: [] }];
    }
    const { result, before } = step;
    const after = result === "changed" ? step.rule : before;
    const changes = ruleDifferences(before, after).map(({ field }) => snakeCase(field));
    return [{ name: after.name, result, ruleId: before.id, changes }];
  });
  const sum = (result: string) => items.filter((item) => item.result === result).length;
  const { added, changed } = exclusions;
  return {
    added: sum("added"),
    changed: sum("changed"),
    unchanged: sum("unchanged"),
    exclusions: { added, changed },
    items,
  };
}
