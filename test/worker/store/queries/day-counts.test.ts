/**
 * Counts by day of event groups and mapping rules, kept by the store (see also delivery.property, rules-on-history).
 */
import { runInDurableObject } from "cloudflare:test";
import { beforeEach, expect, test } from "vitest";
import { ruleDaysOf } from "../../../support/adds-up.ts";
import { readStore, expectDaysToAddUp } from "../../../support/read-store.ts";
import { DAY, deliver } from "../../../support/deliver.ts";
import { until } from "../../../support/until.ts";
import { newWorkspace, type TestWorkspace } from "../../../support/workspace.ts";

let workspace: TestWorkspace;
const form = (n: number) => ({ event: "Filled Out Form", source: "web", email: `p${n}@example.com` });

let now: number;
beforeEach(async () => {
  now = Date.now();
  workspace = await newWorkspace();
  await workspace.operator("POST", "/rules", { name: "r", event: "Filled*", scoring_signal: "s", points: 1 });
  await deliver(workspace.id, [
    { id: "sig_1", ordinal: 1, payload: form(1), at: now - 2 * DAY },
    { id: "sig_2", ordinal: 2, payload: form(2), at: now - 2 * DAY },
    { id: "sig_3", ordinal: 3, payload: form(3), at: now },
    { id: "sig_4", ordinal: 4, payload: form(4), at: now - DAY, verdict: "held", periodEnd: now + 1_500 },
    { id: "sig_5", ordinal: 5, payload: form(3), at: now },
    { id: "sig_6", ordinal: 6, payload: { type: "track", event: "Seen", anonymousId: "visitor-1" }, at: now },
  ]);
});

test("counts by day add up before and after held signals are purged", async () => {
  await expectDaysToAddUp(workspace.id);
  await until(async () => {
    await runInDurableObject(workspace.store, (store) => store.alarm());
    expect(await workspace.store.signal("sig_4")).toMatchObject({ status: "purged" });
  });
  await expectDaysToAddUp(workspace.id);
});

test("a rule's counts stay as long as it has a score, of any day", async () => {
  await deliver(workspace.id, [{ id: "sig_old", ordinal: 7, payload: form(9), at: now - 90 * DAY }]);
  const scored = await readStore(workspace.id, (state) => [...ruleDaysOf(state)]);
  expect(scored.map(([, { count }]) => count)).toEqual([4]);
  const ruleId = scored[0]?.[0] ?? "";
  expect((await workspace.store.ruleResults([ruleId]))[0]?.hasScoringSignals).toBe(true);
  await workspace.store.applyRule({ ruleId, rule: null, rulesVersion: 1_000 });
  // The platform may have started this alarm already.
  await until(async () => {
    await runInDurableObject(workspace.store, (store) => store.alarm());
    expect((await workspace.store.ruleResults([ruleId]))[0]?.hasScoringSignals).toBe(false);
  });
});
