/** People (spec §2.3): the list and its orders, one person, deletion with a receipt, exports. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, test } from "vitest";
import { SCORE_CURVE_STEPS, SCORE_CURVE_SIGNALS } from "../../../src/store/queries/person-page.ts";
import { insertEntries, personList } from "../../../src/store/people/timelines.ts";
import type { SignalStore } from "../../../src/store/signal-store.ts";
import { deliver, type Delivered } from "../../support/deliver.ts";
import { readHtml } from "../../support/html.ts";
import { newMembers, type Members } from "../../support/members.ts";
import { until } from "../../support/until.ts";
import { dropLines } from "../../support/log.ts";
import type { StoreState } from "../../../src/store/state/store-state.ts";

const NOW = Date.now();
const HOUR = 3_600_000;

let members: Members;
let people: string;
let ids = 0;

beforeEach(async () => {
  members = await newMembers();
  people = `${members.home}/people`;
});

const pathOf = (email: string) => `${people}/${encodeURIComponent(email)}`;

/** Delivers signals to the consumer in one call. @returns their ids. */
async function deliverAll(...signals: Partial<Delivered>[]): Promise<string[]> {
  const defaults = { at: NOW - HOUR, payload: {} };
  const all = signals.map((signal) => ({ id: `sig_${crypto.randomUUID()}`, ordinal: ++ids, ...defaults, ...signal }));
  await deliver(members.workspace.id, all);
  return all.map(({ id }) => id);
}

const signalOf = (email: string, event = "e", at = NOW, more: object = {}): Partial<Delivered> => ({
  at,
  payload: { email, event, source: "website", properties: {}, ...more },
});

async function newRule(event: string, points: number): Promise<string> {
  const rule = { name: `Rule for <b>${event}</b>`, event, scoring_signal: `${event}_scored`, points };
  return (await members.workspace.operator<{ id: string }>("POST", "/rules", rule)).id;
}

const inStore = <T>(act: (sql: SqlStorage, store: SignalStore) => T) =>
  runInDurableObject(members.workspace.store, (store, { storage: { sql } }) => act(sql, store));

