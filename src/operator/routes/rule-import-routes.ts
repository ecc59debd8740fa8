/** Importing mapping rules, as the list gives them. */
import type { Context } from "hono";
import * as z from "zod";
import { ruleDifferences } from "../../domain/rules/rule-difference.ts";
import { importedOf, ruleFile } from "../../workspace/rule-file.ts";
import {
  canBeDone,
  IMPORT_REFUSAL,
  importRules,
  planRuleImport,
  type RuleImport,
} from "../../workspace/import-rules.ts";
import { NO_ROOM } from "../../workspace/rule-schemas.ts";
import { RULES_FILE_MAX_BYTES } from "../../limits.ts";
import { byOperator, operator, type OperatorEnv } from "../environment.ts";
import { conflict, operation, validationFailed } from "../operation.ts";
import { count, idOf } from "../schema-parts.ts";

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
