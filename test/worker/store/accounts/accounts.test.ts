/** Spec §1, §2.1, design §8.7: account data, from the call to the account and its history. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ACCOUNT_HISTORY_SHOWN, ACCOUNT_PAGE_MAX_CHARACTERS, ROW_MAX_BYTES } from "../../../../src/limits.ts";
import { signalStore } from "../../../../src/workspace/objects.ts";
import { DAY, MINUTE, consumeMessages, deliver, inOrder, messageOf } from "../../../support/deliver.ts";
import type { Delivered, Placed } from "../../../support/deliver.ts";
import { assertForSoLong } from "../../../support/for-so-long.ts";
import { call, newWorkspace } from "../../../support/workspace.ts";
import type { AccountChange, BatchAnswer, Problem, TestWorkspace } from "../../../support/workspace.ts";
import { deadIn } from "../../../support/read-store.ts";

const TEMPLATE = [
  { target: "external_id", path: "company.id", type: "string" },
  { target: "name", path: "company.name", type: "string" },
  { target: "plan", path: "plan", type: "string" },
  { target: "user_count", path: "seats", type: "number" },
  { target: "recurring_revenue", path: "mrr", type: "number" },
  { target: "trial_status", path: "trial", type: "string" },
  { target: "feature_flags", path: "flags", type: "json" },
  { target: "attributes.region", path: "region", type: "string" },
  { target: "attributes.active", path: "active", type: "boolean" },
];
const KEY = { endpoint_type: "product_org", payload_template: TEMPLATE };
const PATH = "/api/product-orgs/webhook/{key}";
const START = Date.UTC(2026, 0, 10);

type Account = Record<string, unknown> & { external_id: string; history: AccountChange[] };

interface AccountPage {
  items: Account[];
  next: string | null;
}

const newAccounts = (signalLimit = 1_000_000) => newWorkspace({ signalLimit, key: KEY });

async function accepted(workspace: TestWorkspace, body: unknown): Promise<string> {
  const response = await workspace.send(body, { path: PATH });
  expect(response.status).toBe(202);
  return (await response.json<{ id: string }>()).id;
}

function list(workspace: TestWorkspace, query = ""): Promise<AccountPage> {
  return workspace.operator<AccountPage>("GET", `/accounts${query}`);
}

async function accountOf(workspace: TestWorkspace, externalId: string): Promise<Account | undefined> {
  const { items, next } = await list(workspace, `?external_id=${encodeURIComponent(externalId)}`);
  expect(next).toBeNull();
  expect(items.length).toBeLessThan(2);
  return items[0];
}

/** An account update on its way to the consumer, of the workspace's key. */
function update(workspace: TestWorkspace, signal: Delivered): Delivered {
  return { ...signal, envelope: { endpoint: "product_org", key: workspace.key.id, ...signal.envelope } };
}

