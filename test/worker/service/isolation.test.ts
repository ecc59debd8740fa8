/** Invariant 8: a workspace never sees another's data, with any ids, keys or cursors in a request. */
import { beforeAll, describe, expect, test } from "vitest";
import { newId } from "../../../src/platform/ids.ts";
import { lose, TestCounter } from "../../support/counter.ts";
import { deliver } from "../../support/deliver.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

let mine: TestWorkspace;
let otherWorkspace: TestWorkspace;
let theirSignal: string;
let theirRule: string;

const RULE = { name: "rule", event: "Visit", match: "all", conditions: [], scoring_signal: "visit", points: 3 };
const TEMPLATE = [
  { target: "external_id", path: "id", type: "string" },
  { target: "name", path: "region", type: "string" },
];
const LISTS_WITH_CURSOR = ["people", "signals", "events", "dead-letters", "rules", "keys", "accounts", "tokens"];
const LISTS = [...LISTS_WITH_CURSOR, "rejections", "members"];

interface Page {
  items: Record<string, unknown>[];
  next: string | null;
}

beforeAll(async () => {
  mine = await newWorkspace();
  otherWorkspace = await newWorkspace();
  const rules = await Promise.all(
    [otherWorkspace, mine].map((workspace) => workspace.operator<{ id: string }>("POST", "/rules", RULE)),
  );
  theirRule = rules[0]?.id ?? "";
  for (const workspace of [otherWorkspace, mine]) {
    const name = workspace === mine ? "mine" : "theirs";
    await workspace.operator("POST", "/members", { email: `${name}@example.com`, role: "admin" });
    for (const n of [1, 2]) await workspace.newToken(["read"], { name: `${name} ${n}` });
    for (const n of [1, 2, 3]) {
      const signal = { event: "Visit", properties: { secret: name }, messageId: `m${n}` };
      await workspace.send({ ...signal, email: `${name}-${n}@example.com` });
    }
    await workspace.send({ email: `${name}@example.com`, event: `Only ${name}` });
    await workspace.send({ no: "event" });
    const accounts = await workspace.newKey({ endpoint_type: "product_org", payload_template: TEMPLATE });
    const updates = [1, 2].map((n) => ({ id: `${name}-${n}`, region: name }));
    await workspace.send(updates, { path: "/api/product-orgs/webhook/{key}", key: accounts.key });
    await workspace.settled();
    for (const n of [1, 2]) await deliver(workspace.id, [{ id: newId("sig", Date.now()), payload: `{"${name} ${n}` }]);
  }
  const page = await otherWorkspace.operator<Page>("GET", "/signals");
  theirSignal = String(page.items.at(-1)?.["id"]);
});

describe("an id of another workspace", () => {
  test("of a signal, processed or in flight, is not found", async () => {
    expect((await otherWorkspace.ask("GET", `/signals/${theirSignal}`)).status).toBe(200);
    expect((await mine.ask("GET", `/signals/${theirSignal}`)).status).toBe(404);

    const stuck = await newWorkspace();
    await new TestCounter(stuck.id).sendTo(lose);
    const { id } = await (await stuck.send({ email: "a@example.com", event: "Visit" })).json<{ id: string }>();
    expect((await stuck.ask("GET", `/signals/${id}`)).status).toBe(200);
    expect((await mine.ask("GET", `/signals/${id}`)).status).toBe(404);
  });

  test("of a rule is not found, and the rule is unchanged", async () => {
    for (const [method, path] of [
      ["GET", ""],
      ["PATCH", ""],
      ["DELETE", ""],
      ["GET", "/versions"],
      ["POST", "/versions/1/restore"],
      ["POST", "/apply"],
    ] as const) {
      const body = method === "PATCH" ? { points: 1_000 } : undefined;
      expect((await mine.ask(method, `/rules/${theirRule}${path}`, body)).status, method + path).toBe(404);
    }
    const rules = await otherWorkspace.operator<Page>("GET", "/rules");
    expect(rules.items).toMatchObject([{ id: theirRule, points: 3 }]);
  });

  test("of an API key is not found, and the key stays active", async () => {
    const key = `/keys/${otherWorkspace.key.id}`;
    expect((await mine.ask("POST", `${key}/deactivate`)).status).toBe(404);
    expect((await mine.ask("POST", `${key}/rotate`, { overlap: "none" })).status).toBe(404);
    expect((await mine.ask("PATCH", key, { silent_after_days: 1 })).status).toBe(404);
    expect((await otherWorkspace.send({ email: "again@example.com", event: "Again" })).status).toBe(202);
  });
});

describe("lists", () => {
  test.each(LISTS)("%s contain nothing of the other workspace, also with its filters and cursors", async (list) => {
    const foreign = JSON.stringify((await otherWorkspace.operator<Page>("GET", `/${list}`)).items);
    expect(foreign).not.toBe("[]");
    const pages = [await mine.operator<Page>("GET", `/${list}`)];
    if (LISTS_WITH_CURSOR.includes(list)) {
      const { next } = await otherWorkspace.operator<Page>("GET", `/${list}?limit=1`);
      if (next !== null) pages.push(await mine.operator<Page>("GET", `/${list}?cursor=${encodeURIComponent(next)}`));
    }
    for (const { items } of pages) {
      const text = JSON.stringify(items);
      expect(text).not.toContain("theirs");
      for (const id of foreign.match(/(sig|key|rule|req|tok)_[0-9a-f-]+/g) ?? []) expect(text).not.toContain(id);
    }
  });

  test("find nothing by an id or an email that only the other workspace has", async () => {
    for (const path of [
      "/accounts?external_id=theirs-1",
      "/people?email=theirs-1@example.com",
      "/signals?email=theirs-1@example.com",
    ]) {
      expect((await otherWorkspace.operator<Page>("GET", path)).items).toHaveLength(1);
      expect((await mine.operator<Page>("GET", path)).items).toEqual([]);
    }
  });
});

test("the same content in two workspaces is not a duplicate, and counts and scores in both", async () => {
  for (const workspace of [await newWorkspace(), await newWorkspace()]) {
    await workspace.operator("POST", "/rules", RULE);
    const signal = { email: "a@example.com", event: "Visit", messageId: "same" };
    expect((await workspace.send(signal, { headers: { "idempotency-key": "same" } })).status).toBe(202);
    expect(await workspace.settled()).toMatchObject({ accepted: 1, processed: 1, duplicates: 0 });
    const { items } = await workspace.operator<Page>("GET", "/people");
    expect(items).toMatchObject([{ email: "a@example.com", score: 3 }]);
    expect(await workspace.operator("GET", "/usage")).toMatchObject({ accepted: 1 });
  }
});
