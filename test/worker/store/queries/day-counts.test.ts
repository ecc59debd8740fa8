/**
 * Counts by day of event groups and mapping rules, kept by the store (see also delivery.property, rules-on-history).
 */
import { runInDurableObject } from "cloudflare:test";
import { beforeEach, expect, test } from "vitest";
import { ruleDaysOf } from "../../../support/adds-up.ts";
import { readStore, expectDaysToAddUp, heldIn } from "../../../support/read-store.ts";
import { DAY, deliver } from "../../../support/deliver.ts";
import { until } from "../../../support/until.ts";
import { newWorkspace } from "../../../support/workspace.ts";
import type { TestWorkspace } from "../../../support/workspace.ts";

let workspace: TestWorkspace;
const now = Date.now();
const form = (n: number) => ({ event: "Filled Out Form", source: "web", email: `p${n}@example.com` });

beforeEach(async () => {
  workspace = await newWorkspace();
  await workspace.operator("POST", "/rules", { name: "r", event: "Filled*", scoring_signal: "s", points: 1 });
  await deliver(workspace.id, [
    { id: "sig_1", ordinal: 1, payload: form(1), at: now - 2 * DAY },
    { id: "sig_2", ordinal: 2, payload: form(2), at: now - 2 * DAY },
    { id: "sig_3", ordinal: 3, payload: form(3), at: now },
    { id: "sig_4", ordinal: 4, payload: form(4), at: now - DAY, verdict: "held", periodEnd: now + 1_000 },
    { id: "sig_5", ordinal: 5, payload: form(3), at: now },
    { id: "sig_6", ordinal: 6, payload: { type: "track", event: "Seen", anonymousId: "visitor-1" }, at: now },
  ]);
});

test("counts by day add up, also after held signals are released, purged or found to be duplicates", async () => {
  await expectDaysToAddUp(workspace.id);
  await deliver(workspace.id, [{ id: "sig_7", ordinal: 7, payload: form(4), at: now - DAY }]);
  await expectDaysToAddUp(workspace.id);
  const held = { id: "sig_8", ordinal: 8, payload: form(8), at: now - 5 * DAY };
  await deliver(workspace.id, [{ ...held, verdict: "held", periodEnd: now + DAY }]);
  await expectDaysToAddUp(workspace.id);
  const [stored] = await heldIn(workspace.id, now + DAY);
  await deliver(workspace.id, [{ ...held, resent: { from: "held", place: stored?.place ?? 0 } }]);
  expect(await workspace.store.signal("sig_8")).toMatchObject({ status: "processed", points: 1 });
  await expectDaysToAddUp(workspace.id);
  const short = { ...held, id: "sig_9", ordinal: 9, payload: form(9), verdict: "held" as const };
  await deliver(workspace.id, [{ ...short, periodEnd: Date.now() + 100 }]);
  await until(async () => {
    await runInDurableObject(workspace.store, (store) => store.alarm());
    expect(await workspace.store.signal("sig_9")).toMatchObject({ status: "purged" });
  });
  await expectDaysToAddUp(workspace.id);
});

test("a rule's counts stay as long as it has a score, of any day", async () => {
  await deliver(workspace.id, [{ id: "sig_old", ordinal: 7, payload: form(9), at: now - 90 * DAY }]);
  const scored = await readStore(workspace.id, (state) => [...ruleDaysOf(state)]);
  expect(scored.map(([, { count }]) => count)).toEqual([4]);
  const ruleId = scored[0]?.[0] ?? "";
  expect((await workspace.store.ruleFacts([ruleId]))[0]?.hasScoringSignals).toBe(true);
  await workspace.store.applyRule({ ruleId, rule: null, rulesVersion: 1_000 });
  // The platform may have started this alarm already.
  await until(async () => {
    await runInDurableObject(workspace.store, (store) => store.alarm());
    expect((await workspace.store.ruleFacts([ruleId]))[0]?.hasScoringSignals).toBe(false);
  });
});