describe("an account update", () => {
  test("creates an account with the template's types, its changes and the signal of each", async () => {
    const workspace = await newAccounts();
    const first = await accepted(workspace, {
      company: { id: " acme-42 ", name: "Acme" },
      plan: "trial",
      seats: "12",
      mrr: 0,
      trial: "running",
      flags: { beta: true, limits: [1, { deep: null }] },
      region: "emea",
      active: "yes",
      ignored: 1,
    });
    await workspace.settled();
    const second = await accepted(workspace, { company: { id: "acme-42" }, plan: "pro", seats: 12, region: null });
    expect(await workspace.settled()).toMatchObject({ accepted: 2, processed: 2, balanced: true });

    const receivedAt = async (id: string) => (await workspace.operator("GET", `/signals/${id}`))["received_at"];
    const [firstAt, secondAt] = [await receivedAt(first), await receivedAt(second)];
    const flags = { beta: true, limits: [1, { deep: null }] };
    expect(await list(workspace)).toEqual({
      items: [
        {
          external_id: "acme-42",
          name: "Acme",
          plan: "pro",
          user_count: 12,
          recurring_revenue: 0,
          trial_status: "running",
          feature_flags: flags,
          attributes: { region: "emea", active: true },
          first_seen: firstAt,
          last_seen: secondAt,
          history: [
            { field: "plan", before: "trial", after: "pro", at: secondAt, signal_id: second },
            ...[
              ["feature_flags", flags],
              ["name", "Acme"],
              ["plan", "trial"],
              ["recurring_revenue", 0],
              ["trial_status", "running"],
              ["user_count", 12],
            ].map(([field, after]) => ({ field, before: null, after, at: firstAt, signal_id: first })),
          ],
        },
      ],
      next: null,
    });
  });

  test("of several templates are one account, to which each contributes its fields", async () => {
    const workspace = await newAccounts();
    const billing = await workspace.newKey({
      endpoint_type: "product_org",
      payload_template: [
        { target: "external_id", path: "customer", type: "number" },
        { target: "recurring_revenue", path: "amount", type: "number" },
        { target: "attributes.currency", path: "currency", type: "string" },
      ],
    });
    await accepted(workspace, { company: { id: 42, name: "Acme" }, region: "emea" });
    await workspace.send({ customer: "42", amount: 99.5, currency: "EUR" }, { path: PATH, key: billing.key });
    await workspace.settled();
    expect((await list(workspace)).items).toMatchObject([
      { external_id: "42", name: "Acme", recurring_revenue: 99.5, attributes: { region: "emea", currency: "EUR" } },
    ]);
  });

  test("returns a 422 that names every wrong path, is listed as refused, and counts nothing", async () => {
    const workspace = await newAccounts();
    const response = await workspace.send({ company: { name: "Acme" }, seats: "many" }, { path: PATH });
    const problem = await response.json<Problem>();
    expect([response.status, problem.code]).toEqual([422, "template_mismatch"]);
    expect(problem.detail).toContain("`company.id` (for `external_id`) is required, but is missing.");
    expect(problem.detail).toContain("`seats` (for `user_count`) must be a number");
    const { items } = await workspace.operator<{ items: unknown[] }>("GET", "/rejections");
    expect(problem.detail).toMatch(/ You sent "many" at `seats`\.$/);
    expect(items).toMatchObject([{ code: "template_mismatch", detail: problem.detail.replace(/ You sent .*$/, "") }]);
    expect(await workspace.books()).toMatchObject({ accepted: 0, in_flight: 0 });
    expect(await workspace.operator("GET", "/usage")).toMatchObject({ accepted: 0, held: 0 });
  });

  test("in an array are applied in order, and valid ones are kept beside invalid ones", async () => {
    const workspace = await newAccounts();
    const of = (id: unknown, seats: unknown) => ({ company: { id }, seats });
    const response = await workspace.send([of("a1", 1), of(null, 1), of("b1", "x"), 7, of("a1", 2)], { path: PATH });
    expect(response.status).toBe(202);
    const { results, ...counts } = await response.json<BatchAnswer>();
    expect(counts).toEqual({ status: "partial", accepted: 2, held: 0, rejected: 3 });
    expect(results.map(({ code = null }) => code)).toEqual([
      null,
      "template_mismatch",
      "template_mismatch",
      "signal_not_object",
      null,
    ]);
    expect(results[1]?.detail).toContain("`company.id`");
    expect(results[2]?.detail).toContain("`seats`");
    expect(await workspace.settled()).toMatchObject({ accepted: 2, processed: 2, dead_lettered: 0 });
    const { items } = await list(workspace);
    expect(items).toMatchObject([{ external_id: "a1", user_count: 2 }]);
    expect(items[0]?.history.map(({ after, signal_id }) => [after, signal_id])).toEqual([
      [2, results[4]?.id],
      [1, results[0]?.id],
    ]);

    const none = await workspace.send([of(null, 1)], { path: PATH });
    expect([none.status, (await none.json<Problem>()).code]).toEqual([422, "template_mismatch"]);
  });

  test("of a rotated key is mapped by the successor's template, which is the same", async () => {
    const workspace = await newAccounts();
    const body = { overlap: "24h" };
    const { key } = await workspace.operator<{ key: string }>("POST", `/keys/${workspace.key.id}/rotate`, body);
    expect((await workspace.send({ company: { id: "a1" }, plan: "p" }, { path: PATH, key })).status).toBe(202);
    await workspace.settled();
    expect(await accountOf(workspace, "a1")).toMatchObject({ plan: "p" });
  });

  test("takes no effect while it is held", async () => {
    const workspace = await newAccounts(1);
    await accepted(workspace, { company: { id: "a1" }, plan: "first" });
    await accepted(workspace, { company: { id: "a1" }, plan: "held", region: "held" });
    expect(await workspace.settled()).toMatchObject({ processed: 1, held: 1, balanced: true });
    expect(await accountOf(workspace, "a1")).toMatchObject({ plan: "first", attributes: {} });
  });

  test("with the same content again is no duplicate, but the latest value", async () => {
    const workspace = await newAccounts();
    for (const plan of ["a", "b", "a"]) {
      await accepted(workspace, { company: { id: "x1" }, plan });
      await workspace.settled();
    }
    expect(await workspace.books()).toMatchObject({ processed: 3, duplicates: 0 });
    const account = await accountOf(workspace, "x1");
    expect(account?.history.map(({ before, after }) => [before, after])).toEqual([
      ["b", "a"],
      ["a", "b"],
      [null, "a"],
    ]);
  });
});

