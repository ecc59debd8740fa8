/** Plans (spec §8). A change is written to D1 only; the objects of the workspaces on the plan learn of it by its version. */
import * as z from "zod";
import { listPlans, putPlan } from "../d1/plans.ts";
import { unknownWorkspaces } from "../d1/workspaces.ts";
import { reject } from "../domain/result.ts";
import { name, recordId, boundedText } from "../http/fields.ts";
import { RETENTION_MAX_DAYS, RETENTION_MIN_DAYS } from "../limits.ts";
import { listQueryOf, camelKeys, listOf, listQuery, toJson, operationsOf } from "./operation.ts";

const operation = operationsOf("Plans", "plan");

const PLAN_MAX_WORKSPACES = 200;

const PLAN_ID = /^[a-z0-9][a-z0-9_-]{0,62}$/;

export const retentionDays = z.int().min(RETENTION_MIN_DAYS).max(RETENTION_MAX_DAYS).nullable();

const NOT_A_CURRENCY = "three capital letters, as in ISO 4217";

const terms = {
  name,
  signal_limit: z.int().min(1).max(1e12).describe("Signals per billing period (the allowance)."),
  paid: z.boolean().describe("Only paid plans can lose the extra room."),
  retention_days: retentionDays.describe(
    "Days for which a signal is kept after its receipt. Null: for ever. People, scores and scoring signals stay.",
  ),
  offered_to: z
    .array(recordId)
    .max(PLAN_MAX_WORKSPACES)
    .nullable()
    .describe(
      "Ids of the workspaces whose owners and admins may choose the plan on their Usage page. Null: all workspaces. The operator API may put any workspace on any plan.",
    ),
  overage_price: z
    .strictObject({
      per_thousand: z.number().min(0).max(1e6).describe("Price of 1,000 overages, in units of the currency."),
      currency: boundedText(3, { error: NOT_A_CURRENCY })
        .regex(/^[A-Z]{3}$/, NOT_A_CURRENCY)
        .meta({ example: "EUR" }),
    })
    .nullable()
    .describe("Price of overages that the Usage page shows. Null: no price is shown. This service bills nothing."),
};
const planBody = z.strictObject({
  ...terms,
  retention_days: terms.retention_days.default(null),
  offered_to: terms.offered_to.default(null),
  overage_price: terms.overage_price.default(null),
});
const plan = z.object({ id: z.string().meta({ example: "growth" }), ...terms, name: z.string() }).meta({ id: "Plan" });

export const planRoutes = [
  operation("GET", "/plans", {
    summary: "List the plans",
    query: listQuery,
    answers: { 200: "The plans, by id." },
    schema: listOf(plan),
    handle: (c, { query }) => listPlans(c.var.db, listQueryOf(query)),
  }),
  operation("PUT", "/plans/:plan_id", {
    summary: "Create or replace a plan",
    description:
      "Takes effect for each workspace on the plan within a minute of the workspace's next call. A changed retention takes " +
      "effect with the next signal, or within a day without signals.",
    body: planBody,
    bodyExample: {
      name: "Growth",
      signal_limit: 500_000,
      paid: true,
      retention_days: 395,
      overage_price: { per_thousand: 0.4, currency: "EUR" },
    },
    answers: { 200: "The changed plan.", 201: "The new plan." },
    schema: plan,
    async handle(c, { body: { overagePrice, ...body } }) {
      const id = c.req.param("plan_id");
      if (!PLAN_ID.test(id)) {
        return reject([{ path: "plan_id", message: "lower-case letters, digits, `-` and `_`; at most 63" }]);
      }
      const stored = { id, ...body, overagePrice: overagePrice && camelKeys(overagePrice) };
      const unknown = await unknownWorkspaces(c.var.db, stored.offeredTo ?? []);
      if (unknown.length > 0) {
        return reject([{ path: "offered_to", message: `there is no workspace ${unknown.join(", ")}` }]);
      }
      const { created } = await putPlan(c.var.db, stored, c.var.by);
      return created ? c.json(toJson(plan, stored) as object, 201) : stored;
    },
  }),
];
