/**
 * Import of mapping rules (design §8.5) by the operator API: all or nothing, within the limits, also concurrently.
 */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { controlDatabase } from "../../../src/d1/database.ts";
import {
  RULES_STATEMENT_MAX_CHARACTERS,
  WORKSPACE_RULE_VERSIONS_MAX_CHARACTERS,
  writeImport,
} from "../../../src/d1/rule-changes.ts";
import { readAllRules, rulesVersion } from "../../../src/d1/stored-rules.ts";
import type { RuleContent } from "../../../src/domain/rules/rule-content.ts";
import { RULE_MAX_SIZE, WORKSPACE_MAX_RULES, WORKSPACE_RULES_MAX_SIZE } from "../../../src/limits.ts";
import { OPERATOR_BODY_MAX_BYTES } from "../../../src/operator/operation.ts";
import { deliver } from "../../support/deliver.ts";
import { conditionsOf, RULE, storedRules } from "../../support/rules.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

const db = controlDatabase(env.DB);
let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace();
});

const NEW = { ...RULE, name: "New" };
const FULL = { ...RULE, match: "all", conditions: [], frequency: "every_time", points_last_days: null, enabled: true };

const call = (method: string, path: string, body?: unknown, of = workspace) => of.ask(method, `/rules${path}`, body);
const load = (items: unknown[], query = "", of = workspace) => call("POST", `/import${query}`, { items }, of);
const create = (more: object = {}) => call("POST", "", { ...RULE, ...more });
const listed = async (of = workspace) => (await call("GET", "?limit=200", undefined, of)).body["items"] as object[];
const version = () => rulesVersion(db, workspace.id);

const audit = () => workspace.audit("rule");