test("a repeated account update with its Idempotency-Key is a duplicate and overwrites nothing newer", async () => {
  const workspace = await newAccounts();
  for (const [key, plan] of [
    ["k1", "starter"],
    ["k2", "scale"],
    ["k1", "starter"],
    ["k1", "another"],
  ] as const) {
    const headers = { "idempotency-key": key };
    const response = await workspace.send({ company: { id: "x1" }, plan }, { path: PATH, headers });
    expect(response.status).toBe(202);
    await workspace.settled();
  }
  expect(await workspace.books()).toMatchObject({ processed: 2, duplicates: 2, balanced: true });
  const account = await accountOf(workspace, "x1");
  expect(account).toMatchObject({ plan: "scale" });
  expect(account?.history).toHaveLength(2);
});

describe("the consumer", () => {
  test("makes a dead letter of an update that it cannot map, and of no other signal", async () => {
    const workspace = await newAccounts();
    const otherWorkspace = await newAccounts();
    const good = { company: { id: "a1" }, plan: "p" };
    await deliver(workspace.id, [
      update(workspace, { id: "sig_good", payload: good }),
      update(workspace, { id: "sig_mismatch", payload: { company: {} } }),
      update(workspace, { id: "sig_no_object", payload: "7" }),
      update(workspace, { id: "sig_broken", payload: "{" }),
      update(workspace, { id: "sig_no_key", payload: good, envelope: { key: "key_unknown" } }),
      update(workspace, { id: "sig_foreign_key", payload: good, envelope: { key: otherWorkspace.key.id } }),
      { id: "sig_signal", payload: { event: "e", email: "a@example.com" } },
    ]);
    const store = signalStore(env, workspace.id);
    const dead = (await store.deadLetters({ cursor: null, limit: 50 })).items;
    expect(dead.map(({ id }) => id).sort()).toEqual([
      "sig_broken",
      "sig_foreign_key",
      "sig_mismatch",
      "sig_no_key",
      "sig_no_object",
    ]);
    expect(dead.find(({ id }) => id === "sig_mismatch")?.reason).toContain("`company.id` (for `external_id`)");
    expect(dead.find(({ id }) => id === "sig_no_key")?.reason).toContain("no longer stored");
    expect(await store.totals()).toMatchObject({ processed: 2, deadLettered: 5 });
    expect((await list(workspace)).items.map(({ external_id }) => external_id)).toEqual(["a1"]);
  });

  test("delays the batch while the database does not answer, and creates no dead letter", async () => {
    const workspace = await newAccounts();
    // The mapping rules are readable, the templates are not.
    const withSession = () => ({
      prepare(query: string) {
        if (query.includes("api_keys")) throw new Error("D1 is down");
        return env.DB.prepare(query);
      },
    });
    const message = messageOf(workspace.id, [
      update(workspace, { id: "sig_1", payload: { company: { id: "a1" }, plan: "p" } }),
    ]);
    const bindings = { ...env, DB: { withSession } } as unknown as Env;
    const { retryMessages } = await consumeMessages([message], { bindings });
    expect(retryMessages).toHaveLength(1);
    expect(await signalStore(env, workspace.id).totals()).toMatchObject({ processed: 0, deadLettered: 0 });
  });
});

