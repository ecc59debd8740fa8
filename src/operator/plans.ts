/** Plans (spec §8). A changed limit reaches every workspace on the plan before the call returns. */
import * as z from "zod";
import { listPlans, putPlan, type Plan } from "../control/plans.ts";
import { byOperator, operator } from "./environment.ts";
import { operation, validationFailed } from "./operation.ts";
import { configurePlan } from "../workspace/quota.ts";
import { listOf, mapPage, name, pageQuery, toPage } from "./schemas.ts";

const PLAN_ID = /^[a-z0-9][a-z0-9_-]{0,62}$/;

const planFields = {
  name,
  signal_limit: z.int().min(1).max(1e12).meta({ description: "Signals per billing period (the allowance)." }),
  paid: z.boolean().meta({ description: "Only paid plans can lose the extra room." }),
};

const planAnswer = z
  .object({ id: z.string().meta({ example: "growth" }), ...planFields, name: z.string() })
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
    async (c) => c.json(mapPage(await listPlans(c.get("db"), toPage(c.req.valid("query"))), planJson)),
  )
  .put(
    "/plans/:plan_id",
    operation({
      tag: "Plans",
      summary: "Create or replace a plan",
      description: "A changed signal limit takes effect with the next signal of every workspace on the plan.",
      body: z.strictObject(planFields),
      bodyExample: { name: "Growth", signal_limit: 500_000, paid: true },
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
      const { signal_limit: signalLimit, ...rest } = c.req.valid("json");
      const plan: Plan = { id, signalLimit, ...rest };
      const { created } = await putPlan(c.get("db"), plan, byOperator());
      await configurePlan(c.env, c.get("db"), id);
      return c.json(planJson(plan), created ? 201 : 200);
    },
  );

function planJson({ id, name: label, signalLimit, paid }: Plan): z.infer<typeof planAnswer> {
  return { id, name: label, signal_limit: signalLimit, paid };
}