describe("a rule import", () => {
  test("adds and changes rules in one step, with one rules version and one audit entry; other rules stay", async () => {
    const { body: changed } = await create({ name: "Changed" });
    await create({ name: "Left alone" });
    const { body: same } = await create({ name: "Same", frequency: "once_ever", points_last_days: 30, enabled: false });
    const before = await version();
    const { status, body } = await load([
      { ...RULE, name: "Changed", points: -3, enabled: false, frequency: "once_per_day" },
      same,
      NEW,
    ]);
    expect([status, body]).toEqual([
      200,
      {
        added: 1,
        changed: 1,
        unchanged: 1,
        exclusions: { added: [], changed: [] },
        items: [
          { name: "Changed", result: "changed", rule_id: changed["id"], changes: ["points", "frequency", "enabled"] },
          { name: "Same", result: "unchanged", rule_id: same["id"], changes: [] },
          { name: "New", result: "added", rule_id: expect.stringMatching(/^rule_/), changes: [] },
        ],
      },
    ]);
    expect(await version()).toBe(before + 1);
    const rules = await listed();
    expect(rules).toHaveLength(4);
    expect(rules.find((rule) => "id" in rule && rule.id === changed["id"])).toMatchObject({
      ...FULL,
      name: "Changed",
      points: -3,
      enabled: false,
      frequency: "once_per_day",
      version: 2,
      created_at: changed["created_at"],
    });
    expect(rules).toContainEqual(same);
    expect(rules[0]).toMatchObject({ ...FULL, name: "New", version: 1, updated_by: "operator" });
    const versions = await call("GET", `/${String(changed["id"])}/versions`);
    expect(versions.body["items"]).toMatchObject([{ version: 2 }, { version: 1, points: 20 }]);
    expect((await audit()).at(-1)).toMatchObject({
      action: "rules.imported",
      detail: { added: 1, changed: 1, names: ["New", "Changed"] },
    });
    // From the next signal on: by the unchanged rule and by the new one.
    await deliver(workspace.id, [
      { id: "sig_1", payload: { event: "Form", email: "jane@example.com", properties: {} } },
    ]);
    const people = await workspace.operator<{ items: object[] }>("GET", "/people");
    expect(people.items).toMatchObject([{ email: "jane@example.com", score: 40 }]);
    // An import without effect leaves no trace.
    expect((await load(await listed())).body).toMatchObject({ added: 0, changed: 0, unchanged: 4 });
    expect([await version(), (await audit()).length]).toEqual([before + 1, 4]);
  });

  test("of another workspace's list creates the same rules in the same order, with any texts", async () => {
    const texts = ['"\\', "é\u2028\u{1F600}", "a\tb", "\ud800", "null", "1e400", "007"];
    const conditions = texts.map((value, n) => ({
      path: `properties.${value}${n}`,
      operator: "in",
      value: [value, 0.1, 1e15, true],
    }));
    for (const [n, text] of texts.entries()) {
      await create({
        name: `Rule ${n}`,
        event: `${text}*`,
        points: n - 3,
        points_last_days: [null, 30, 365][n % 3],
        match: n % 2 === 0 ? "all" : "any",
        conditions,
      });
    }
    const otherWorkspace = await newWorkspace();
    const exported = await listed();
    const sent = texts.map((text, n) => ({ name: `Rule ${n}`, event: `${text.toWellFormed()}*`, points: n - 3 }));
    expect(exported).toMatchObject(sent.toReversed());
    expect((await load(exported, "", otherWorkspace)).body).toMatchObject({ added: texts.length, changed: 0 });
    const withoutIds = (rules: object[]) => rules.map((rule) => ({ ...rule, id: "", created_at: "", updated_at: "" }));
    expect(withoutIds(await listed(otherWorkspace))).toEqual(withoutIds(exported));
    const sizes = env.DB.prepare("SELECT group_concat(size) AS sizes FROM mapping_rules WHERE workspace_id = ?");
    const of = async ({ id }: TestWorkspace) => sizes.bind(id).first("sizes");
    expect(await of(otherWorkspace)).toBe(await of(workspace));
    expect(await listed()).toEqual(exported);
  });

  test("in a dry run reports the same steps and changes nothing", async () => {
    const { body } = await create();
    const tried = await load([{ ...RULE, points: 5 }, NEW], "?dry_run=true");
    const [changed, added] = [
      { rule_id: body["id"], changes: ["points"] },
      { result: "added", rule_id: null },
    ];
    expect(tried.body).toMatchObject({ added: 1, changed: 1, items: [changed, added] });
    expect(await listed()).toEqual([body]);
    expect([await version(), (await audit()).length]).toEqual([1, 1]);
  });

  test("with errors lists them rule by rule and changes nothing", async () => {
    await create();
    await create();
    const before = await version();
    const tooLarge = { ...RULE, conditions: conditionsOf(RULE_MAX_SIZE + 1) };
    for (const [items, errors] of [
      [[NEW, { ...RULE, points: "many" }], [{ path: "items.1.points" }]],
      [[NEW, RULE], [{ path: "items.1.name", message: expect.stringContaining("several rules") }]],
      [[{ ...NEW, unknown: 1 }], [{ path: "items.0.unknown", message: "unknown field" }]],
      [
        [NEW, tooLarge],
        [{ path: "items.1.conditions", message: expect.stringContaining("at most 500 paths and values") }],
      ],
      [[], [{ path: "items" }]],
      [Array.from({ length: WORKSPACE_MAX_RULES + 1 }, () => RULE), [{ path: "items" }]],
    ] as const) {
      for (const query of ["", "?dry_run=true"]) {
        expect(await load([...items], query)).toMatchObject({ status: 422, body: { errors } });
      }
    }
    expect([(await storedRules(workspace)).count, await version()]).toEqual([2, before]);
  });
});

const many = (count: number, of: string, more: object = {}) =>
  Array.from({ length: count }, (_, n) => ({ ...RULE, name: `${of} ${n}`, ...more }));