describe("an account of many large values", () => {
  const NAMES = Array.from({ length: 95 }, (_, at) => `a${String(at).padStart(2, "0")}`);
  const LARGE = "é".repeat(30_000);
  const newLarge = () =>
    newWorkspace({
      key: {
        ...KEY,
        payload_template: [
          ...TEMPLATE.slice(0, 3),
          ...NAMES.map((name) => ({ target: `attributes.${name}`, path: name, type: "json" })),
        ],
      },
    });
  const large = (name: string) => ({ company: { id: "large" }, plan: name, [name]: { text: LARGE } });

  /** The stored row in bytes. */
  function rowBytes(workspace: TestWorkspace): Promise<number> {
    return runInDurableObject(
      workspace.store,
      (_, { storage }) =>
        storage.sql
          .exec<{ bytes: number }>(
            `SELECT length(CAST(external_id || ifnull(name, '') || ifnull(plan, '') || attributes || claims AS BLOB)) AS bytes
             FROM accounts WHERE external_id = 'large'`,
          )
          .one().bytes,
    );
  }

  test("accepts updates up to its limit; each further one is a dead letter with the reason, and its neighbours are recorded", async () => {
    const workspace = await newLarge();
    const small = (at: number) => ({ company: { id: "small" }, plan: `p${at}` });
    const body = NAMES.flatMap((name, at) => [large(name), small(at)]);
    expect((await workspace.send(body, { path: PATH })).status).toBe(202);
    const books = await workspace.settled();
    const taken = NAMES.slice(0, books.processed - NAMES.length);
    expect(taken.length).toBeGreaterThan(20);
    expect(books).toMatchObject({
      accepted: 2 * NAMES.length,
      dead_lettered: NAMES.length - taken.length,
      in_flight: 0,
      balanced: true,
    });

    const account = await accountOf(workspace, "large");
    expect(Object.keys(account?.["attributes"] ?? {})).toEqual(taken);
    expect(account).toMatchObject({ plan: taken.at(-1) });
    expect(account?.history).toHaveLength(taken.length);
    expect(await accountOf(workspace, "small")).toMatchObject({ plan: "p94" });
    const bytes = await rowBytes(workspace);
    expect(bytes).toBeLessThanOrEqual(ROW_MAX_BYTES);
    expect(bytes).toBeGreaterThan(ROW_MAX_BYTES - 61_000);

    const { items: dead } = await signalStore(env, workspace.id).deadLetters({ cursor: null, limit: 200 });
    expect(dead).toHaveLength(NAMES.length - taken.length);
    for (const { reason } of dead)
      expect(reason).toMatch(/^The account would take 1,5\d\d,\d{3} bytes .*`attributes\.a/);
  });

  test("fails no batch and repeats nothing, and smaller values make room for the refused update", async () => {
    const workspace = await newLarge();
    const signal = (id: string, payload: unknown, ordinal: number) =>
      update(workspace, { id, payload, ordinal, at: START + ordinal });
    const { retryMessages } = await deliver(
      workspace.id,
      NAMES.map((name, at) => signal(`sig_${name}`, large(name), at + 1)),
    );
    expect(retryMessages).toEqual([]);
    const before = await workspace.store.totals();
    expect(before.processed + before.deadLettered).toBe(NAMES.length);
    const account = await accountOf(workspace, "large");

    // The refused update has left no trace, also when it is redelivered or replayed too early.
    const last = signal("sig_a94", large("a94"), 95);
    const replayed = async (): Promise<Delivered> => {
      const dead = (await deadIn(workspace.id)).find(({ admission }) => admission.id === last.id);
      return { ...last, resent: { from: "dead", place: dead?.place ?? 0 } };
    };
    for (const again of [last, await replayed()]) {
      await deliver(workspace.id, [again]);
      expect(await workspace.store.totals()).toEqual(before);
      expect(await accountOf(workspace, "large")).toEqual(account);
    }

    await deliver(workspace.id, [signal("sig_small", { company: { id: "large" }, plan: "pro", a00: "x" }, 96)]);
    expect(await accountOf(workspace, "large")).toMatchObject({ plan: "pro", attributes: { a00: "x" } });
    await deliver(workspace.id, [last]);
    expect(await workspace.store.totals()).toMatchObject({ deadLettered: before.deadLettered });
    await deliver(workspace.id, [await replayed()]);
    expect(await workspace.store.totals()).toMatchObject({
      processed: before.processed + 2,
      deadLettered: before.deadLettered - 1,
    });
    expect(await accountOf(workspace, "large")).toMatchObject({ plan: "pro", attributes: { a94: { text: LARGE } } });
  });
});

describe("the list of accounts", () => {
  test("is paged from new to old", async () => {
    const workspace = await newAccounts();
    const ids = ["a", "b", "c", "d", "e"];
    await workspace.send(
      ids.map((id) => ({ company: { id: `acct-${id}` } })),
      { path: PATH },
    );
    await workspace.settled();
    const seen: string[] = [];
    let query = "?limit=2";
    for (;;) {
      const { items, next } = await list(workspace, query);
      seen.push(...items.map(({ external_id }) => external_id));
      if (next === null) break;
      expect(items).toHaveLength(2);
      query = `?limit=2&cursor=${next}`;
    }
    expect(seen).toEqual(["acct-e", "acct-d", "acct-c", "acct-b", "acct-a"]);
    expect(await accountOf(workspace, "acct-c")).toMatchObject({ external_id: "acct-c" });
    expect(await accountOf(workspace, "acct")).toBeUndefined();
    expect((await list(await newAccounts())).items).toEqual([]);
  });

  test("shows the latest changes of a long history", async () => {
    const workspace = await newAccounts();
    const updates = Array.from({ length: ACCOUNT_HISTORY_SHOWN + 5 }, (_, seats) => ({ company: { id: "a1" }, seats }));
    await workspace.send(updates, { path: PATH });
    await workspace.settled();
    const history = (await accountOf(workspace, "a1"))?.history ?? [];
    expect(history).toHaveLength(ACCOUNT_HISTORY_SHOWN);
    expect(history.map(({ after }) => after)).toEqual(
      updates
        .map(({ seats }) => seats)
        .slice(-ACCOUNT_HISTORY_SHOWN)
        .toReversed(),
    );
  });

  test("has shorter pages for very large accounts, and omits none", async () => {
    const workspace = await newAccounts();
    const [accounts, versions] = [4, 40];
    const large = (version: number) => `${version}`.padEnd(50_000, "x");
    for (let version = 0; version < versions; version++) {
      const payload = (at: number) => ({ company: { id: `a${at}` }, flags: large(version) });
      await deliver(
        workspace.id,
        Array.from({ length: accounts }, (_, at) =>
          update(workspace, { id: `sig_${version}_${at}`, payload: payload(at) }),
        ),
      );
    }
    const store = signalStore(env, workspace.id);
    const seen: string[] = [];
    let pages = 0;
    for (let cursor: string | null = null; ; pages++) {
      const page = await store.accounts({}, { cursor, limit: 200 });
      expect(JSON.stringify(page).length).toBeLessThan(3 * ACCOUNT_PAGE_MAX_CHARACTERS);
      seen.push(...page.items.map(({ externalId }) => externalId));
      cursor = page.next;
      if (cursor === null) break;
    }
    expect(seen).toEqual(["a3", "a2", "a1", "a0"]);
    expect(pages).toBeGreaterThan(0);
  });
});

describe("the preview of a template", () => {
  async function preview(body: unknown): Promise<{ status: number; body: Record<string, unknown> }> {
    const workspace = await newAccounts();
    const response = await call(`/operator/workspaces/${workspace.id}/accounts/preview`, {
      method: "POST",
      headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}` },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
    expect((await list(workspace)).items).toEqual([]);
    expect(await workspace.books()).toMatchObject({ accepted: 0 });
    return { status: response.status, body: await response.json() };
  }

  test("shows the record that a call would create, with only the sample's fields", async () => {
    const sample = { company: { id: 7 }, seats: " 12 ", active: "off", plan: "" };
    expect(await preview({ payload_template: TEMPLATE, sample })).toEqual({
      status: 200,
      body: { record: { external_id: "7", user_count: 12, attributes: { active: false } } },
    });
  });

  test("lists every error of a refused call, in the template's order", async () => {
    const sample = { company: { name: "Acme" }, seats: "many" };
    expect(await preview({ payload_template: TEMPLATE, sample })).toEqual({
      status: 200,
      body: {
        errors: [
          { target: "external_id", path: "company.id", code: "missing", detail: expect.stringContaining("company.id") },
          {
            target: "user_count",
            path: "seats",
            code: "wrong_type",
            detail: expect.stringContaining("a number"),
            sent: '"many"',
          },
        ],
      },
    });
  });

  const ID = { target: "external_id", path: "id", type: "string" };
  const nested = (levels: number) => `${'{"id":'.repeat(levels)}1${"}".repeat(levels)}`;
  test.each([
    ["a template that no key may have", { payload_template: [], sample: {} }, "payload_template"],
    [
      "an external id that is true or false",
      { payload_template: [{ ...ID, type: "boolean" }], sample: {} },
      "payload_template.0.type",
    ],
    ["no sample", { payload_template: [ID] }, "sample"],
    ["a sample that is no object", { payload_template: [ID], sample: [] }, "sample"],
    ["a sample that is too deep", `{"payload_template":[${JSON.stringify(ID)}],"sample":${nested(33)}}`, "sample"],
    [
      "a sample deeper than a signal may be",
      `{"payload_template":[${JSON.stringify(ID)}],"sample":${nested(50)}}`,
      "sample",
    ],
    ["a sample that is too large", { payload_template: [ID], sample: { id: "é".repeat(33_000) } }, "sample"],
  ])("%s is a 422 that names the place", async (_, body, path) => {
    const answer = await preview(body);
    expect(answer).toMatchObject({ status: 422, body: { code: "validation_failed", errors: [{ path }] } });
  });

  test("refuses a sample nested deep enough to exhaust the stack before it is parsed", async () => {
    const answer = await preview(`{"payload_template":[${JSON.stringify(ID)}],"sample":${nested(50_000)}}`);
    expect(answer).toMatchObject({ status: 413, body: { code: "body_too_large" } });
  });
});

// --- Any order of delivery ---

const ACCOUNTS = 2;
const FIELDS = ["plan", "user_count", "feature_flags"] as const;
type Field = (typeof FIELDS)[number];

interface Received {
  minute: number;
  account: number;
  held: boolean;
  fields: { [Name in Field]: unknown };
  region: string | null;
}

const received: fc.Arbitrary<Received> = fc.record({
  minute: fc.nat(6),
  account: fc.nat(ACCOUNTS - 1),
  held: fc.nat(9).map((n) => n === 0),
  fields: fc.record({
    plan: fc.option(fc.constantFrom("free", "team", "pro"), { freq: 3 }),
    user_count: fc.option(fc.nat(20), { freq: 3 }),
    feature_flags: fc.option(fc.constantFrom({ a: 1, b: [2] }, { b: [2], a: 1 }, { a: 2 }), { freq: 2 }),
  }),
  region: fc.option(fc.constantFrom("emea", "apac")),
});
const history = fc.array(received, { minLength: 1, maxLength: 14 });
/** For each update the number of its deliveries and their places in the sequence; then the sizes of the batches. */
const plan = fc.record({
  places: fc.array(fc.array(fc.nat(1_000), { minLength: 1, maxLength: 2 }), { minLength: 14, maxLength: 14 }),
  sizes: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 28, maxLength: 28 }),
});

