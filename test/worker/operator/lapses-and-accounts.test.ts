/** Points that lapse and accounts that score, in the answers of the operator API (design §8.7, §8.8). */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DAY, deliver, type Delivered } from "../../support/deliver.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

type Json = Record<string, unknown>;

const NOW = Date.now() - (Date.now() % DAY) + DAY / 2;
const midnight = (daysAhead: number) => new Date(NOW - (NOW % DAY) + daysAhead * DAY).toISOString();

let workspace: TestWorkspace;
let ordinal = 0;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
  workspace = await newWorkspace();
  await newRule({ event: "demo", points: 20, points_last_days: 30 });
  await newRule({ event: "visit", points: 5 });
});

afterEach(() => {
  vi.useRealTimers();
});

async function newRule(rule: { event: string; points: number; points_last_days?: number }): Promise<void> {
  await workspace.operator("POST", "/rules", { name: rule.event, scoring_signal: `${rule.event}_scored`, ...rule });
}

/** Delivers payloads in this order, in one call. @returns the ids of the signals. */
async function happened(...payloads: Json[]): Promise<string[]> {
  const signals = payloads.map((payload): Delivered => {
    return { id: `sig_${crypto.randomUUID()}`, at: Date.now(), ordinal: ++ordinal, payload };
  });
  await deliver(workspace.id, signals);
  return signals.map(({ id }) => id);
}

/** An identify call that makes a person a member of an account. */
function joins(email: string, account: string): Json {
  return { type: "identify", userId: `user of ${email}`, traits: { email, company: { id: account } } };
}

async function personOf(email: string): Promise<Json> {
  const [person] = await workspace.list(`/people?email=${encodeURIComponent(email)}`);
  return person ?? {};
}

/** A field of each item on all pages of a list. */
async function onAllPages(path: string, field: string, limit: number): Promise<unknown[]> {
  const seen: unknown[] = [];
  const first = `${path}${path.includes("?") ? "&" : "?"}limit=${limit}`;
  for (let address: string | null = first; address !== null;) {
    const page: { items: Json[]; next: string | null } = await workspace.operator("GET", address);
    expect(page.items.length).toBeLessThanOrEqual(limit);
    seen.push(...page.items.map((item) => item[field]));
    address = page.next === null ? null : `${first}&cursor=${encodeURIComponent(page.next)}`;
  }
  return seen;
}

describe("points that lapse", () => {
  test("leave a person's score; the person, the trace and the list of accounts say when", async () => {
    const old = { email: "jane@example.com", event: "demo", timestamp: new Date(NOW - 40 * DAY).toISOString() };
    const demo = { email: "jane@example.com", event: "demo" };
    const [, late = "", last = ""] = await happened(joins("jane@example.com", "acme"), old, demo);
    const lapsed = { points: 20, lapses_at: midnight(-9), lapsed: true };
    const lapsing = { points: 20, lapses_at: midnight(31), lapsed: false };
    const scoring_signals = [lapsing, lapsed];
    expect(await personOf("jane@example.com")).toMatchObject({
      score: 20,
      next_lapse_at: midnight(31),
      scoring_signals,
    });
    const trace = (id: string) => workspace.operator("GET", `/signals/${id}`);
    expect(await trace(late)).toMatchObject({ points: 0, rules_matched: [lapsed] });
    expect(await trace(last)).toMatchObject({ points: 20, rules_matched: [lapsing] });

    vi.setSystemTime(NOW + 31 * DAY);
    expect(await personOf("jane@example.com")).toMatchObject({ score: 0, next_lapse_at: null });
    // The alarm follows the machine's clock, so the account still has the points that the answer warns of.
    expect(await workspace.operator("GET", "/accounts?order=score")).toMatchObject({
      lapsing: true,
      items: [{ external_id: "acme", score: 20 }],
    });
  });
});

describe("accounts", () => {
  test("have scores, people and times, and are listed in each order without gaps", async () => {
    const [first, second, third] = ["ann@example.com", "bob@example.com", "cid@example.com"] as const;
    await happened(
      joins(first, "one"),
      joins(second, "two"),
      joins(third, "two"),
      joins("eve@example.com", "two"),
      { type: "group", groupId: "three", userId: "user of dan", traits: { name: "Third", tier: "gold" } },
      { type: "identify", userId: "user of dan", traits: { email: "dan@example.com" } },
      joins("fay@example.com", "three"),
      { email: first, event: "demo" },
      { email: second, event: "visit" },
    );
    vi.setSystemTime(NOW + DAY);
    await happened({ email: "dan@example.com", event: "other" });
    vi.setSystemTime(NOW + 2 * DAY);
    await happened({ email: third, event: "visit" });

    const inOrder = (order: string) => onAllPages(`/accounts?order=${order}`, "external_id", 1);
    expect(await inOrder("score")).toEqual(["one", "two", "three"]);
    expect(await inOrder("people")).toEqual(["two", "three", "one"]);
    expect(await inOrder("last_seen")).toEqual(["two", "three", "one"]);
    expect(await inOrder("newest")).toEqual(await onAllPages("/accounts", "external_id", 2));
    expect(await workspace.operator("GET", "/accounts?order=score")).toMatchObject({ sorted: true, lapsing: false });
    const [three] = await workspace.list("/accounts?external_id=three");
    expect(three).toMatchObject({
      external_id: "three",
      name: "Third",
      attributes: { tier: "gold" },
      score: 0,
      people: 2,
      last_seen: new Date(NOW + DAY).toISOString(),
      last_seen_at: new Date(NOW + DAY).toISOString(),
    });
    expect((await workspace.list("/accounts?external_id=two"))[0]).toMatchObject({ score: 10, people: 3 });
    expect(await personOf("dan@example.com")).toMatchObject({ account: { external_id: "three", name: "Third" } });
    expect(await personOf(first)).toMatchObject({ account: { external_id: "one", name: null } });
    expect((await workspace.ask("GET", "/accounts?order=plan")).status).toBe(422);
  });

  test("list their people under any external id, in pages; an unknown account is a 404", async () => {
    const ids = ["a/b", "50%", "%2F", "two words", "Zürich ☕", "acme.com", "?a=b#c", "a/../b"];
    await happened(...ids.flatMap((id, index) => [0, 1, 2].map((n) => joins(`p${index}-${n}@example.com`, id))), {
      email: "nobody@example.com",
      event: "visit",
    });
    await happened({ type: "group", groupId: "empty", anonymousId: "visitor", traits: { name: "Empty" } });
    const peopleOf = (index: number) => [2, 1, 0].map((n) => `p${index}-${n}@example.com`);
    for (const [index, id] of ids.entries()) {
      const encoded = encodeURIComponent(id);
      expect(await onAllPages(`/people?account=${encoded}`, "email", 2), id).toEqual(peopleOf(index));
      expect(await onAllPages(`/accounts/${encoded}/people`, "email", 2), id).toEqual(peopleOf(index));
    }
    const narrowed = (email: string) => workspace.list(`/people?account=acme.com&email=${email}`);
    expect(await narrowed("p5-0@example.com")).toMatchObject([{ account: { external_id: "acme.com" } }]);
    expect(await narrowed("p4-0@example.com")).toEqual([]);
    expect(await workspace.operator("GET", "/accounts/empty/people")).toEqual({ items: [], next: null });
    expect(await workspace.ask("GET", "/accounts/acme/people")).toMatchObject({
      status: 404,
      body: { code: "not_found", detail: "There is no such account." },
    });
  });
});
