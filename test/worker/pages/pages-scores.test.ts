/** Points that lapse and accounts that score, on the pages (design §8.7). */
import { runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { SCORE_CURVE_SIGNALS } from "../../../src/store/queries/person-page.ts";
import { DAY, deliver, type Delivered } from "../../support/deliver.ts";
import type { Part } from "../../support/html.ts";
import { newMembers, type Members } from "../../support/members.ts";
import { until } from "../../support/until.ts";

const NOW = Date.now() - (Date.now() % DAY) + DAY / 2;
const DATE = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeZone: "UTC" });
const day = (daysAhead: number) => DATE.format(NOW + daysAhead * DAY);

let members: Members;
let ordinal = 0;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
  members = await newMembers();
  await newRule({ event: "demo", points: 20, points_last_days: 30 });
  await newRule({ event: "visit", points: 5 });
});

afterEach(() => void vi.useRealTimers());

async function newRule(rule: { event: string; points: number; points_last_days?: number }): Promise<void> {
  const named = { name: `Rule of ${rule.event}`, scoring_signal: `${rule.event}_scored`, ...rule };
  await members.workspace.operator("POST", "/rules", named);
}

/** Delivers payloads in this order, in one call. @returns the ids of the signals. */
async function deliverAll(...payloads: object[]): Promise<string[]> {
  const signals = payloads.map((payload): Delivered => {
    return { id: `sig_${crypto.randomUUID()}`, at: Date.now(), ordinal: ++ordinal, payload };
  });
  await deliver(members.workspace.id, signals);
  return signals.map(({ id }) => id);
}

/** An update of an account by a Product Org Updates key. */
async function update(payload: { id: string; plan: string }): Promise<void> {
  // Signals in flight are sent by the clock. A session of the test's noon may have ended by then.
  const nowMs = Date.now();
  vi.useRealTimers();
  const payload_template = [
    { target: "external_id", path: "id", type: "string" },
    { target: "plan", path: "plan", type: "string" },
  ];
  const key = await members.workspace.newKey({ endpoint_type: "product_org", payload_template });
  await members.workspace.send(payload, { key: key.key, path: "/api/product-orgs/webhook/{key}" });
  await until(async () => {
    const [account] = await members.workspace.list(`/accounts?external_id=${encodeURIComponent(payload.id)}`);
    expect(account).toMatchObject({ plan: payload.plan });
  });
  vi.useFakeTimers({ toFake: ["Date"], now: nowMs });
}

function joins(email: string, account: string): object {
  return { type: "identify", userId: `user of ${email}`, traits: { email, company: { id: account } } };
}

const accountPath = (id: string) =>
  `${members.home}/accounts/one?${new URLSearchParams({ external_id: id }).toString()}`;
const personPath = (email: string) => `${members.home}/people/${encodeURIComponent(email)}`;
/** A list says that its order is not final. */
const LAPSING = "Points are lapsing right now; the order may change.";