const idOf = (account: number) => `account-${account}`;

function toDeliver(workspace: TestWorkspace, sent: Placed<Received>): Delivered {
  const { plan: planName, user_count: seats, feature_flags: flags } = sent.fields;
  return update(workspace, {
    id: sent.id,
    at: sent.at,
    ordinal: sent.ordinal,
    verdict: sent.held ? "held" : "accepted",
    payload: { company: { id: idOf(sent.account) }, plan: planName, seats, flags, region: sent.region },
    periodStart: START,
    periodEnd: Date.now() + DAY,
  });
}

/** Compares regardless of the order of an object's members. */
const same = (a: unknown, b: unknown) => textOf(a) === textOf(b);
const textOf = (value: unknown) =>
  JSON.stringify(typeof value === "object" && value !== null ? Object.entries(value).sort() : value);

/** The expected account after its updates in received order. */
function expectedAccount(account: number, all: readonly Placed<Received>[]) {
  const updates = all.filter((sent) => sent.account === account && !sent.held);
  const naming = (field: Field) => updates.filter((sent) => sent.fields[field] !== null);
  const changes = FIELDS.flatMap((field) =>
    naming(field).flatMap((sent, index, sayings) => {
      const before = sayings[index - 1]?.fields[field] ?? null;
      const after = sent.fields[field];
      return before !== null && same(before, after)
        ? []
        : [{ field, before, after, ordinal: sent.ordinal, id: sent.id }];
    }),
  );
  const region = updates.findLast((sent) => sent.region !== null)?.region;
  return {
    externalId: idOf(account),
    values: FIELDS.map((field) => naming(field).at(-1)?.fields[field] ?? null),
    attributes: region === undefined ? {} : { region },
    firstSeenMs: updates[0]?.at,
    lastSeenMs: updates.at(-1)?.at,
    changes: changes
      .sort((a, b) => b.ordinal - a.ordinal)
      .map(({ field, before, after, id }) => ({ field, before, after, id })),
  };
}