describe("the limits on a workspace's rules in imports", () => {
  test("allow exactly the maximum number of rules, in statements that D1 accepts", async () => {
    const wide = { name: "", event: "e".repeat(255), scoring_signal: "s".repeat(255) };
    const all = many(WORKSPACE_MAX_RULES, "n", wide).map((rule, n) => ({ ...rule, name: `${n} `.padEnd(255, "n") }));
    expect(JSON.stringify(all).length).toBeGreaterThan(2 * RULES_STATEMENT_MAX_CHARACTERS);
    expect((await load(all)).body).toMatchObject({ added: WORKSPACE_MAX_RULES });
    expect(await load([{ ...RULE, name: "One more" }])).toMatchObject({
      status: 409,
      body: { code: "too_many_rules" },
    });
    const changed = all.map((rule) => ({ ...rule, points: 1, conditions: conditionsOf(10) }));
    expect(JSON.stringify(changed).length).toBeGreaterThan(OPERATOR_BODY_MAX_BYTES);
    expect((await load(changed)).body).toMatchObject({ changed: WORKSPACE_MAX_RULES });
    expect(await storedRules(workspace)).toEqual({ count: WORKSPACE_MAX_RULES, size: WORKSPACE_RULES_MAX_SIZE });
    const larger = [{ ...changed[0], conditions: conditionsOf(11) }];
    expect(await load(larger)).toMatchObject({ status: 409, body: { code: "rules_too_large" } });
    // Space freed by one rule is available to another.
    const moved = [...larger, { ...changed[1], conditions: conditionsOf(9) }];
    expect((await load(moved)).body).toMatchObject({ changed: 2 });

    // Stored versions have a limit too, because all workspaces share the database.
    expect((await load(all)).body).toMatchObject({ changed: WORKSPACE_MAX_RULES });
    const sum = env.DB.prepare("SELECT sum(size) AS characters FROM rule_versions WHERE workspace_id = ?");
    const characters = await sum.bind(workspace.id).first<number>("characters");
    expect(characters).toBeGreaterThan(WORKSPACE_RULE_VERSIONS_MAX_CHARACTERS / 2);
    expect(characters).toBeLessThanOrEqual(WORKSPACE_RULE_VERSIONS_MAX_CHARACTERS);
    for (const { detail } of await audit()) expect(JSON.stringify(detail).length).toBeLessThan(3_000);
  });

  test("hold for concurrent imports and creations: each import is complete or has no effect", async () => {
    const half = WORKSPACE_MAX_RULES / 2 - 2;
    const answers = await Promise.all([
      ...["a", "b", "c"].map((of) => load(many(half, of))),
      ...many(3, "single").map((rule) => call("POST", "", rule)),
    ]);
    const made = answers.slice(0, 3).filter(({ status }) => status === 200).length;
    expect(made).toBeGreaterThan(0);
    expect(made).toBeLessThan(3);
    const singles = answers.slice(3).filter(({ status }) => status === 201).length;
    const { count } = await storedRules(workspace);
    expect(count).toBe(made * half + singles);
    expect(count).toBeLessThanOrEqual(WORKSPACE_MAX_RULES);
    expect(await version()).toBe(made + singles);
    expect(await audit()).toHaveLength(made + singles);
    const rejected = answers.slice(0, 3).filter(({ status }) => status !== 200);
    for (const { status, body } of rejected) {
      expect([status, body["code"]]).toEqual([409, expect.stringMatching(/^(too_many_rules|rules_changed)$/)]);
    }
  });
});

test("an import writes nothing if a rule has changed since it read all rules", async () => {
  await create();
  const { rules, rulesVersion: read } = await readAllRules(db, workspace.id);
  const [rule] = rules;
  if (rule === undefined) throw new Error("no rule");
  const content: RuleContent = { ...rule, points: 1 };
  const write = { added: [{ ...content, name: "New" }], changed: [{ id: rule.id, rule: content }], exclusions: null };
  await call("PATCH", `/${rule.id}`, { points: 99 });
  const [before, entries] = [await listed(), await audit()];
  expect(await writeImport(workspace.context(), write, read)).toBeNull();
  expect([await listed(), await audit(), await version()]).toEqual([before, entries, read + 1]);
  expect((await call("GET", `/${rule.id}/versions`)).body["items"]).toHaveLength(2);
  // A rule of another workspace cannot be addressed by its id.
  const otherWorkspace = await newWorkspace();
  const theirs = await writeImport(
    otherWorkspace.context(),
    { added: [], changed: write.changed, exclusions: null },
    await rulesVersion(db, otherWorkspace.id),
  );
  expect([theirs, await listed()]).toEqual([[], before]);
});