describe("points that lapse", () => {
  test("a person's page keeps the entries, says when points lapse, and its curve falls there", async () => {
    await deliverAll(
      { email: "jane@example.com", event: "visit" },
      { email: "jane@example.com", event: "demo", timestamp: new Date(NOW - 40 * DAY).toISOString() },
      { email: "jane@example.com", event: "demo" },
    );
    const before = await members.owner.read(personPath("jane@example.com"));
    expect(before.detail("Score")).toBe(`25 from 2 scoring signals, 1 lapsed; next points lapse on ${day(31)}`);
    const entries = (page: Part) =>
      page
        .only("#timeline")
        .all("li")
        .map(({ text }) => text.replace(/^.*?(?=[+-]\d)/, ""));
    expect(entries(before)).toEqual([
      `+20 demo_scored from Rule of demo, until ${day(30)}`,
      `+20, lapsed on ${day(-9)}: demo_scored from Rule of demo`,
      "+5 visit_scored from Rule of visit",
    ]);

    vi.setSystemTime(NOW + 32 * DAY);
    const after = await members.member.read(personPath("jane@example.com"));
    expect(after.detail("Score")).toBe("5 from 1 scoring signal, 2 lapsed");
    expect(entries(after)[0]).toBe(`+20, lapsed on ${day(31)}: demo_scored from Rule of demo`);
    const heights = [...(after.all("path.line")[0]?.attribute("d") ?? "").matchAll(/,([\d.]+)/g)].map(([, y]) =>
      Number(y),
    );
    // The end is below the top of the curve: a larger y is lower.
    expect(heights.at(-1)).toBeGreaterThan(Math.min(...heights));
  });

  test("the trace of a signal says when its points lapse, and that lapsed points were not added", async () => {
    const [late, demo, visit, linkedLate] = await deliverAll(
      { email: "jane@example.com", event: "demo", timestamp: new Date(NOW - 40 * DAY).toISOString() },
      { email: "jane@example.com", event: "demo" },
      { email: "jane@example.com", event: "visit" },
      { type: "track", anonymousId: "visitor-1", event: "demo" },
    );
    const textOf = async (id: string | undefined, reader = members.owner) =>
      (await reader.read(`${members.home}/signals/${id}`)).only("#trace").text;
    expect(await textOf(late)).toContain(`0 demo_scored, lapsed on ${day(-9)}, so +20 points were not added, from`);
    expect(await textOf(late)).toContain("0 points The points had lapsed before the signal arrived.");
    expect(await textOf(demo)).toContain(`+20 demo_scored, until ${day(30)}, from`);
    expect(await textOf(demo)).toMatch(/\+20 points Added to the score of the person\. (?!\+20)/);
    expect(await textOf(visit)).toContain("+5 visit_scored, from");

    vi.setSystemTime(NOW + 32 * DAY);
    const lapsed = await textOf(demo, members.member);
    expect(lapsed).toContain(`+20 demo_scored, lapsed on ${day(31)}, from`);
    expect(lapsed).toContain("+20 points Added to the score of the person. +20 points lapsed since.");
    await deliverAll({ type: "identify", anonymousId: "visitor-1", traits: { email: "jane@example.com" } });
    expect(await textOf(linkedLate, members.member)).toContain("so +20 points were not added");
  });

  test("lists of people and accounts say that points are lapsing", async () => {
    await deliverAll(joins("jane@example.com", "acme"), { email: "jane@example.com", event: "demo" });
    for (const path of ["/people", "/accounts"])
      expect((await members.owner.read(members.home + path)).text).not.toContain(LAPSING);
    // The alarm follows the machine's clock.
    vi.setSystemTime(NOW + 32 * DAY);
    for (const path of ["/people", "/accounts"])
      expect((await members.member.read(members.home + path)).text).toContain(LAPSING);
    expect((await members.member.read(accountPath("acme"))).detail("Score")).toBe("20 points are lapsing right now");
  });
});