/** The frequency of the most frequent value. */
function mostOften(account: number, field: Field, all: readonly Placed<Received>[]): number {
  const sayings = all.filter((sent) => sent.account === account && !sent.held && sent.fields[field] !== null);
  const groups = [...Map.groupBy(sayings, ({ fields }) => textOf(fields[field])).values()];
  return Math.max(0, ...groups.map((group) => group.length));
}

async function actualAccounts(workspace: TestWorkspace) {
  const { items } = await signalStore(env, workspace.id).accounts({}, { cursor: null, limit: 50 });
  return items
    .map((account) => ({
      externalId: account.externalId,
      values: FIELDS.map((field) => account[field]),
      attributes: account.attributes,
      firstSeenMs: account.firstSeenMs,
      lastSeenMs: account.lastSeenMs,
      changes: account.history.map(({ field, before, after, signalId: id }) => ({ field, before, after, id })),
    }))
    .sort((a, b) => a.externalId.localeCompare(b.externalId));
}

type Compared = Awaited<ReturnType<typeof actualAccounts>>[number];

/** Sorts fields in the order of the model, because changes of one update have no order among themselves. */
function sorted(account: Compared): Compared {
  const number = (id: string) => Number(id.slice("sig_".length));
  const changes = account.changes.toSorted((a, b) => number(b.id) - number(a.id) || a.field.localeCompare(b.field));
  return { ...account, changes };
}

