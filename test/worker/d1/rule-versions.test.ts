/** Design §8.5: versions of mapping rules, their differences, going back, and the limits on stored versions. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { controlDatabase } from "../../../src/d1/database.ts";
import {
  createRule,
  deleteRule,
  restoreRule,
  updateRule,
  WORKSPACE_RULE_VERSIONS_MAX_CHARACTERS,
} from "../../../src/d1/rule-changes.ts";
import { findRule, listRuleVersions, rulesOf, rulesVersion } from "../../../src/d1/stored-rules.ts";
import type { RuleContent } from "../../../src/domain/rules/rule-content.ts";
import { RULE_VERSIONS_KEPT } from "../../../src/limits.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

const db = controlDatabase(env.DB);
let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace();
});

const RULE: RuleContent = {
  name: "Asked for a demo",
  event: "Filled Out *",
  match: "all",
  conditions: [{ path: "properties.form", operator: "equals", value: "demo" }],
  scoringSignal: "demo",
  points: 20,
  frequency: "every_time",
  pointsLastDays: 90,
  enabled: true,
};
let clock = Date.UTC(2026, 10, 1);
/** The context of a change by this person, a minute after the previous one. */
const by = (actor: string) => workspace.context({ by: { actor, nowMs: (clock += 60_000) } });

async function newRule(more: Partial<RuleContent> = {}): Promise<string> {
  const created = await createRule(by("operator"), { ...RULE, ...more });
  if (!created.ok) throw new Error(created.rejection);
  return created.value.id;
}

const change = (id: string, to: Partial<RuleContent>, actor = "a@example.com") => updateRule(by(actor), id, to);
const versions = async (id: string) => (await listRuleVersions(db, workspace.id, id))?.versions ?? [];

describe("the versions of a mapping rule", () => {
  test("are listed with content, start and author, current version first", async () => {
    const id = await newRule();
    await change(id, { points: 25 }, "a@example.com");
    await change(id, { conditions: [], enabled: false, frequency: "once_per_day" }, "b@example.com");
    await change(id, { points: 25 }, "c@example.com");
    const found = await versions(id);
    expect(found.map(({ version, by: who }) => [version, who])).toEqual([
      [3, "b@example.com"],
      [2, "a@example.com"],
      [1, "operator"],
    ]);
    expect(found[0]).toMatchObject({ points: 25, conditions: [], enabled: false, frequency: "once_per_day" });
    expect(found[1]).toMatchObject({ ...RULE, points: 25 });
    expect(found[2]).toMatchObject(RULE);
    const times = found.map(({ at }) => at);
    expect(times).toEqual(times.toSorted().toReversed());
  });

  test("are deleted with their rule", async () => {
    const id = await newRule();
    await change(id, { points: 25 });
    await deleteRule(by("a@example.com"), { ruleId: id, scoringSignals: "keep" });
    expect(await listRuleVersions(db, workspace.id, id)).toBeNull();
    const rows = env.DB.prepare("SELECT count(*) AS rows FROM rule_versions WHERE workspace_id = ?").bind(workspace.id);
    expect(await rows.first("rows")).toBe(0);
  });

  test("are the latest of each rule, independent of other rules", async () => {
    const [id, otherRule] = [await newRule(), await newRule({ name: "Other" })];
    await change(otherRule, { points: 1 });
    for (let points = 100; points < 105 + RULE_VERSIONS_KEPT; points++) await change(id, { points });
    const found = await versions(id);
    expect(found.map(({ points }) => points)).toEqual(
      Array.from({ length: RULE_VERSIONS_KEPT + 1 }, (_, n) => 104 + RULE_VERSIONS_KEPT - n),
    );
    expect(await versions(otherRule)).toHaveLength(2);
  });

  test("of large rules are fewer: the total size is limited, and the oldest are deleted first", async () => {
    const large = WORKSPACE_RULE_VERSIONS_MAX_CHARACTERS / 20;
    const insert = env.DB.prepare(
      `INSERT INTO rule_versions (workspace_id, rule_id, version, size, at, by, name, event, match, scoring_signal, points, frequency, enabled, conditions)
       WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 30)
       SELECT ?1, 'rule_' || (n % 3), n, ?2, printf('2026-01-%02d', n), 'operator', 'n', 'e', 'all', 's', 1, 'every_time', 1, '[]' FROM numbers`,
    );
    await insert.bind(workspace.id, large).run();
    const id = await newRule();
    await change(id, { conditions: [{ path: "event", operator: "contains", value: "x".repeat(250) }] });
    await change(id, { conditions: [] });
    const rows = env.DB.prepare(
      "SELECT rule_id || ' ' || version AS row, size FROM rule_versions WHERE workspace_id = ? ORDER BY at",
    );
    const { results } = await rows.bind(workspace.id).all<{ row: string; size: number }>();
    // Two small versions replace a large one.
    expect(results.map(({ row }) => row.replace(id, "changed"))).toEqual([
      ...Array.from({ length: 19 }, (_, n) => `rule_${(n + 12) % 3} ${n + 12}`),
      "changed 1",
      "changed 2",
    ]);
    expect(results.at(-1)?.size).toBeGreaterThan(500);
  });
});

test("compiled rules follow D1 back to an earlier version, as after a restore of D1", async () => {
  const id = await newRule({ points: 1 });
  const compiled = async () => {
    const { version, rules } = await rulesOf(env.DB, workspace.id);
    return [version, ...rules.byWildcard.map(({ rule }) => rule.match.points)];
  };
  const [before] = await compiled();
  await change(id, { points: 2 });
  expect(await compiled()).toEqual([Number(before) + 1, 2]);
  await env.DB.batch([
    env.DB.prepare("UPDATE workspaces SET rules_version = ? WHERE id = ?").bind(before, workspace.id),
    env.DB.prepare("UPDATE mapping_rules SET points = 1 WHERE id = ?").bind(id),
  ]);
  expect(await compiled()).toEqual([before, 1]);
});

describe("going back to a version", () => {
  test("creates a new version with the same content and an audit entry", async () => {
    const id = await newRule();
    await change(id, { points: 25, name: "Renamed" });
    await change(id, { enabled: false });
    const before = await rulesVersion(db, workspace.id);
    const restored = await restoreRule(by("b@example.com"), id, 1, 3);
    expect(restored).toMatchObject({ ok: true, value: { ...RULE, version: 4, updatedBy: "b@example.com" } });
    expect(await rulesVersion(db, workspace.id)).toBe(before + 1);
    expect((await versions(id)).map(({ version, name }) => [version, name])).toEqual([
      [4, "Asked for a demo"],
      [3, "Renamed"],
      [2, "Renamed"],
      [1, "Asked for a demo"],
    ]);
    expect((await workspace.audit("rule")).at(-1)).toMatchObject({
      action: "rule.updated",
      detail: {
        name: "Asked for a demo",
        version: 4,
        back_to: 1,
        changes: {
          name: { from: "Renamed", to: "Asked for a demo" },
          points: { from: 25, to: 20 },
          enabled: { from: false, to: true },
        },
      },
    });
  });

  test("is rejected if the rule has changed in between or the version does not exist", async () => {
    const id = await newRule();
    await change(id, { points: 25 });
    expect(await restoreRule(by("b@example.com"), id, 1, 1)).toMatchObject({ rejection: "rule_changed" });
    for (const version of [0, 3, -1]) {
      expect(await restoreRule(by("b@example.com"), id, version)).toMatchObject({ rejection: "not_found" });
    }
    expect(await findRule(db, workspace.id, id)).toMatchObject({ version: 2, points: 25 });
  });
});
