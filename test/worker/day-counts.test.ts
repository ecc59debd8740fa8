/** Counts per day of event groups and mapping rules, kept by the store (see also delivery.property, rules-on-history). */
import { runInDurableObject } from "cloudflare:test";
import { beforeEach, expect, test } from "vitest";
import type { SignalToRecord } from "../../src/store/protocol.ts";
import backfill from "../../migrations/signal-store/0002_backfill_days.sql";
import compact from "../../migrations/signal-store/0004_compact_days.sql";
import byBlock from "../../migrations/signal-store/0005_indexes_by_block.sql";
import { expectDaysToAddUp } from "./days.ts";
import { DAY, deliver } from "./deliver.ts";
import { migrate } from "./migrate.ts";
import { newWorkspace } from "./workspace.ts";
import type { TestWorkspace } from "./workspace.ts";

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

test("add up, also after held signals are released, purged, or turn out to be duplicates", async () => {
  await expectDaysToAddUp(workspace.id);
  await deliver(workspace.id, [{ id: "sig_7", ordinal: 7, payload: form(4), at: now - DAY }]);
  await expectDaysToAddUp(workspace.id);
  const held = { id: "sig_8", ordinal: 8, payload: form(8), at: now - 5 * DAY };
  await deliver(workspace.id, [{ ...held, verdict: "held", periodEnd: now + DAY }]);
  await deliver(workspace.id, [held]);
  await expectDaysToAddUp(workspace.id);
  await deliver(workspace.id, [{ ...held, id: "sig_9", payload: form(9), verdict: "held", periodEnd: now + 2_000 }]);
  await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
    sql.exec("UPDATE signals SET period_end = 1 WHERE id = 'sig_9'");
  });
  await runInDurableObject(workspace.store, (store) => store.alarm());
  expect(await workspace.store.signal("sig_9")).toMatchObject({ status: "purged" });
  await expectDaysToAddUp(workspace.id);
});

test("of what was stored before they were kept are made by the migrations", async () => {
  await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
    sql.exec("UPDATE event_groups SET days = NULL");
    sql.exec("DELETE FROM rule_days");
    migrate(sql, backfill);
    migrate(sql, compact);
    expect(sql.exec("SELECT count(*) AS rules FROM rule_days").one()).toEqual({ rules: 1 });
  });
  await expectDaysToAddUp(workspace.id);
});

test.each([
  ["none", "{}", ""],
  ["one day", '{"20764":12}', "20764,12"],
  ["days side by side", '{"20764":120,"20765":3,"20766":45}', "20766,45,3,120"],
  ["days with gaps between", '{"20764":12,"20766":4,"20769":1,"20770":100}', "20770,100,1,0,0,4,0,12"],
  ["days in disorder", '{"20766":1,"20763":12,"20764":4}', "20766,1,0,4,12"],
  ["thirty days", '{"20701":2,"20730":1}', `20730,1${",0".repeat(28)},2`],
  ["more than thirty days", '{"20700":3,"20702":2,"20730":1}', `20730,1${",0".repeat(27)},2`],
])("that are JSON, %s, are made compact by the migration", async (_, json, days) => {
  const migrated = await runInDurableObject(workspace.store, (__, { storage: { sql } }) => {
    sql.exec("UPDATE event_groups SET days = iif(event = 'Seen', NULL, ?)", json);
    sql.exec("UPDATE rule_days SET days = ?", json);
    migrate(sql, compact);
    return sql
      .exec("SELECT event AS name, days FROM event_groups UNION ALL SELECT 'rule', days FROM rule_days ORDER BY name")
      .toArray();
  });
  expect(migrated).toEqual([
    { name: "Filled Out Form", days },
    { name: "Seen", days: null },
    { name: "rule", days },
  ]);
});

test("of a rule are there for as long as it has scored anything, of whatever day: the migration sees to it", async () => {
  const { rules, again } = await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
    const [row] = sql.exec("SELECT rule_id, days FROM rule_days").toArray();
    sql.exec(
      "INSERT INTO scoring_signals SELECT NULL, signal_id, 'rule_old', 1, person_id, 's', 1, 0 FROM scoring_signals",
    );
    sql.exec("INSERT INTO rule_days VALUES ('rule_gone', '20764,1')");
    const stored = () => sql.exec("SELECT rule_id, days FROM rule_days ORDER BY rule_id").toArray();
    migrate(sql, byBlock);
    const migrated = stored();
    expect(migrated).toEqual(expect.arrayContaining([row, { rule_id: "rule_old", days: "" }]));
    migrate(sql, byBlock);
    return { rules: migrated, again: stored() };
  });
  expect(rules).toHaveLength(2);
  expect(again).toEqual(rules);
  expect(await workspace.store.hasScoringSignals("rule_old")).toBe(true);
});

test("cost one row written for each rule that matched and batch, and none for a group", async () => {
  const written = await runInDurableObject(workspace.store, async (store, { storage: { sql } }) => {
    const exec = sql.exec.bind(sql);
    const statements: string[] = [];
    sql.exec = ((query: string, ...bindings: SqlStorageValue[]) => {
      statements.push(query);
      return exec(query, ...bindings);
    }) as typeof sql.exec;
    const admission = { keyId: "k", endpoint: "signal_staging", verdict: "accepted", signalLimit: 9 } as const;
    const evaluation = {
      rulesTried: 1,
      matches: [{ ruleId: "rule_x", ruleVersion: 1, scoringSignal: "s", points: 1 }],
    };
    const signals = Array.from({ length: 50 }, (_, n): SignalToRecord => ({
      admission: {
        ...admission,
        id: `sig_x${n}`,
        ordinal: n,
        receivedAtMs: now - (n % 3) * DAY,
        periodStartMs: 1,
        periodEndMs: now + DAY,
      },
      payload: "{}",
      work: {
        kind: "signal",
        normalised: { kind: "signal", event: "e", source: "s", email: "x@example.com", traits: {}, hasOwnId: false },
        contentHash: null,
        duplicateWindowMs: 0,
        evaluation,
      },
    }));
    store.record([{ row: 1_000, atMs: now, signals }]);
    sql.exec = exec;
    return statements.filter((query) => /^\s*(INSERT|UPDATE)/i.test(query));
  });
  expect(written.filter((query) => query.includes("rule_days"))).toHaveLength(1);
  expect(written.filter((query) => query.includes("event_groups"))).toHaveLength(1);
});
