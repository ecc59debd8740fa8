/** Spec §1, §2.1, design §8.7: account data, from the call to the account and its history. */
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { AccountField } from "../../../../src/domain/accounts/payload-template.ts";
import {
  ACCOUNT_HISTORY_SHOWN,
  SLICE_MAX_CHARACTERS,
  FIELD_HISTORY_MAX_BYTES,
  FIELD_HISTORY_MAX_CHANGES,
} from "../../../../src/limits.ts";
import { listAccounts } from "../../../../src/store/queries/account-page.ts";
import { Accounts } from "../../../../src/store/accounts/accounts.ts";
import { MINUTE, deliver, type Delivered } from "../../../support/deliver.ts";
import { allSlices } from "../../../support/slices.ts";
import { inStore } from "../../../support/store.ts";
import {
  call,
  newWorkspace,
  type AccountChange,
  type BatchAnswer,
  type Problem,
  type TestWorkspace,
} from "../../../support/workspace.ts";
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
  return { ...signal, head: { endpoint: "product_org", key: workspace.key.id, template: 1, ...signal.head } };
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
          score: 0,
          recomputing: false,
          people: 0,
          history_cut: false,
          last_seen: secondAt,
          last_seen_at: secondAt,
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
      sorted: true,
      lapsing: false,
    });
  });

  test("by several templates contributes to one account", async () => {
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

  test("with wrong values is a 422 that names every path, is listed as rejected, and counts nothing", async () => {
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

  test("in an array is applied in order, also beside invalid updates", async () => {
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

  test("takes no effect while it is held", async () => {
    const workspace = await newAccounts(1);
    await accepted(workspace, { company: { id: "a1" }, plan: "first" });
    await accepted(workspace, { company: { id: "a1" }, plan: "held", region: "held" });
    expect(await workspace.settled()).toMatchObject({ processed: 1, held: 1, balanced: true });
    expect(await accountOf(workspace, "a1")).toMatchObject({ plan: "first", attributes: {} });
  });
});

test("an account update repeated with its Idempotency-Key is a duplicate and overwrites nothing newer", async () => {
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
const largeUpdate = (name: string) => ({ company: { id: "large" }, plan: name, [name]: { text: LARGE } });

test("an account of many large values fails no batch, and takes the rejected update when smaller values have made room", async () => {
  const workspace = await newLarge();
  const signal = (id: string, payload: unknown, ordinal: number) =>
    update(workspace, { id, payload, ordinal, at: START + ordinal });
  const { retryMessages } = await deliver(
    workspace.id,
    NAMES.map((name, at) => signal(`sig_${name}`, largeUpdate(name), at + 1)),
  );
  expect(retryMessages).toEqual([]);
  const before = await workspace.store.totals();
  expect(before.processed + before.deadLettered).toBe(NAMES.length);
  const account = await accountOf(workspace, "large");

  // The rejected update has left no trace, also when it is resent or replayed too early.
  const last = signal("sig_a94", largeUpdate("a94"), 95);
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

describe("the list of accounts", () => {
  /** Updates a field of an account once a minute. */
  function updateOften(sql: SqlStorage, externalId: string, field: AccountField, values: readonly unknown[]): void {
    const accounts = new Accounts(sql);
    for (const [n, value] of values.entries()) {
      const claim = { receivedAtMs: START + n * MINUTE, ordinal: n + 1, signalId: `sig_${n}` };
      accounts.update({ externalId, fields: { [field]: value }, attributes: {} }, claim);
    }
    accounts.flush(null);
  }

  test.each([
    ["changes", FIELD_HISTORY_MAX_CHANGES + 1, 4],
    ["bytes", 40, 50_000],
  ])("loses its oldest changes if it has too many %s, and says so", (_, count, characters) =>
    inStore(({ sql, state }) => {
      const value = (n: number) => `${n}`.padStart(characters, "x");
      const values = Array.from({ length: count }, (__, n) => value(n));
      updateOften(sql, "a1", "plan", values);
      updateOften(sql, "a2", "plan", ["small"]);
      type Kept = { changes: number; bytes: number };
      const kept = () =>
        sql
          .exec<Kept>(`SELECT count(*) AS changes, sum(length(ifnull("before", '')) + length("after")) AS bytes
             FROM account_changes WHERE account_id = 1`)
          .one();
      expect(kept().changes).toBeLessThanOrEqual(FIELD_HISTORY_MAX_CHANGES);
      expect(kept().bytes).toBeLessThanOrEqual(FIELD_HISTORY_MAX_BYTES);
      expect(kept().changes).toBeGreaterThan(characters > 4 ? 3 : 0.8 * FIELD_HISTORY_MAX_CHANGES);
      const { histories } = sql.exec<{ histories: string }>("SELECT histories FROM accounts WHERE id = 1").one();
      expect(JSON.parse(histories)).toMatchObject({ plan: kept() });
      const listed = listAccounts(state, { sort: "newest" }, { cursor: null, limit: 5 }).items;
      expect(listed.map(({ historyCut }) => historyCut)).toEqual([false, true]);
      expect(listed[1]?.history[0]).toMatchObject({ before: value(count - 2), after: value(count - 1) });
      // An update from before the cut changes nothing. One from behind it, with the value before the oldest change, neither.
      const before = kept();
      updateOften(sql, "a1", "plan", ["too late"]);
      expect(kept()).toEqual(before);
    }),
  );

  test("shows the latest changes of a long history", () =>
    inStore(({ sql, state }) => {
      const seats = Array.from({ length: ACCOUNT_HISTORY_SHOWN + 5 }, (_, n) => n);
      updateOften(sql, "a1", "user_count", seats);
      const [account] = listAccounts(state, {}, { cursor: null, limit: 1 }).items;
      const latest = seats.slice(-ACCOUNT_HISTORY_SHOWN).toReversed();
      expect(account?.history.map(({ after }) => after)).toEqual(latest);
    }));

  test("has shorter pages for large accounts, and omits no account", () =>
    inStore(async ({ sql, state }) => {
      const large = Array.from({ length: 40 }, (_, version) => `${version}`.padEnd(50_000, "x"));
      const accounts = Array.from({ length: 12 }, (_, n) => `a${n}`);
      for (const externalId of accounts) updateOften(sql, externalId, "feature_flags", large);
      const pages = await allSlices((cursor) => listAccounts(state, {}, { cursor, limit: 200 }));
      for (const page of pages) expect(JSON.stringify(page).length).toBeLessThan(3 * SLICE_MAX_CHARACTERS);
      const ids = pages.flatMap(({ items }) => items.map(({ externalId }) => externalId));
      expect(ids).toEqual(accounts.toReversed());
      expect(pages.length).toBeGreaterThan(1);
    }));
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

  test("lists every error of a rejected call, in the template's order", async () => {
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
    ["no sample", { payload_template: [ID] }, "sample"],
    ["a sample that is no object", { payload_template: [ID], sample: [] }, "sample"],
    ["a sample that is too deep", `{"payload_template":[${JSON.stringify(ID)}],"sample":${nested(33)}}`, "sample"],
    ["a sample that is too large", { payload_template: [ID], sample: { id: "é".repeat(33_000) } }, "sample"],
  ])("%s is a 422 that names the place", async (_, body, path) => {
    const answer = await preview(body);
    expect(answer).toMatchObject({ status: 422, body: { code: "validation_failed", errors: [{ path }] } });
  });

  test("rejects a sample nested deep enough to exhaust the stack before it is parsed", async () => {
    const answer = await preview(`{"payload_template":[${JSON.stringify(ID)}],"sample":${nested(50_000)}}`);
    expect(answer).toMatchObject({ status: 413, body: { code: "body_too_large" } });
  });
});

describe("invariant 5: an account and its history", () => {
  const FIELDS = ["plan", "user_count", "feature_flags"] as const;
  type Field = (typeof FIELDS)[number];
  interface Update {
    id: string;
    minute: number;
    ordinal: number;
    fields: Partial<Record<Field, unknown>>;
  }
  /** The values are few, so that updates repeat them. */
  const some = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 3 });
  const history = fc.array(
    fc.record({
      minute: fc.nat(6),
      fields: fc.record({
        plan: some(fc.constantFrom("free", "team", "pro")),
        user_count: some(fc.nat(20)),
        feature_flags: some(fc.constantFrom({ a: 1, b: [2] }, { b: [2], a: 1 }, { a: 2 })),
      }),
      /** The place in the delivery, and whether the update ends a batch. */
      place: fc.nat(1_000),
      isLast: fc.boolean(),
    }),
    { minLength: 1, maxLength: 14 },
  );

  /** Compares regardless of the order of an object's members. */
  const textOf = (value: unknown) =>
    JSON.stringify(typeof value === "object" && value !== null ? Object.entries(value).sort() : value);

  /** The changes of a field by updates in received order, the latest first. */
  const changesOf = (field: Field, updates: readonly Update[]) =>
    updates
      .filter(({ fields }) => fields[field] !== undefined)
      .map(({ id, fields }, index, naming) => ({
        field,
        before: naming[index - 1]?.fields[field] ?? null,
        after: fields[field],
        signalId: id,
      }))
      .filter(({ before, after }) => before === null || textOf(before) !== textOf(after))
      .toReversed();

  /** The count of the most frequent value of a field. */
  const mostOften = (field: Field, updates: readonly Update[]) =>
    Math.max(...[...Map.groupBy(updates, ({ fields }) => textOf(fields[field])).values()].map(({ length }) => length));

  test("are those of the received order, for any order and split of the delivery", () =>
    inStore(({ sql, state }) => {
      let run = 0;
      fc.assert(
        fc.property(history, fc.boolean(), (drawn, isInOrder) => {
          const externalId = `account-${++run}`;
          const updates = drawn
            .toSorted((a, b) => a.minute - b.minute)
            .map((sent, index) => ({ ...sent, id: `sig_${index}`, ordinal: index + 1 }));
          let accounts = new Accounts(sql);
          for (const sent of isInOrder ? updates : updates.toSorted((a, b) => a.place - b.place)) {
            const { id: signalId, minute, ordinal, fields, isLast } = sent;
            const claim = { receivedAtMs: START + minute * MINUTE, ordinal, signalId };
            expect(accounts.update({ externalId, fields, attributes: { last: signalId } }, claim)).toBeNull();
            if (!isLast) continue;
            accounts.flush(null);
            accounts = new Accounts(sql);
          }
          accounts.flush(null);

          const [account] = listAccounts(state, { externalId }, { cursor: null, limit: 1 }).items;
          expect(account).toMatchObject({
            attributes: { last: updates.at(-1)?.id },
            firstSeenMs: START + (updates[0]?.minute ?? 0) * MINUTE,
            lastSeenMs: START + (updates.at(-1)?.minute ?? 0) * MINUTE,
          });
          for (const field of FIELDS) {
            const expected = changesOf(field, updates);
            const found = account?.history.filter((change) => change.field === field) ?? [];
            expect(account?.[field] ?? null).toEqual(expected[0]?.after ?? null);
            // Of more than two updates that say the same, only the first and the last are remembered.
            if (isInOrder || mostOften(field, updates) <= 2) {
              expect(found.map(({ atMs: _atMs, ...change }) => change)).toEqual(expected);
            }
            for (const [index, { before, after, signalId }] of found.entries()) {
              expect(before).toEqual(found[index + 1]?.after ?? null);
              expect(before === null || textOf(before) !== textOf(after)).toBe(true);
              expect(updates.find(({ id }) => id === signalId)?.fields[field]).toEqual(after);
            }
          }
        }),
        { numRuns: 500 },
      );
    }));
});
