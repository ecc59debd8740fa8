/** Exclusions by the operator API: versions, preview by person, application to the past, import, and precise errors. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { isRulePath } from "../../../src/domain/rules/mapping-rule.ts";
import { EXCLUSIONS_MAX_SIZE, RULE_VERSIONS_KEPT, WORKSPACE_MAX_EXCLUSIONS } from "../../../src/limits.ts";
import { SCANNERS } from "../../../src/presets/scanners.ts";
import { deliver, type Delivered } from "../../support/deliver.ts";
import { scoresOf } from "../../support/read-store.ts";
import { applyExclusions } from "../../support/rules.ts";
import { askOperator, newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

interface Item {
  id?: string;
  name: string;
  match?: string;
  conditions: { path: string; operator: string; value?: unknown }[];
}

interface List {
  version: number;
  items: Required<Item>[];
}

const STAFF: Item = { name: "Staff", conditions: [{ path: "email", operator: "ends_with", value: "@own.example" }] };
const TESTS: Item = { name: "Tests", conditions: [{ path: "payload.test", operator: "is_true" }] };

let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace();
});

const put = (items: readonly Item[], more: object = {}) =>
  workspace.operator<List>("PUT", "/exclusions", { items, ...more });
const current = () => workspace.operator<List>("GET", "/exclusions");
const ask = (method: string, path: string, body?: unknown) =>
  askOperator(method, `/workspaces/${workspace.id}${path}`, body);

const visit = (n: number, email: string, more: object = {}): Delivered => ({
  id: `sig_${n}`,
  at: Date.now() - 60_000 + n,
  payload: { event: "Visit", email, messageId: `m${n}`, ...more },
});

async function scores(): Promise<Record<string, unknown>> {
  const { people } = await scoresOf(workspace.id);
  return Object.fromEntries(people.map(({ email, score }) => [email, score]));
}

describe("exclusions", () => {
  test("have a version for each change, with its author, and an audit entry", async () => {
    expect(await current()).toEqual({ version: 0, items: [] });
    const first = await put([STAFF]);
    expect(first).toMatchObject({ version: 1, items: [{ ...STAFF, match: "all" }] });
    const second = await put([TESTS, { ...STAFF, match: "any" }]);
    // The name says which exclusion it is, and it keeps its id.
    expect(second.items.map(({ id }) => id)).toEqual([expect.stringMatching(/^exc_/), first.items[0]?.id]);
    expect(await put([TESTS, { ...STAFF, match: "any" }])).toEqual(second);
    const renamed = await put([{ ...TESTS, id: second.items[0]?.id ?? "", name: "Test traffic" }]);
    expect(renamed.items[0]?.id).toBe(second.items[0]?.id);
    expect(await current()).toEqual(renamed);

    const versions = await workspace.list("/exclusions/versions");
    expect(versions.map(({ version, by }) => [version, by])).toEqual([
      [3, "operator"],
      [2, "operator"],
      [1, "operator"],
    ]);
    const restored = await workspace.operator<List>("POST", "/exclusions/versions/2/restore");
    expect(restored).toEqual({ version: 4, items: second.items });
    const entries = await env.DB.prepare(
      "SELECT detail FROM audit_log WHERE workspace_id = ? AND action = 'exclusions.changed' ORDER BY id",
    )
      .bind(workspace.id)
      .all<{ detail: string }>();
    expect(entries.results.map(({ detail }) => JSON.parse(detail) as unknown)).toEqual([
      { version: 1, added: ["Staff"], changed: [], removed: [] },
      { version: 2, added: ["Tests"], changed: ["Staff"], removed: [] },
      { version: 3, added: [], changed: ["Test traffic"], removed: ["Staff"] },
      { version: 4, back_to: 2, added: ["Staff"], changed: ["Tests"], removed: [] },
    ]);
  });

  test("are changed only by who has seen the newest version, if the call names one", async () => {
    await put([STAFF]);
    const late = await ask("PUT", "/exclusions", { items: [TESTS], version: 0 });
    expect([late.status, late.body["code"]]).toEqual([409, "exclusions_changed"]);
    expect(await put([TESTS], { version: 1 })).toMatchObject({ version: 2 });
    const both = await Promise.all([put([STAFF]), put([STAFF, TESTS])]);
    expect(both.map(({ version }) => version).toSorted()).toEqual([3, 4]);
  });

  test(`keep ${RULE_VERSIONS_KEPT} earlier versions`, async () => {
    for (let n = 1; n <= RULE_VERSIONS_KEPT + 3; n++) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await put([{ ...STAFF, name: `Staff ${n}` }]);
    }
    const versions = await workspace.list("/exclusions/versions");
    expect(versions).toHaveLength(RULE_VERSIONS_KEPT + 1);
    expect((await ask("POST", "/exclusions/versions/2/restore")).status).toBe(404);
  });

  const many = (count: number, of: Item = STAFF) => Array.from({ length: count }, (_, n) => ({ ...of, name: `N${n}` }));
  const values = (count: number) => Array.from({ length: count }, (_, n) => `v${n}`);
  const large = (name: string) => ({ name, conditions: [{ path: "event", operator: "in", value: values(200) }] });
  test.each<[string, unknown, string]>([
    [
      "a condition without a value",
      [{ ...STAFF, conditions: [{ path: "email", operator: "equals" }] }],
      "items.0.conditions.0.value: a value is needed",
    ],
    ["no condition", [TESTS, { name: "All", conditions: [] }], "items.1.conditions: an exclusion needs a condition"],
    [
      "an unknown path",
      [{ ...STAFF, conditions: [{ path: "user", operator: "exists" }] }],
      "items.0.conditions.0.path: use event",
    ],
    [
      "the same name twice",
      [STAFF, TESTS, { ...TESTS, name: "Staff" }],
      "items.2.name: an earlier exclusion has this name",
    ],
    ["an unknown field", [{ ...STAFF, points: 5 }], "items.0.points: unknown field"],
    ["too many", many(WORKSPACE_MAX_EXCLUSIONS + 1), "items: "],
    [
      "too large ones",
      values(6).map(large),
      `items: all exclusions together have 1,206 paths and values, and at most ${EXCLUSIONS_MAX_SIZE / 1_000},000 are allowed`,
    ],
  ])("with %s are rejected", async (_, items, message) => {
    const answer = await ask("PUT", "/exclusions", { items });
    expect([answer.status, answer.body["detail"]]).toEqual([422, expect.stringContaining(message)]);
    expect(await current()).toEqual({ version: 0, items: [] });
  });

  test("may be as many as the limit", async () => {
    expect((await put(many(WORKSPACE_MAX_EXCLUSIONS))).items).toHaveLength(WORKSPACE_MAX_EXCLUSIONS);
  });

  test("have a preset that is valid, for the user agents of scanners", async () => {
    const { items } = await workspace.operator<{ items: Item[] }>("GET", "/exclusions/presets");
    expect(items).toEqual([SCANNERS]);
    expect(SCANNERS.conditions.every(({ path }) => isRulePath(path))).toBe(true);
    await put(items);
    await workspace.operator("POST", "/rules", { name: "Visit", event: "Visit", scoring_signal: "v", points: 5 });
    const agent = (userAgent: string) => ({ type: "track", userId: "u", context: { userAgent } });
    await deliver(workspace.id, [
      visit(1, "ann@example.com", agent("Mozilla/5.0 HeadlessChrome/120.0")),
      visit(2, "bob@example.com", agent("Mozilla/5.0 (Macintosh) Safari/605.1.15")),
      visit(3, "cyd@example.com", { "event-data": { "client-info": { "user-agent": "curl/8.0" } } }),
    ]);
    expect(await scores()).toEqual({ "ann@example.com": 0, "bob@example.com": 5, "cyd@example.com": 0 });
  });
});

describe("exclusions and stored signals", () => {
  const HISTORY = [
    visit(1, "ann@own.example"),
    visit(2, "ann@own.example", { test: true }),
    visit(3, "bob@example.com"),
    visit(4, "bob@example.com", { test: true }),
  ];

  beforeEach(async () => {
    await workspace.operator("POST", "/rules", { name: "Each", event: "Visit", scoring_signal: "each", points: 5 });
    const once = { name: "Once", event: "Visit", scoring_signal: "once", points: 20, frequency: "once_ever" };
    await workspace.operator("POST", "/rules", once);
    await workspace.operator("PUT", "/thresholds", { thresholds: [28] });
  });

  test("a preview says who would lose and gain how much, which is what the application does", async () => {
    await deliver(workspace.id, HISTORY);
    expect(await scores()).toEqual({ "ann@own.example": 30, "bob@example.com": 30 });
    const preview = (items: Item[]) => workspace.operator("POST", "/exclusions/preview", { items });
    expect(await preview([STAFF, TESTS])).toMatchObject({
      excluded: 3,
      included: 0,
      covered: [
        { name: "Staff", signals: 2 },
        { name: "Tests", signals: 1 },
      ],
      people: 2,
      points: -35,
      by_person: [
        { email: "ann@own.example", points: -30, before: 30, after: 0 },
        { email: "bob@example.com", points: -5, before: 30, after: 25 },
      ],
      crossing: [{ threshold: 28, risen: 0, fallen: 2 }],
      samples: [
        { id: "sig_4", email: "bob@example.com", exclusion: "Tests" },
        { id: "sig_2", exclusion: "Staff" },
        { id: "sig_1", exclusion: "Staff" },
      ],
      scanned: 4,
      complete: true,
    });
    await put([STAFF, TESTS]);
    expect(await scores()).toEqual({ "ann@own.example": 30, "bob@example.com": 30 });
    expect(await applyExclusions(workspace)).toMatchObject({ version: 1, matched: 3, removed: 3, status: "done" });
    expect(await scores()).toEqual({ "ann@own.example": 0, "bob@example.com": 25 });

    expect(await preview([TESTS])).toMatchObject({ excluded: 0, included: 1, points: 25, people: 1 });
    expect(await preview([])).toMatchObject({ excluded: 0, included: 3, points: 35, people: 2 });
    await put([]);
    await applyExclusions(workspace);
    expect(await scores()).toEqual({ "ann@own.example": 30, "bob@example.com": 30 });
  });

  test("a preview says what a signal gains that takes its place back from a later version of a rule", async () => {
    await put([TESTS]);
    await applyExclusions(workspace);
    await deliver(workspace.id, [visit(1, "bob@example.com", { test: true })]);
    const { items: rules } = await workspace.operator<{ items: { id: string; name: string }[] }>("GET", "/rules");
    const once = rules.find(({ name }) => name === "Once");
    await workspace.operator("PATCH", `/rules/${once?.id}`, { points: 50 });
    await deliver(workspace.id, [visit(2, "bob@example.com")]);
    expect(await scores()).toEqual({ "bob@example.com": 55 });
    const preview = await workspace.operator("POST", "/exclusions/preview", { items: [] });
    await put([]);
    await applyExclusions(workspace);
    expect(await scores()).toEqual({ "bob@example.com": 30 });
    expect(preview).toMatchObject({ included: 1, by_person: [{ points: -25, before: 55, after: 30 }] });
  });

  test("a token without the scope read sees no people in a preview", async () => {
    await deliver(workspace.id, HISTORY);
    const { token } = await workspace.newToken(["rules"]);
    const headers = { authorization: `Bearer ${token}` };
    const path = `/workspaces/${workspace.id}/exclusions/preview`;
    const { body } = await askOperator("POST", path, { items: [STAFF] }, headers);
    expect(body).toMatchObject({ excluded: 2, by_person: [], samples: [] });
  });

  test("a trace names the exclusion, also after it was removed", async () => {
    const { items } = await put([STAFF]);
    await deliver(workspace.id, HISTORY);
    const trace = () => workspace.operator("GET", "/signals/sig_1");
    const excluded = { excluded_by: { id: items[0]?.id, name: "Staff" }, rules_matched: [], points: 0, rules_tried: 2 };
    expect(await trace()).toMatchObject(excluded);
    await put([]);
    expect(await trace()).toMatchObject(excluded);
    expect(await workspace.operator("GET", "/signals/sig_3")).toMatchObject({ excluded_by: null, points: 25 });
  });

  test("a change holds for the next signal that is processed", async () => {
    await deliver(workspace.id, HISTORY.slice(0, 1));
    await put([STAFF]);
    await deliver(workspace.id, HISTORY.slice(1, 2));
    await put([]);
    await deliver(workspace.id, [visit(9, "ann@own.example")]);
    expect(await scores()).toEqual({ "ann@own.example": 30 });
  });

  test("an application is audited, and there is none at first", async () => {
    expect((await ask("GET", "/exclusions/apply")).status).toBe(404);
    await put([STAFF]);
    await applyExclusions(workspace);
    const entries = env.DB.prepare(
      "SELECT detail FROM audit_log WHERE workspace_id = ? AND action = 'exclusions.applied'",
    );
    const { results } = await entries.bind(workspace.id).all<{ detail: string }>();
    expect(results.map(({ detail }) => JSON.parse(detail) as unknown)).toEqual([{ version: 1 }]);
  });
});

describe("an import", () => {
  const rule = { name: "Visit", event: "Visit", scoring_signal: "v", points: 5 };

  test("changes and adds exclusions, and keeps others", async () => {
    const { items } = await put([STAFF, { ...TESTS, name: "Kept" }]);
    const file = { items: [rule], exclusions: [{ ...STAFF, match: "any" }, TESTS] };
    const plan = await workspace.operator("POST", "/rules/import?dry_run=true", file);
    expect(plan).toMatchObject({ added: 1, exclusions: { added: ["Tests"], changed: ["Staff"] } });
    expect(await current()).toMatchObject({ version: 1 });
    await workspace.operator("POST", "/rules/import", file);
    const after = await current();
    expect(after).toMatchObject({ version: 2, items: [{ name: "Staff", match: "any" }, { name: "Kept" }, TESTS] });
    expect(after.items.slice(0, 2).map(({ id }) => id)).toEqual(items.map(({ id }) => id));
    expect(await workspace.operator("POST", "/rules/import", file)).toMatchObject({
      unchanged: 1,
      exclusions: { added: [], changed: [] },
    });
    expect(await current()).toEqual(after);
  });

  test("may have exclusions alone", async () => {
    await workspace.operator("POST", "/rules/import", { items: [], exclusions: [STAFF] });
    expect(await current()).toMatchObject({ version: 1, items: [STAFF] });
    expect((await ask("POST", "/rules/import", { items: [] })).body["detail"]).toContain(
      "items: the list has no rules",
    );
  });

  test("is rejected as a whole if exclusions are wrong or would be too many", async () => {
    await put(Array.from({ length: WORKSPACE_MAX_EXCLUSIONS }, (_, n) => ({ ...STAFF, name: `N${n}` })));
    const wrong = await ask("POST", "/rules/import", { items: [rule], exclusions: [{ ...STAFF, conditions: [] }] });
    expect([wrong.status, wrong.body["detail"]]).toEqual([422, expect.stringContaining("exclusions.0.conditions")]);
    const many = await ask("POST", "/rules/import", { items: [rule], exclusions: [STAFF] });
    expect([many.status, many.body["code"]]).toEqual([409, "too_many_exclusions"]);
    const { items } = await current();
    const renamed = { ...STAFF, id: items[0]?.id, name: "N1" };
    const taken = await ask("POST", "/rules/import", { items: [rule], exclusions: [renamed] });
    expect([taken.status, taken.body["code"]]).toEqual([409, "exclusion_name_taken"]);
    expect(await workspace.list("/rules")).toEqual([]);
  });
});
