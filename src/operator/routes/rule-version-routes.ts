/** Versions of mapping rules: what each said, from when on and by whom, and going back to one. */
import * as z from "zod";
import { restoreRule } from "../../control/rule-changes.ts";
import { listRuleVersions, type RuleVersion } from "../../control/stored-rule-versions.ts";
import { RULE_VERSIONS_KEPT } from "../../limits.ts";
import { NO_ROOM, ruleFields } from "../../workspace/rule-schemas.ts";
import { byOperator, operator } from "../environment.ts";
import { conflict, notFound, operation } from "../operation.ts";
import { ruleAnswer, ruleJson } from "../answers/rule-answers.ts";
import { instant, listOf } from "../schema-parts.ts";

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
