/** Design §8.5: limits of a workspace's mapping rules, and the size of their audit entries. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { controlDatabase, type ControlDatabase } from "../../../src/d1/database.ts";
import { updateRule } from "../../../src/d1/rule-changes.ts";
import { rulesVersion } from "../../../src/d1/stored-rules.ts";
import { RULE_MAX_SIZE, WORKSPACE_MAX_RULES, WORKSPACE_RULES_MAX_SIZE } from "../../../src/limits.ts";
import { conditionsOf, RULE, storedRules } from "../../support/rules.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace();
});

const call = (method: string, path: string, body?: object) => workspace.ask(method, `/rules${path}`, body);
const create = (more: object = {}) => call("POST", "", { ...RULE, ...more });
const statusesOf = (answers: { status: number }[]) => answers.map(({ status }) => status).sort();
const version = () => rulesVersion(controlDatabase(env.DB), workspace.id);

const audit = () => workspace.audit("rule.");

describe("a workspace's mapping rules", () => {
  test("have a maximum number, also for concurrent creations, and rejected ones leave no trace", async () => {
    await env.DB.prepare(
      `INSERT INTO mapping_rules (id, workspace_id, name, event, match, conditions, scoring_signal, points, created_at, updated_at)
       WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2)
       SELECT ?1 || n, ?1, 'rule', 'e', 'all', '[]', 's', 1, '2026', '2026' FROM numbers`,
    )
      .bind(workspace.id, WORKSPACE_MAX_RULES - 3)
      .run();
    const answers = await Promise.all(Array.from({ length: 12 }, () => create()));
    expect(statusesOf(answers)).toEqual([...Array<number>(3).fill(201), ...Array<number>(9).fill(409)]);
    const rejected = answers.filter(({ status }) => status === 409).map(({ body }) => body["code"]);
    expect(new Set(rejected)).toEqual(new Set(["too_many_rules"]));
    expect(await storedRules(workspace)).toMatchObject({ count: WORKSPACE_MAX_RULES });
    expect(await audit()).toHaveLength(3);
    expect(await version()).toBe(3);
  });

  test("have a maximum total size, also for concurrent creations and changes", async () => {
    const of = conditionsOf(RULE_MAX_SIZE);
    const full = WORKSPACE_RULES_MAX_SIZE / RULE_MAX_SIZE;
    const answers = await Promise.all(Array.from({ length: full + 5 }, () => create({ conditions: of })));
    expect(statusesOf(answers)).toEqual([...Array<number>(full).fill(201), ...Array<number>(5).fill(409)]);
    expect(answers.find(({ status }) => status === 409)?.body).toMatchObject({ code: "rules_too_large" });
    expect(await storedRules(workspace)).toEqual({ count: full, size: WORKSPACE_RULES_MAX_SIZE });

    const ids = answers.filter(({ status }) => status === 201).map(({ body }) => String(body["id"]));
    const [first = "", second = "", third = ""] = ids;
    const change = (id: string, size: number) => call("PATCH", `/${id}`, { conditions: conditionsOf(size, "other") });
    expect(await create({ event: "F*" })).toMatchObject({ status: 409, body: { code: "rules_too_large" } });
    expect((await create({ event: "F" })).status).toBe(201);
    expect((await change(first, 300)).status).toBe(200);
    const before = { version: await version(), entries: (await audit()).length };
    await change(second, 300);
    await change(third, 300);
    // Room for 400 to 600 more each, but not for all of them.
    const changes = [first, second, third].map((id) => change(id, 500));
    const larger = await Promise.all([...changes, create({ conditions: of })]);
    expect(statusesOf(larger)).toContain(409);
    expect((await storedRules(workspace)).size).toBeLessThanOrEqual(WORKSPACE_RULES_MAX_SIZE);
    const made = larger.filter(({ status }) => status < 300).length + 2;
    expect(await version()).toBe(before.version + made);
    expect(await audit()).toHaveLength(before.entries + made);
  });
});

describe("the audit log of a rule", () => {
  test("lists each changed field with old and new value; a change without effect creates no version", async () => {
    const demo = { path: "properties.form", operator: "equals", value: "demo" };
    const paid = { path: "properties.paid", operator: "is_true" };
    const { body } = await create({ conditions: [demo] });
    const path = `/${String(body["id"])}`;
    await call("PATCH", path, { points: 5, name: "Wants a demo", match: "all" });
    await call("PATCH", path, { conditions: [paid], points: 5 });
    await call("PATCH", path, { enabled: false });
    const again = await call("PATCH", path, { points: 5, conditions: [paid], enabled: false });
    expect(again.body).toMatchObject({ version: 4 });
    expect(await version()).toBe(4);
    const entries = (await audit()).map(({ action, detail }) => [action, detail] as const);
    const updated = (to: number, changes: object) => ["rule.updated", { name: "Wants a demo", version: to, changes }];
    expect(entries).toEqual([
      ["rule.created", expect.objectContaining({ name: "Asked for a demo", points: 20, conditions: [demo] })],
      updated(2, { points: { from: 20, to: 5 }, name: { from: "Asked for a demo", to: "Wants a demo" } }),
      updated(3, { conditions: { removed: [demo], added: [paid] } }),
      updated(4, { enabled: { from: true, to: false } }),
    ]);
  });

  test("stays short for a large rule", async () => {
    const large = (of: string) => conditionsOf(480, of.padEnd(40, "x"));
    const { body } = await create({ conditions: large("first") });
    for (let number = 0; number < 5; number++) {
      const changed = await call("PATCH", `/${String(body["id"])}`, { conditions: large(`other ${number}`) });
      expect(changed.status).toBe(200);
    }
    const entries = await audit();
    expect(entries).toHaveLength(6);
    for (const { detail } of entries) {
      expect(JSON.stringify(detail).length).toBeLessThan(3_000);
    }
    expect(entries.map(({ detail }) => detail["conditions"] ?? detail["changes"])).toEqual([
      3,
      ...Array.from({ length: 5 }, () => ({ conditions: { removed: 3, added: 3 } })),
    ]);
  });

  test("compares each change with the version that it changed, also for concurrent changes", async () => {
    const { body } = await create();
    const id = String(body["id"]);
    const db = controlDatabase(env.DB);
    let points = 100;
    /** Another person changes the rule this many times between its read and its write. */
    const disturbed = (times: number): ControlDatabase => {
      let left = times;
      const batch = async (...statements: Parameters<ControlDatabase["batch"]>) => {
        if (left-- > 0) await call("PATCH", `/${id}`, { points: ++points });
        return db.batch(...statements);
      };
      return new Proxy(db, { get: (target, name) => (name === "batch" ? batch : Reflect.get(target, name)) });
    };
    const update = (times: number, name: string, seen: { version?: number } = {}) =>
      updateRule(workspace.context({ db: disturbed(times) }), id, { name }, seen);
    expect(await update(2, "Other")).toMatchObject({ ok: true, value: { name: "Other", points: 102, version: 4 } });
    const versions = (await audit()).slice(1).map(({ detail }) => detail["version"]);
    expect(versions.sort()).toEqual([2, 3, 4]);
    const rejected = { ok: false, rejection: "rule_changed" };
    expect(await update(1, "Third", { version: 4 })).toMatchObject(rejected);
    expect(await update(99, "Third")).toMatchObject(rejected);
    expect((await call("GET", `/${id}`)).body).toMatchObject({ name: "Other" });
  });
});
