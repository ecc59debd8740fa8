import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { controlDatabase } from "../../../src/d1/database.ts";
import { putPlan, type Plan } from "../../../src/d1/plans.ts";

async function entriesOf(plan: string) {
  const rows = await env.DB.prepare("SELECT action FROM audit_log WHERE target = ? ORDER BY action").bind(plan).all();
  return rows.results.map(({ action }) => action);
}

test("each change of a plan leaves one audit entry, also if the same call comes twice at once", async () => {
  const db = controlDatabase(env.DB);
  const by = { actor: "test", nowMs: Date.now() };
  const plan: Plan = {
    id: "twice",
    name: "Twice",
    signalLimit: 10,
    paid: true,
    retentionDays: null,
    offeredTo: null,
    overagePrice: null,
  };
  const both = (terms: Plan) => Promise.all([putPlan(db, terms, by), putPlan(db, terms, by)]);
  const created = await both(plan);
  expect(created.filter((made) => made.created)).toHaveLength(1);
  expect(await entriesOf(plan.id)).toEqual(["plan.created"]);
  await both({ ...plan, signalLimit: 20, offeredTo: ["ws_1"], overagePrice: { perThousand: 2, currency: "EUR" } });
  expect(await entriesOf(plan.id)).toEqual(["plan.created", "plan.updated"]);
});
