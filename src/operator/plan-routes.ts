/** Plans (spec §8). A change is written to D1 alone; the objects of the workspaces on the plan learn of it by its version. */
import * as z from "zod";
import { listPlans, planTerms, putPlan, type Plan } from "../control/plans.ts";
import { unknownWorkspaces } from "../control/workspaces.ts";
import { byOperator, operator } from "./environment.ts";
import { operation, validationFailed } from "./operation.ts";
import { listOf, mapPage, name, pageAsked, pageQuery, retentionDays } from "./schema-parts.ts";

/** Maximum number of workspaces to which a plan is offered by name. */
const PLAN_MAX_WORKSPACES = 200;

const PLAN_ID = /^[a-z0-9][a-z0-9_-]{0,62}$/;

const terms = {
  name,
  signal_limit: z.int().min(1).max(1e12).meta({ description: "Signals per billing period (the allowance)." }),
  paid: z.boolean().meta({ description: "Only paid plans can lose the extra room." }),
};

/** Terms that may be left out, and are null then. */
const optionalTerms = {
  retention_days: retentionDays.meta({
    description:
      "Days after its receipt that a signal is kept; null: for ever. People, scores and scoring signals stay.",
  }),
  offered_to: z.array(z.string().max(255)).max(PLAN_MAX_WORKSPACES).nullable().meta({
    description:
      "Ids of the workspaces whose owners and admins may choose the plan on their Usage page; null: all may. Any workspace may be put on any plan here.",
  }),
  overage_price: z
    .strictObject({
      per_thousand: z.number().min(0).max(1e6).meta({ description: "For 1,000 overages, in units of the currency." }),
      currency: z
        .string()
        .regex(/^[A-Z]{3}$/, "three capital letters, as in ISO 4217")
        .meta({ example: "EUR" }),
    })
    .nullable()
    .meta({
      description:
        "What overages cost, told on the Usage page; null: nothing is told. Nothing is billed here: that is for whoever runs the service.",
    }),
};

const planBody = z.strictObject({
  ...terms,
  retention_days: optionalTerms.retention_days.default(null),
  offered_to: optionalTerms.offered_to.default(null),
  overage_price: optionalTerms.overage_price.default(null),
});
const planAnswer = z
  .object({ id: z.string().meta({ example: "growth" }), ...terms, name: z.string(), ...optionalTerms })
  .meta({ id: "Plan" });

export const planRoutes = operator
  .createApp()
  .get(
    "/plans",
    operation({
      tag: "Plans",
      summary: "List the plans",
      query: pageQuery,
      answers: { 200: { description: "The plans, by id.", schema: listOf(planAnswer) } },
    }),
    async (c) => c.json(mapPage(await listPlans(c.get("db"), pageAsked(c.req.valid("query"))), planJson)),
  )
  .put(
    "/plans/:plan_id",
    operation({
      tag: "Plans",
      summary: "Create or replace a plan",
      description:
        "A change takes effect for each workspace on the plan within a minute of its next call; a changed retention with its " +
        "next signal, and within a day where none comes.",
      body: planBody,
      bodyExample: {
        name: "Growth",
        signal_limit: 500_000,
        paid: true,
        retention_days: 395,
        overage_price: { per_thousand: 0.4, currency: "EUR" },
      },
      answers: {
        200: { description: "The plan as it is now.", schema: planAnswer },
        201: { description: "The new plan.", schema: planAnswer },
      },
    }),
    async (c) => {
      const id = c.req.param("plan_id");
      if (!PLAN_ID.test(id)) {
        return validationFailed(c, [
          { path: "plan_id", message: "lower-case letters, digits, `-` and `_`; at most 63" },
        ]);
      }
      const plan = toPlan(id, c.req.valid("json"));
      const unknown = await unknownWorkspaces(c.get("db"), plan.offeredTo ?? []);
      if (unknown.length > 0) {
        return validationFailed(c, [{ path: "offered_to", message: `there is no workspace ${unknown.join(", ")}` }]);
      }
      const { created } = await putPlan(c.get("db"), plan, byOperator());
      return c.json(planJson(plan), created ? 201 : 200);
    },
  );

function toPlan(id: string, { overage_price: price, ...body }: z.infer<typeof planBody>): Plan {
  return {
    id,
    name: body.name,
    paid: body.paid,
    signalLimit: body.signal_limit,
    retentionDays: body.retention_days,
    offeredTo: body.offered_to,
    overagePrice: price === null ? null : { perThousand: price.per_thousand, currency: price.currency },
  };
}

function planJson(plan: Plan): z.infer<typeof planAnswer> {
  return { id: plan.id, ...planTerms(plan) };
}
