/** Mapping rules (spec §1, design §8.5). Every change takes effect with the next signal that is processed. */
import * as z from "zod";
import { createRule, updateRule } from "../../control/rule-changes.ts";
import { findRule, listRules } from "../../control/stored-rules.ts";
import { byOperator, operator } from "../environment.ts";
import { endRule } from "../../workspace/rules-on-history.ts";
import { conflict, notFound, operation } from "../operation.ts";
import { ruleAnswer, ruleJobAnswer, ruleJobJson, ruleJson } from "../answers/rule-answers.ts";
import { newRule, NO_ROOM, ruleChange } from "../../workspace/rule-schemas.ts";
import { listOf, mapPage, pageQuery, pageAsked } from "../schema-parts.ts";

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