const everyAccount = (all: readonly Placed<Received>[]) =>
  Array.from({ length: ACCOUNTS }, (_, account) => account).filter((account) =>
    all.some((sent) => sent.account === account && !sent.held),
  );

describe("invariant 5: an account's history", () => {
  test("any order, repetition and split of updates gives the accounts and histories of their received order", async () => {
    await assertForSoLong(
      fc.asyncProperty(history, plan, async (all, { places, sizes }) => {
        const updates = inOrder(all, START);
        const workspace = await newAccounts();
        const deliveries = updates
          .flatMap((sent, index) => (places[index] ?? [0]).map((at) => ({ one: sent, at })))
          .sort((a, b) => a.at - b.at)
          .map(({ one: sent }) => toDeliver(workspace, sent));
        for (const size of sizes) await deliver(workspace.id, deliveries.splice(0, size));
        const actual = await actualAccounts(workspace);
        expect(actual).toHaveLength(everyAccount(updates).length);
        for (const [index, account] of everyAccount(updates).entries()) {
          const expected = expectedAccount(account, updates) as Compared;
          const found = actual[index];
          if (found === undefined) throw new Error("an account is missing");
          expect({ ...found, changes: [] }).toEqual({ ...expected, changes: [] });
          for (const [at, field] of FIELDS.entries()) {
            const [changes, model] = [sorted(found), sorted(expected)].map((shownAccount) =>
              shownAccount.changes.filter((change) => change.field === field),
            );
            if (mostOften(account, field, updates) <= 2) expect(changes).toEqual(model);
            leadsTo(expected.values[at], changes ?? [], account, updates);
          }
        }
      }),
      { numRuns: 40, limitMs: 10_000 },
    );
  });

  /**
   * After any late delivery the history has no gap, no step without a change, and each step has the value of its
   * update.
   */
  function leadsTo(
    value: unknown,
    changes: Compared["changes"],
    account: number,
    updates: readonly Placed<Received>[],
  ): void {
    const byId = new Map(updates.map((sent) => [sent.id, sent] as const));
    expect(changes[0]?.after ?? null).toEqual(value);
    for (const [index, { field, before, after, id }] of changes.entries()) {
      expect(before).toEqual(changes[index + 1]?.after ?? null);
      expect(before === null || !same(before, after)).toBe(true);
      const source = byId.get(id);
      expect([source?.account, source?.held, source?.fields[field as Field]]).toEqual([account, false, after]);
    }
  }

  test("sequential updates have a complete history, in order and without repetition, even if a value is sent again", async () => {
    await assertForSoLong(
      fc.asyncProperty(history, async (all) => {
        const updates = inOrder(all, START);
        const workspace = await newAccounts();
        for (const sent of updates) await deliver(workspace.id, [toDeliver(workspace, sent)]);
        const expected = everyAccount(updates).map((account) => sorted(expectedAccount(account, updates) as Compared));
        expect((await actualAccounts(workspace)).map(sorted)).toEqual(expected);
      }),
      { numRuns: 15, limitMs: 5_000 },
    );
  });

  interface Late {
    /** Minutes and plans, in order of delivery. */
    updates: [number, string][];
    becomes: [before: string | null, after: string, minute: number][];
  }

  test.each<[string, Late]>([
    [
      "an older value that comes last: the history goes there and back",
      {
        updates: [
          [1, "free"],
          [9, "free"],
          [5, "pro"],
        ],
        becomes: [
          ["pro", "free", 9],
          ["free", "pro", 5],
          [null, "free", 1],
        ],
      },
    ],
    [
      "an older value among updates that came late themselves and said the same",
      {
        updates: [
          [1, "free"],
          [9, "pro"],
          [5, "free"],
          [3, "team"],
        ],
        becomes: [
          ["free", "pro", 9],
          ["team", "free", 5],
          ["free", "team", 3],
          [null, "free", 1],
        ],
      },
    ],
    [
      "an older value that the next change says too: it was so earlier",
      {
        updates: [
          [1, "free"],
          [9, "pro"],
          [5, "pro"],
        ],
        becomes: [
          ["free", "pro", 5],
          [null, "free", 1],
        ],
      },
    ],
  ])("%s", async (_, { updates, becomes }) => {
    const workspace = await newAccounts();
    for (const [minute, name] of updates) {
      const payload = { company: { id: "a1" }, plan: name, region: name };
      const at = { at: START + minute * MINUTE, ordinal: minute, periodEnd: Date.now() + DAY };
      await deliver(workspace.id, [update(workspace, { id: `sig_${minute}`, payload, ...at })]);
    }
    const latest = becomes[0]?.[1];
    expect(await accountOf(workspace, "a1")).toMatchObject({
      plan: latest,
      attributes: { region: latest },
      history: becomes.map(([before, after, minute]) => ({ before, after, signal_id: `sig_${minute}` })),
    });
  });
});