describe("the list of people", () => {
  test("says what to do first if there are no people, also with an invalid order and search", async () => {
    for (const query of ["", "?sort=toString&score=many&from=never&q=%20"]) {
      const page = await members.member.read(people + query);
      expect(page.text).toContain("No people yet");
      expect(page.link("Connect a sender").target).toBe(`${members.home}/connect`);
    }
  });

  test("is filtered by an account's external id or name, and offers accounts if several fit", async () => {
    const joins = (email: string, id: string, name: string): Partial<Delivered> => ({
      payload: { type: "identify", userId: email, traits: { email, company: { id, name } } },
    });
    const group = (email: string, groupId: string, name: string): Partial<Delivered> => ({
      payload: { type: "group", userId: email, groupId, traits: { name } },
    });
    const of: [email: string, id: string, name: string][] = [
      ["ann@x.example", "a-1", "Initech"],
      ["bob@x.example", "a-2", "Initech West"],
      ["eve@x.example", "a-3", "Umbrella"],
    ];
    await deliverAll(...of.flatMap((one) => [joins(...one), group(...one)]));
    const at = (account: string) => members.member.get(`${people}?sort=email&account=${account}`);
    const heads = async (path: string) => (await members.member.read(path)).rowHeads;
    for (const [typed, id, email] of [
      ["umbr", "a-3", "eve@x.example"],
      ["initech", "a-1", "ann@x.example"],
      ["WEST", "a-2", "bob@x.example"],
    ] as const) {
      const location = (await at(typed)).headers.get("location") ?? "";
      expect(location).toBe(`${people}?sort=email&account=${id}`);
      expect(await heads(location)).toEqual([email]);
    }
    expect(await heads(`${people}?account=a-2`)).toEqual(["bob@x.example"]);
    const several = await members.member.read(`${people}?account=inite&score=0`);
    expect(several.text).toContain("Several accounts fit");
    expect(await heads(several.link(/^Initech West/).target ?? "")).toEqual(["bob@x.example"]);
    expect((await members.member.read(`${people}?account=nobody`)).text).not.toContain("Several accounts fit");
    // Eleven fit. That with exactly the typed name is the oldest, so the last of equal scores.
    const names = ["Branch", ...Array.from({ length: 10 }, (_, n) => `Branch ${n}`)];
    await deliverAll(
      ...names.flatMap((name, n) => [
        joins(`p${n}@b.example`, `b-${n}`, name),
        group(`p${n}@b.example`, `b-${n}`, name),
      ]),
    );
    const many = await members.member.read(`${people}?account=ranch`);
    expect(many.text).toContain("More accounts fit.");
    expect(many.link("search accounts").target).toBe(`${members.home}/accounts?q=ranch`);
    expect((await at("branch")).headers.get("location")).toBe(`${people}?sort=email&account=b-0`);
    expect(several.text).not.toContain("More accounts fit.");
    // An external id that exists is none that a name is looked for by.
    expect((await at("a-1")).status).toBe(200);
  });

  test("keeps search, order, score and days across its pages and in its form", async () => {
    await newRule("scored", 3);
    const some = (count: number, event: string) =>
      Array.from({ length: count }, (_, n) => signalOf(`${event}${n}@x.example`, event, NOW - n * HOUR));
    await deliverAll(...some(30, "scored"), ...some(5, "other"), signalOf("early@x.example", "early", NOW - 72 * HOUR));
    const from = new Date(NOW - 3 * 24 * HOUR).toISOString().slice(0, 10);
    const filter = { q: "X.Example", sort: "last_seen_up", score: "3", from };
    const asked = new URLSearchParams(filter).toString();
    const page = await members.member.read(`${people}?${asked}`);
    const form = page.search;
    expect(Object.fromEntries(Object.keys(filter).map((name) => [name, form.field(name).value]))).toEqual(filter);
    expect(page.next).toContain(asked);
    // A search reads all matches to sort them. Nobody counts all people for a list of them.
    expect([page.only("h1").text, (await members.member.read(people)).only("h1").text]).toEqual([
      "People 30",
      "People",
    ]);
    const days = [4, 3].map((ago) => new Date(NOW - ago * 24 * HOUR).toISOString().slice(0, 10));
    const seenUntil = await Promise.all(days.map((to) => members.member.read(`${people}?to=${to}`)));
    expect(seenUntil.map(({ rowHeads }) => rowHeads)).toEqual([[], ["early@x.example"]]);
    const order = Array.from({ length: 30 }, (_, n) => `scored${29 - n}@x.example`);
    const slices = await members.member.readAll(`${people}?${asked}`);
    expect(slices.flatMap(({ rowHeads }) => rowHeads)).toEqual(order);
    expect((await members.member.read(slices[1]?.previous ?? "")).rowHeads).toEqual(order.slice(0, 25));
  });

  test("names the filters that match no person, and removes each of them", async () => {
    await deliverAll(signalOf("ann@example.com"));
    const page = await members.member.read(`${people}?q=%22%3E%3Cscript%3E&score=7&from=2020-01-01&sort=email`);
    expect(page.inlineScripts).toHaveLength(0);
    expect(page.text).toContain("No people match these filters");
    expect(page.chips).toEqual({
      'Search: "><script>': `${people}?sort=email&score=7&from=2020-01-01`,
      "Score at least: 7": `${people}?q=%22%3E%3Cscript%3E&sort=email&from=2020-01-01`,
      "Last seen: from 2020-01-01 (UTC)": `${people}?q=%22%3E%3Cscript%3E&sort=email&score=7`,
    });
    expect(page.link("Clear filters").target).toBe(people);
  });

  test("does not apply a filter without a meaning, and says so", async () => {
    await deliverAll(signalOf("ann@example.com"));
    const page = await members.member.read(`${people}?sort=toString&score=many&from=2031-02-31&to=2199-01-01`);
    expect(page.rowHeads).toEqual(["ann@example.com"]);
    expect(page.alerts).toEqual([
      expect.stringMatching(/^“toString” is not one of: Highest score, /),
      "Score at least: enter a whole number.",
      "“2031-02-31” is not a day. Enter it as 2026-11-21.",
    ]);
    expect(Object.keys(page.chips)).toEqual(["Last seen: until 2199-01-01 (UTC)"]);
  });

  test("leads from an email to the person", async () => {
    const { status, location } = await members.member.get(`${people}?email=+Jane%2FX@Example.com+`);
    expect([status, location]).toEqual([303, pathOf("jane/x@example.com")]);
  });
});