describe("accounts that score", () => {
  test("are sorted by score, people, last seen or newest, with both numbers", async () => {
    await deliverAll(
      joins("ann@example.com", "one"),
      joins("bob@example.com", "two"),
      joins("cid@example.com", "two"),
      { email: "ann@example.com", event: "demo" },
      { email: "bob@example.com", event: "visit" },
    );
    vi.setSystemTime(NOW + DAY);
    await deliverAll(joins("dan@example.com", "three"));
    const accounts = (query: string) => members.member.read(`${members.home}/accounts${query}`);
    for (const [query, order] of [
      ["", ["one", "two", "three"]],
      ["?sort=people", ["two", "three", "one"]],
      ["?sort=last_seen", ["three", "two", "one"]],
      ["?sort=newest", ["three", "two", "one"]],
    ] as const)
      expect((await accounts(query)).rowHeads, query).toEqual(order);
    expect((await accounts("")).row("two").cells.slice(0, 3)).toEqual(["two", "5", "2"]);
    expect((await accounts("")).text).not.toContain("too many accounts");

    await runInDurableObject(members.workspace.store, (_, { storage: { sql } }) => {
      sql.exec(
        `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
         INSERT INTO accounts (external_id, attributes, claims, first_seen, last_seen)
         SELECT 'many-' || i, '{}', '{}', ?1, ?1 FROM n`,
        NOW,
      );
    });
    const many = await accounts("");
    expect(many.text).toContain("There are too many accounts to sort. The newest come first.");
    expect(many.rowHeads[0]).toBe("many-10000");
  });

  test("have a page with people by score, latest scores, and the call that set each value", async () => {
    const [group] = await deliverAll(
      { type: "group", groupId: "acme/1", anonymousId: "a", traits: { name: "Acme", tier: "gold" } },
      joins("low@example.com", "acme/1"),
      joins("high@example.com", "acme/1"),
      joins("else@example.com", "other"),
      { email: "low@example.com", event: "visit" },
      { email: "high@example.com", event: "demo" },
    );
    await update({ id: "acme/1", plan: "Free" });

    const page = await members.member.read(accountPath("acme/1"));
    expect([page.only("h1").text, page.detail("Score"), page.detail("People")]).toEqual(["Acme", "25", "2"]);
    expect(page.only("#people").rowHeads).toEqual(["high@example.com", "low@example.com"]);
    expect(page.only("#people").row("high@example.com").targets).toEqual([personPath("high@example.com")]);
    const scores = page.only("#scores").all("li");
    expect(scores).toHaveLength(2);
    const high = scores.find((score) => score.targets.includes(personPath("high@example.com")));
    expect(high?.text).toContain(`+20 demo_scored from Rule of demo, until ${day(30)}`);
    expect(page.table("Attributes").row("tier").text).toContain("by a group call");
    expect(page.table("Attributes").row("tier").targets).toEqual([`${members.home}/signals/${group}`]);
    expect(page.only("#fields").detail("Name")).toContain("by a group call");
    expect(page.only("#fields").detail("Plan")).toContain("by an account update");

    const people = await members.member.read(page.link("All people of this account").target ?? "");
    expect(people.rowHeads).toEqual(["high@example.com", "low@example.com"]);
    expect(people.chips).toEqual({ "Account: acme/1": `${members.home}/people` });
    expect(people.search.field("account").value).toBe("acme/1");
    const person = await members.member.read(personPath("high@example.com"));
    expect(person.link("Acme").target).toBe(accountPath("acme/1"));
    expect((await members.member.read(personPath("else@example.com"))).link("other").target).toBe(accountPath("other"));
  });

  test("of up to 20 people have a person's curve and shares, with the thresholds for those who may see them", async () => {
    await members.workspace.operator("PUT", "/thresholds", { thresholds: [7], account_thresholds: [22] });
    await deliverAll(
      joins("ann@example.com", "acme"),
      joins("bob@example.com", "acme"),
      { email: "ann@example.com", event: "demo" },
      { email: "bob@example.com", event: "visit" },
    );
    const page = await members.owner.read(accountPath("acme"));
    expect(page.all("svg.chart")[0]?.attribute("aria-label")).toMatch(/^Score from 0 on .* to 25 now\.$/);
    expect(page.text).toContain("Threshold 22");
    expect(page.text).not.toContain("Threshold 7");
    expect(page.table("Score by rule").rows.map(({ cells }) => cells.slice(0, 4))).toEqual([
      ["Rule of demo", "+20", "80%", "1"],
      ["Rule of visit", "+5", "20%", "1"],
    ]);
    expect(page.table("People").rows.map(({ cells }) => cells.slice(0, 3))).toEqual([
      ["ann@example.com", "20", "80%"],
      ["bob@example.com", "5", "20%"],
    ]);
    expect((await members.member.read(accountPath("acme"))).text).not.toContain("Threshold");

    await deliverAll(...Array.from({ length: 19 }, (_, n) => joins(`p${n}@example.com`, "acme")));
    const large = await members.owner.read(accountPath("acme"));
    expect(large.all("svg.chart")).toEqual([]);
    expect(large.text).toContain("Only the score of an account with at most 20 people is drawn.");
    expect(large.table("People").row("ann@example.com").cells[2]).toBe("80%");
  });

  test("with more signals than are read have the curve of the latest of all people", async () => {
    const limit = SCORE_CURVE_SIGNALS / 2;
    await deliverAll(joins("ann@example.com", "acme"), joins("bob@example.com", "acme"), {
      email: "bob@example.com",
      event: "demo",
    });
    for (let sent = 0; sent <= limit; sent += 1_000)
      await deliverAll(
        ...Array.from({ length: Math.min(1_000, limit + 1 - sent) }, (_, n) => ({
          email: "ann@example.com",
          event: "visit",
          properties: { n: sent + n },
        })),
      );
    const page = await members.owner.read(accountPath("acme"));
    // Bob's score is older than what is read of Ann.
    expect(page.text).toContain(`Of the latest ${limit.toLocaleString("en")} scoring signals of the account’s people.`);
    expect(page.table("Score by rule").rowHeads).toEqual(["Rule of visit"]);
    expect(page.only("#scores").text).toContain("ann@example.com");
    expect(page.all("svg.chart")[0]?.attribute("aria-label")).toContain("to 10,025 now.");
  });

  test("without people, scores or values say what to send first", async () => {
    const none = await members.member.read(`${members.home}/accounts`);
    expect(none.only("#group-call").text).toContain('"type": "group"');
    await deliverAll({ email: "nobody@example.com", event: "other" }, joins("jane@example.com", "bare"));
    expect((await members.member.read(personPath("nobody@example.com"))).detail("Account")).toBe("None");
    const bare = await members.member.read(accountPath("bare"));
    expect(bare.text).toContain("No scores yet");
    expect(bare.only("#scores").targets).toEqual([`${members.home}/rules`]);
    expect(bare.text).toContain("No fields yet");
    expect(bare.only("#group-call").text).toContain('"groupId": "bare"');

    await update({ id: "empty", plan: "Free" });
    const empty = await members.member.read(accountPath("empty"));
    expect(empty.only("#people").text).toContain("No people yet");
    expect(empty.only("#group-call").text).toContain('"groupId": "empty"');
    expect(empty.all("#scores")).toEqual([]);
  });
});