describe("a person", () => {
  test("shows traits, score, curve, timeline with rules and traces, and identities", async () => {
    const rule = await newRule("Viewed", 5);
    await newRule("Left", -2);
    const anonymousId = "anon-<i>";
    const track = { type: "track", messageId: "m1", anonymousId, event: "Viewed", properties: {} };
    const traits = { email: "jane@example.com", name: "<script>alert(1)</script>", company: "A & B" };
    const [anonymous] = await deliverAll({ at: NOW - 3 * HOUR, payload: track });
    const [identify, viewed, left] = await deliverAll(
      { at: NOW - 2 * HOUR, payload: { type: "identify", messageId: "m2", anonymousId, userId: "user-1", traits } },
      signalOf("jane@example.com", "Viewed", NOW - HOUR),
      signalOf("jane@example.com", "Left", NOW - HOUR / 2, { source: "<img src=x>" }),
    );
    const path = pathOf("jane@example.com");
    const page = await until(async () => {
      const shown = await members.member.read(path);
      expect(shown.text).toContain("from 3 scoring signals");
      return shown;
    });
    expect(page.detail("Score")).toMatch(/^8\b/);
    // Its first hours are times of day.
    expect(page.text).toContain("Score over time (UTC)");
    expect(page.all("svg.chart")[0]?.attribute("aria-label")).toMatch(/^Score from 0 on .* to 8 now\.$/);
    const matched = "matched by anonymous id anon-<i>, anonymous until";
    for (const expected of [traits.name, traits.company, "links ids to the email", matched])
      expect(page.text).toContain(expected);
    const traces = [left, viewed, identify, anonymous].map((id) => `${members.home}/signals/${id}`);
    expect([...new Set(page.targets.filter((target) => target.includes("/signals/sig_")))]).toEqual(traces);
    expect(page.links("Rule for <b>Viewed</b>").map(({ target }) => target)).toContain(`${members.home}/rules/${rule}`);
    expect(page.all("code").map(({ text }) => text)).toEqual(expect.arrayContaining([anonymousId, "user-1"]));
    expect([page.inlineScripts.length, page.all("main b, main i, img").length]).toEqual([0, 0]);

    const scores = await members.member.read(`${path}?show=scores`);
    expect(scores.targets).toContain(traces[0]);
    expect(scores.targets).not.toContain(traces[2]);
    expect(scores.text).toContain("-2");
  });

  test("shows the score by rule, the largest share first, with deleted rules", async () => {
    const rules = [await newRule("Viewed", 5), await newRule("Left", -2), await newRule("Asked", 1)];
    const events = ["Viewed", "Viewed", "Left", "Asked"];
    await deliverAll(...events.map((event, n) => signalOf("jane@example.com", event, NOW - (9 - n) * HOUR)));
    await members.workspace.operator("DELETE", `/rules/${rules[2]}`);
    const table = (await members.member.read(pathOf("jane@example.com"))).table("Score by rule");
    expect(table.rows.map((row) => row.cells.slice(0, 3))).toEqual([
      ["Rule for <b>Viewed</b>", "+10", "91%"],
      ["Rule for <b>Left</b>", "-2", ""],
      ["Deleted rule", "+1", "9%"],
    ]);
    expect(table.link("Rule for <b>Left</b>").target).toBe(`${members.home}/rules/${rules[1]}`);
  });

  test("with more ids than are kept shows the number of dropped ids, on the page and in the API", async () => {
    await deliverAll(signalOf("jane@example.com", "Viewed"));
    expect((await members.member.read(pathOf("jane@example.com"))).text).not.toContain("dropped");
    await inStore((sql) => void sql.exec("UPDATE people SET ids_dropped = 12345"));
    expect((await members.member.read(pathOf("jane@example.com"))).text).toContain(
      "12,345 older ids dropped: a person keeps the latest 2,500 of each kind.",
    );
    const found = await members.workspace.operator("GET", "/people");
    expect(found).toMatchObject({ items: [{ identities_dropped: 12_345 }] });
  });

  test("with a changed email becomes two people of one id, whose pages say so and link to each other", async () => {
    const named = (email: string, at: number, userId: string): Partial<Delivered> => ({
      at,
      payload: { type: "identify", messageId: `${email} ${userId}`, userId, traits: { email } },
    });
    await deliverAll(
      named("old@example.com", NOW - 3 * HOUR, "u-<1>"),
      named("old@example.com", NOW - 3 * HOUR, "u-own"),
      named("new@example.com", NOW - 2 * HOUR, "u-<1>"),
      named("else@example.com", NOW - HOUR, "u-else"),
    );
    const page = (email: string) => members.member.read(pathOf(email));
    for (const [email, otherEmail] of [
      ["old@example.com", "new@example.com"],
      ["new@example.com", "old@example.com"],
    ] as const) {
      const shown = await page(email);
      expect(shown.text).toContain(`User id u-<1> : ${otherEmail}, since`);
      expect(shown.link(otherEmail).target).toBe(pathOf(otherEmail));
    }
    expect((await page("old@example.com")).text).toContain("These ids name other people too.");
    expect((await page("else@example.com")).text).not.toContain("These ids name other people too.");
    await deliverAll(named("new@example.com", NOW, "u-own"));
    expect((await page("old@example.com")).text).toContain("No id is linked any more");
  });

  test("of whom no signal is processed is not there, and the page says why", async () => {
    const { status, body } = await members.member.get(pathOf("nobody@example.com"));
    expect(status).toBe(404);
    expect(readHtml(body).text).toContain(
      "This person does not exist No processed signal names nobody@example.com yet.",
    );
  });

  test("has a page for any valid email", async () => {
    const odd = `o'brien+tag\\x%41?#"&b=@example.com`;
    const emails = [odd, "..@example.com", "%2f@example.com", "ünï@example.com", "..%2f..@x"];
    await deliverAll(...emails.map((email) => signalOf(email)));
    for (const email of emails) expect((await members.member.read(pathOf(email))).only("h1").verbatim).toBe(email);
  });

  test("has a timeline in pages, in both views", async () => {
    await newRule("scored", 1);
    const some = (count: number, sinceMs: number) =>
      Array.from({ length: count }, (_, index) =>
        signalOf("busy@example.com", "scored", sinceMs + index, { properties: { index, sinceMs } }),
      );
    // More signals than the person's row lists, and then as many as it lists.
    const sent = [...(await deliverAll(...some(100, NOW - 2 * HOUR))), ...(await deliverAll(...some(20, NOW - HOUR)))];
    for (const show of ["all", "scores"]) {
      const slices = await members.member.readAll(`${pathOf("busy@example.com")}?show=${show}`);
      const targets = slices.flatMap((slice) => slice.targets);
      expect(targets.flatMap((target) => target.split("/signals/")[1] ?? [])).toEqual(sent.toReversed());
    }
  });

  test("with very many scoring signals has a curve of few steps that ends at the score", async () => {
    await deliverAll(signalOf("busy@example.com"));
    const { curve, person } = await inStore((sql, store) => {
      const count = SCORE_CURVE_SIGNALS + 500;
      sql.exec(
        "INSERT INTO rule_outcomes (id, rule_id, rule_version, scoring_signal, points) VALUES (98, 'rule', 1, 's', 3), (99, 'rule', 2, 's', -1)",
      );
      // Lines that no longer exist.
      const entries = Array.from({ length: count }, (_, index) => ({
        seq: index - count,
        scored: {
          signalId: `sig_${index}`,
          atMs: NOW,
          occurredMs: NOW - 50 * 24 * HOUR + index * 60_000 + (index % 7),
          outcomes: [index % 2 === 0 ? 98 : 99],
        },
      }));
      insertEntries(sql, personList(1), entries);
      sql.exec("UPDATE people SET score = ?", count);
      const page = store.personPage("busy@example.com", "all", { cursor: null, limit: 25 });
      if (page === null) throw new Error("nobody");
      return page;
    });
    expect(person.score).toBe(SCORE_CURVE_SIGNALS + 500);
    // One of the latest signals has not scored.
    expect(curve).toMatchObject({ signals: SCORE_CURVE_SIGNALS - 1, complete: false });
    expect(curve.fromScore).toBeOneOf([500, 501, 502, 503]);
    expect(curve.points.at(-1)?.score).toBe(person.score);
    expect(curve.points.length).toBeGreaterThan(SCORE_CURVE_STEPS / 2);
    expect(curve.points.length).toBeLessThanOrEqual(SCORE_CURVE_STEPS + 1);
    const times = curve.points.map(({ atMs }) => atMs);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect((await members.member.see(pathOf("busy@example.com"))).length).toBeLessThan(60_000);
  });

  test("keeps scores whose signals are no longer stored", async () => {
    await newRule("old", 7);
    await deliverAll(signalOf("kept@example.com", "old"));
    await inStore((sql, store) => {
      dropLines((store as unknown as { state: StoreState }).state);
      sql.exec(
        "INSERT INTO retention (id, days, next_at, deleted_until) VALUES (1, 31, 0, ?) ON CONFLICT (id) DO UPDATE SET deleted_until = excluded.deleted_until",
        NOW,
      );
    });
    await evictDurableObject(members.workspace.store);
    expect((await members.member.read(pathOf("kept@example.com"))).text).toContain("No signals kept");
    await deliverAll(...Array.from({ length: 30 }, (_, n) => signalOf("kept@example.com", `new ${n}`)));
    const slices = await members.member.readAll(pathOf("kept@example.com"));
    expect(slices.map(({ text }) => /Signals until .* are deleted/.test(text))).toEqual([false, true]);
    const { text } = await members.member.read(`${pathOf("kept@example.com")}?show=scores`);
    expect(text).toContain("Signal deleted after the retention time +7 old_scored");
  });
});

describe("a person's deletion", () => {
  test("asks for the typed email, deletes once, and shows the receipt", async () => {
    await newRule("Viewed", 5);
    await deliverAll(signalOf("gone@example.com", "Viewed"), signalOf("gone@example.com", "other"));
    const path = pathOf("gone@example.com");
    const remove = (email: string) => members.admin.post(`${path}/delete`, { email });
    expect((await members.admin.read(`${path}/delete`)).text).toContain("This cannot be undone.");
    const deleted = await remove(" Gone@Example.com ");
    expect([deleted.status, deleted.location]).toEqual([303, `${path}/deletion`]);
    const receipt = await until(async () => {
      const shown = await members.member.read(`${path}/deletion`);
      expect(shown.text).toContain("Deletion complete");
      return shown;
    });
    expect([receipt.detail("Signals"), receipt.detail("Scoring signals")]).toEqual(["2", "1"]);
    const id = receipt.all("code").find(({ text }) => text.startsWith("del_"))?.text;
    const byId = `${people}/deletions/${id}`;

    // The receipt is found in Activity by its id, by searching the address, and as a file.
    expect((await members.admin.read(`${members.home}/settings/activity`)).targets).toContain(byId);
    const shown = await members.member.read(byId);
    expect(shown.text).toContain("Deletion complete");
    expect(shown.text).not.toContain("gone@example.com");
    expect((await members.member.read(`${people}?q=Gone@Example.com`)).targets).toContain(`${path}/deletion`);
    const searched = await members.member.read(`${members.home}/search?q=Gone@Example.com`);
    expect([searched.text, searched.targets]).toEqual([
      expect.stringContaining("This person was deleted"),
      expect.arrayContaining([`${path}/deletion`]),
    ]);
    expect((await members.member.read(`${members.home}/search?q=gone`)).text).not.toContain("deleted");
    const file = await members.member.get(`${byId}/download`);
    expect(file.headers.get("content-disposition")).toBe(`attachment; filename="${id}.json"`);
    expect(JSON.parse(file.body)).toMatchObject({ id, workspace: members.workspace.id, signals: 2, scoringSignals: 1 });
    expect((await members.member.get(`${people}/deletions/del_none/download`)).status).toBe(404);

    // The form is sent again, as with the back button: the receipt stays the same.
    expect((await remove("gone@example.com")).location).toBe(`${path}/deletion`);
    expect(await members.member.see(`${path}/deletion`)).toContain(String(id));
    expect((await members.member.get(path)).location).toBe(`${path}/deletion`);
    expect((await members.member.read(people)).text).not.toContain("gone@example.com");
    const entries = await members.workspace.auditLog("person.deleted");
    expect(entries).toEqual([expect.objectContaining({ actor: members.admin.email, target: id })]);

    await deliverAll(signalOf("gone@example.com", "later", Date.now()));
    const later = await members.member.read(`${path}/deletion`);
    expect(later.text).toContain("New signals have named this email since, and created a new person.");
    expect(later.targets).toContain(path);
  });
});

describe("exports of people and signals", () => {
  test("are files for owners and admins, with an audit entry", async () => {
    await deliverAll(signalOf("jane@example.com"));
    const path = `${people}/export?records=people&format=csv`;
    const file = await members.admin.get(path);
    expect([file.status, file.headers.get("cache-control")]).toEqual([200, "no-store"]);
    expect(file.headers.get("content-type")).toContain("text/csv");
    expect(file.headers.get("content-disposition")).toMatch(/^attachment; filename="w-.*-people-.*\.csv"$/);
    expect(file.body).toMatch(/^email,.*\r\njane@example\.com,/);
    // A filter restricts the list only.
    const filtered = await members.admin.read(`${people}?q=jane`);
    expect(filtered.link("All people as CSV").target).toBe(path);
    const signals = await members.owner.see(`${people}/export?records=signals&format=ndjson`);
    expect(signals.trim().split("\n")).toHaveLength(1);
    expect(await members.workspace.audit("data.exported")).toMatchObject([
      { detail: { records: "people", format: "csv" } },
      { detail: { records: "signals", format: "ndjson" } },
    ]);
  });

  test("of other records and formats do not exist", async () => {
    for (const query of ["records=api_keys&format=csv", "records=people&format=toString"])
      expect((await members.owner.get(`${people}/export?${query}`)).status).toBe(404);
  });
});
