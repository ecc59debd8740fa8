/** The Signal Queue's pages (spec §6.3, design §1.3): groups, signals, traces, dead letters. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LIST_SCAN_SIGNALS, QUEUE_SCAN_GROUPS } from "../../../src/limits.ts";
import type { StoreState } from "../../../src/store/state/store-state.ts";
import { followSignal } from "../../../src/use-cases/signal-operations.ts";
import { DAY, deliver, type Delivered } from "../../support/deliver.ts";
import type { Part } from "../../support/html.ts";
import { expectLogged } from "../../support/logged.ts";
import { type Browser, type Members, newMembers } from "../../support/members.ts";
import { until } from "../../support/until.ts";
import { call, type TestWorkspace } from "../../support/workspace.ts";
import { sealSignalLogs } from "../../support/log.ts";

let workspace: TestWorkspace;
let members: Members;
let base: string;

beforeEach(async () => {
  members = await newMembers();
  ({ workspace, home: base } = members);
});
afterEach(() => void vi.useRealTimers());

/** A page under /signals. */
const read = (path: string, browser: Browser = members.member) => browser.read(`${base}/signals${path}`);
const groupPath = (event: string, source = "web") => `/group?${new URLSearchParams({ event, source }).toString()}`;
const form = (n: number, more: object = {}) => ({
  event: "Filled Out Form",
  source: "web",
  email: `p${n}@example.com`,
  properties: { n },
  ...more,
});
/** Delivers signals sig_1, sig_2 and so on. */
const deliverAll = (...signals: Omit<Delivered, "id">[]) =>
  deliver(
    workspace.id,
    signals.map((signal, n) => ({ id: `sig_${n + 1}`, ordinal: n + 1, ...signal })),
  );
const rowsOf = (page: Part): string[] => page.rows.map(({ text }) => text);

/** Moves all payloads of recorded signals to cold storage, and loses them there. @returns the number of lines. */
function loseColdPayloads(): Promise<number> {
  return runInDurableObject(workspace.store, async (store, { storage: { sql } }) => {
    const { state } = store as unknown as { state: StoreState };
    sealSignalLogs(state);
    await state.signals.work(Date.now() + 2 * DAY);
    for (const { key } of sql.exec<{ key: string }>("SELECT key FROM cold_objects")) {
      await env.COLD.delete(`cold/${workspace.id}/${key}`);
    }
    return state.signals.markLostPayloads(Date.now() + 2 * DAY);
  });
}

/** Sends a signal over HTTP. */
async function send(payload: object): Promise<string> {
  return (await (await workspace.send(payload)).json<{ id: string }>()).id;
}

describe("the signal queue", () => {
  test("shows each event and source with its counts, its days and its last time", async () => {
    const now = Date.now();
    // "today" must be the day of the signals, also if the test runs over midnight.
    vi.useFakeTimers({ toFake: ["Date"], now });
    const seen = { type: "track", event: "Seen", anonymousId: "visitor-1", messageId: "m" };
    await deliverAll(
      { payload: form(1), at: now - 3 * DAY },
      { payload: form(2), at: now },
      { payload: form(3), at: now, verdict: "held" },
      { payload: form(2, { source: "crm" }), at: now - 40 * DAY },
      { payload: form(2), at: now },
      { payload: seen, at: now },
    );
    const page = await read("");
    expect(page.text).toContain("By event All signals Held 1 Dead letters");
    expect(rowsOf(page).sort()).toEqual([
      "Filled Out Form crm 1 40 days ago",
      "Filled Out Form web 3 1 just now",
      "Seen segment 1 1 just now",
    ]);
    const dayOf = (ago: number) => new Date(now - ago * DAY).toISOString().slice(0, 10);
    expect((await read(`?from=${dayOf(40)}&to=${dayOf(4)}`)).rowHeads).toEqual(["Filled Out Form"]);
    expect((await read(`?to=${dayOf(1)}`)).rows).toHaveLength(1);
    const labels = page.all("svg").map((chart) => chart.attribute("aria-label"));
    expect(labels).toContain("3 signals in 14 days, 2 signals today");
    expect(labels).toContain("0 signals in 14 days, 0 signals today");
    const held = page.link("Held 1").target ?? "";
    const list = await members.member.read(held);
    expect(rowsOf(list)).toEqual(["Filled Out Form p3@example.com web Held just now"]);
    expect(list.link("See what is needed").target).toBe(`${base}/usage/plan#held`);
  });

  test("filters by part of the name, by source, and by held and anonymous signals", async () => {
    await deliverAll(
      { payload: form(1) },
      { payload: form(1, { event: "Opened Email", source: "crm" }) },
      { payload: form(1, { event: "Späßchen" }), verdict: "held" },
      { payload: { event: "Seen", source: "web", type: "track", anonymousId: "visitor-1" } },
    );
    for (const [query, event] of [
      ["q=out+FORM", "Filled"],
      ["q=%C3%9FCHEN", "Späßchen"],
      ["source=CRM", "Opened"],
      ["only=held", "Späßchen"],
      ["only=anonymous", "Seen"],
    ] as const)
      expect(rowsOf(await read(`?${query}`))).toEqual([expect.stringMatching(`^${event} `)]);
    expect(rowsOf(await read("?q=form&source=crm"))).toEqual([]);
    const none = await read("?q=%22%3E%3Cscript%3E&only=heldd");
    expect(none.text).toContain("No events match these filters");
    expect(none.search.field("q").value).toBe('"><script>');
    expect(none.alerts).toEqual([expect.stringContaining("“heldd” is not one of")]);
  });

  test("leads from a signal's id in the search to the signal", async () => {
    await deliverAll({ payload: form(1) });
    for (const path of ["?q=+sig_1+", "/all?id=sig_1", "/all?email=+sig_1"]) {
      const { status, location } = await members.member.get(`${base}/signals${path}`);
      expect([status, location]).toEqual([303, `${base}/signals/sig_1`]);
    }
  });

  test("pages by cursor, each group once, also groups with the same last time", async () => {
    const at = Date.now();
    const events = Array.from({ length: 60 }, (_, n) => `event ${String(n).padStart(2, "0")}`);
    await deliverAll(...events.map((event) => ({ payload: form(1, { event }), at })));
    const slices = await members.member.readAll(`${base}/signals`);
    expect(slices.flatMap(({ rowHeads }) => rowHeads).sort()).toEqual(events);
  });

  test("searches on until it finds an event, in a bounded number of groups at a time", async () => {
    await deliverAll({ payload: form(1), at: 1_000 });
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
      sql.exec(
        `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
         INSERT INTO event_groups (event, source, count, held, anonymous, first_seen, last_seen, last_day, sample_id,
           sample_ordinal, sample_seq)
         SELECT 'noise ' || i, 'x', 1, 0, 0, i, ? + i, 1, 'sig_1', 1, 1 FROM n`,
        QUEUE_SCAN_GROUPS,
        DAY,
      );
    });
    expect(rowsOf(await read("?q=form"))).toHaveLength(1);
    const first = await read("?q=noise+2000");
    expect([rowsOf(first).length, first.text]).toEqual([1, expect.stringContaining("Searched 2,000 events.")]);
    expect(first.link("Search further back").target).toBe(first.next);
  });
});

test("hostile names appear as text on every page of signals", async () => {
  const hostile = `"><script>alert(1)</script>'&`;
  const payload = { event: hostile, source: hostile, email: "x@example.com", properties: { [hostile]: hostile } };
  await deliverAll({ payload });
  for (const path of ["", groupPath(hostile, hostile), "/all", "/sig_1"]) {
    const page = await read(path);
    expect([page.inlineScripts.length, page.text]).toEqual([0, expect.stringContaining("<script>alert(1)</script>")]);
  }
  const link = (await read("")).targets.find((target) => target.includes("/group?")) ?? "";
  expect((await members.member.read(link)).text).toContain("Latest payloads");
});

describe("the page of an event group", () => {
  const rowsAt = async (path: string) => rowsOf(await read(path)).map((row) => row.replace(/( just now)+$/, ""));

  test("shows samples and its signals with their status, and links managers to a rule", async () => {
    await deliverAll(
      { payload: form(1) },
      { payload: form(1) },
      { payload: form(2, { properties: { plan: "<b>pro</b>" } }), verdict: "held" },
      { payload: form(3, { source: "crm" }) },
    );
    const path = groupPath("Filled Out Form");
    expect(await rowsAt(path)).toEqual(["p2@example.com <b>pro</b> Held", "p1@example.com Processed"]);
    const page = await read(path, members.owner);
    expect(page.text).toContain('"plan": "<b>pro</b>"');
    const toRule = (from: Part) => from.targets.find((target) => target.startsWith(`${base}/rules/new?`));
    // Neither the duplicate sig_2 nor a signal from another source.
    expect(new URLSearchParams(toRule(page)?.split("?")[1]).getAll("from").toSorted()).toEqual(["sig_1", "sig_3"]);
    expect([page.text, (await read(`${path}&cursor=0`)).text].map((text) => text.includes("Latest payloads"))).toEqual([
      true,
      false,
    ]);
    const filtered = page.link("Filter signals").target ?? "";
    expect(rowsOf(await members.member.read(`${filtered}&status=held`))).toHaveLength(1);
  });

  test("counts signals whose sources name persons, and shows none of these sources", async () => {
    const source = "newsletter for p1@example.com";
    await deliverAll(
      { payload: form(1, { source }) },
      { payload: form(2, { source: "list of p2@example.com" }) },
      { payload: form(3) },
      // Neither a duplicate nor a purged signal is in the list of its event.
      { payload: form(1, { source }) },
      { payload: form(4, { source }), at: Date.now() - 9 * DAY, verdict: "held", periodEnd: Date.now() - DAY },
    );
    for (const asked of ["", source])
      expect(await rowsAt(groupPath("Filled Out Form", asked))).toEqual([
        "p2@example.com Processed",
        "p1@example.com Processed",
      ]);
    const { text } = await read("");
    expect(text).toContain("Filled Out Form");
    expect(text).not.toContain("newsletter");
  });
});

describe("the list of all signals", () => {
  test("finds an event and a source however their accents are typed", async () => {
    await deliverAll({ payload: { ...form(1), event: "Caf\u00e9", source: "Stra\u00dfe \u00e9" } });
    const { items } = await workspace.operator<{ items: { id: string }[] }>("GET", "/signals?event=Cafe%CC%81");
    expect(items.map(({ id }) => id)).toEqual(["sig_1"]);
    for (const query of ["event=Cafe%CC%81", "source=Stra%C3%9Fe%20e%CC%81"])
      expect(rowsOf(await read(`/all?${query}`))).toHaveLength(1);
    expect(rowsOf(await read(`?q=cafe%CC%81`))).toHaveLength(1);
  });

  test("filters by days of receipt and, for managers, by key, also over sealed segments", async () => {
    const at = Date.UTC(2031, 4, 10, 12);
    vi.setSystemTime(at + DAY);
    const otherKey = await workspace.newKey({ name: "Other <key>" });
    for (const [n, key] of [workspace.key.id, otherKey.id, otherKey.id, workspace.key.id].entries()) {
      await deliver(workspace.id, [
        { id: `sig_${n}`, ordinal: n + 1, payload: form(n), at: at - (3 - n) * DAY, head: { key } },
      ]);
      await runInDurableObject(workspace.store, (store) => {
        sealSignalLogs((store as unknown as { state: StoreState }).state);
      });
    }
    const ids = async (query: string, browser = members.owner) => {
      const { targets } = await read(`/all${query}`, browser);
      return [...new Set(targets.flatMap((target) => /\/signals\/sig_(\d)$/.exec(target)?.[1] ?? []))].join("");
    };
    for (const [query, expected] of [
      ["", "3210"],
      ["?from=2031-05-08&to=2031-05-09", "21"],
      ["?from=2031-05-10", "3"],
      ["?to=2031-05-07", "0"],
      [`?key=${otherKey.id}`, "21"],
      [`?key=${otherKey.id}&from=2031-05-09`, "2"],
      ["?event=Filled+Out+Form&to=2031-05-08&email=p1@example.com", "1"],
    ] as const)
      expect(await ids(query), query).toBe(expected);
    // Spec §1: other members see no keys.
    expect(await ids(`?key=${otherKey.id}`, members.member)).toBe("3210");
    expect((await read("/all", members.owner)).text).toContain("Other <key>");
    expect((await read("/all")).text).not.toContain("Other <key>");
    expect((await read("/all?from=2040-01-01", members.owner)).text).toContain("No signals match these filters");
    const reversed = await read("/all?from=2031-05-10&to=2031-05-07&status=lost", members.owner);
    expect(reversed.alerts).toEqual([
      expect.stringContaining("“lost” is not one of"),
      expect.stringContaining("“From” (2031-05-10) is after “To”"),
    ]);
  });

  test("says what to do if there are none, and how to clear a filter that matches nothing", async () => {
    expect((await read("/all")).text).toMatch(/No signals yet.*Connect a sender/);
    expect((await read("/all?event=x&status=held")).text).toContain("No signals match");
    expect((await read("/all?status=held")).text).toContain("No held signals");
    const all = "email=a%40x.example&event=Form+1&source=web&status=held&key=key_1&from=2031-01-01";
    const { chips } = await read(`/all?${all}`, members.owner);
    expect(Object.keys(chips)).toEqual([
      "Person: a@x.example",
      "Event: Form 1",
      "Source: web",
      "Status: Held",
      "API key: API key …ey_1",
      "Received: from 2031-01-01 (UTC)",
    ]);
    expect(chips["Source: web"]).toBe(`${base}/signals/all?${all.replace("source=web&", "")}`);
  });

  test("filters by event, person and status, offers known events and sources, and pages by cursor", async () => {
    const forms = Array.from({ length: 30 }, (_, n) => ({ payload: form(n % 3, { properties: { n } }) }));
    await deliverAll(...forms, { payload: form(1, { event: "Other" }), verdict: "held" }, { payload: "no json" });
    const count = async (query: string) => rowsOf(await read(`/all?${query}`)).length;
    for (const [query, expected] of [
      ["event=Other", 1],
      ["source=web", 25],
      ["source=WEB&event=other", 1],
      ["source=we", 0],
      ["email=P1@example.com", 11],
      ["email=P1@example.com&status=held", 1],
      ["email=P1@example.com&event=Filled+Out+Form", 10],
      ["status=dead", 1],
      ["event=Filled+Out+Form&status=held", 0],
      ...["nonsense", "1", "1.2", "-1.2.3", "1.2.3.4", "9e9.1.1"].map((cursor) => [`cursor=${cursor}`, 0] as const),
    ] as const)
      expect(await count(query), query).toBe(expected);
    const slices = await members.member.readAll(`${base}/signals/all`);
    expect(slices.map(({ rows }) => rows.length)).toEqual([25, 7]);
    const offered = (id: string) => slices[0]?.all(`datalist[id="${id}"] option`).map(({ value }) => value);
    expect([offered("known-event"), offered("known-source")]).toEqual([["Filled Out Form", "Other"], ["web"]]);
  });

  test("searches on until it finds a signal, and says how far it searched", async () => {
    const payloads = Array.from({ length: LIST_SCAN_SIGNALS }, (_, n) => form(1, { properties: { n } }));
    const rare = (n: number) => ({ payload: form(n, { source: "shop" }) });
    await deliverAll(rare(1), ...payloads.map((payload) => ({ payload })));
    expect(rowsOf(await read("/all?source=shop"))).toEqual([expect.stringContaining("p1@example.com")]);
    await deliver(workspace.id, [{ id: "sig_new", ordinal: 9_000, ...rare(2) }]);
    const first = await read("/all?source=shop");
    expect(rowsOf(first)).toEqual([expect.stringContaining("p2@example.com")]);
    expect(first.text).toContain("Searched 2,000 signals.");
    const further = await members.member.read(first.link("Search further back").target ?? "");
    expect(rowsOf(further)).toEqual([expect.stringContaining("p1@example.com")]);
  });
});

describe("a signal's page", () => {
  test("shows the way from receipt to score", async () => {
    const addRule = (rule: object) => workspace.operator<{ id: string }>("POST", "/rules", rule);
    const rule = await addRule({ name: "Asked <b>for</b> it", event: "Filled*", scoring_signal: "demo", points: 20 });
    const conditions = [{ path: "email", operator: "not_exists" }];
    await addRule({ name: "no", event: "F*", conditions, scoring_signal: "x", points: 1 });
    const id = await send(form(1));
    await workspace.settled();
    await workspace.operator("PATCH", `/rules/${rule.id}`, { points: 30 });
    const page = await read(`/${id}`, members.owner);
    expect(page.all("[data-refresh]")).toHaveLength(0);
    for (const expected of [
      "Accepted: signal 1 of 1,000,000",
      "Recorded",
      "Person found p1@example.com, by its email",
      "2 rules tried, 1 matched",
      "+20 demo, from Asked <b>for</b> it version 1 (now version 2)",
      "+20 points",
    ])
      expect(page.text).toContain(expected);
    expect(page.text).toMatch(/Processed Received \w+ \d+, \d{4}, \d\d:\d\d:\d\d\.\d{3} UTC Signal Staging endpoint/);
    expect(page.text).toMatch(/Recorded \+\d+\.\d\d s · \d\d:\d\d:\d\d\.\d{3} UTC /);
    expect(page.targets).toEqual(expect.arrayContaining([`${base}/rules/${rule.id}`, `${base}/rules/new?from=${id}`]));
    expect(page.link(/^test key/).target).toBe(`${base}/settings/api-keys/${workspace.key.id}`);
    // Spec §1: only owners and admins see keys.
    const forMember = await read(`/${id}`);
    expect(forMember.text).not.toContain("test key");
    expect(forMember.targets).not.toContain(`${base}/rules/new?from=${id}`);
  });

  test("says why a rule that scores a person once does not score again, with a link to the scoring signal", async () => {
    const rule = { name: "r", event: "Filled*", scoring_signal: "demo", points: 30, frequency: "once_per_day" };
    await workspace.operator("POST", "/rules", rule);
    const ids: string[] = [];
    for (const n of [7, 8]) {
      ids.push(await send(form(n, { email: "p1@example.com" })));
      await workspace.settled();
    }
    const [scoring = "", silent = ""] = ids;
    expect((await read(`/${scoring}`)).text).toContain("+30 demo, at most once a day (UTC), from");
    const already = await read(`/${silent}`);
    expect(already.text).toMatch(/0 demo, already scored that day, from.*The score of the person did not change\./);
    expect(already.link("already scored that day").target).toBe(`${base}/signals/${scoring}`);
  });

  test("refreshes while the signal is in flight", async () => {
    expectLogged("batch_failed");
    // The store rejects signals that were evaluated with older rules, so that they stay in flight.
    await workspace.store.applyRule({ ruleId: "rule_newer", rule: null, rulesVersion: 1_000 });
    const page = await read(`/${await send(form(1))}`);
    expect(page.only("#trace").attribute("data-refresh")).toMatch(/^\d+$/);
    for (const expected of [
      "In flight Stored safely, on its way to the Signal Store.",
      "Accepted: signal 1 of 1,000,000",
      "The payload appears once the signal is recorded.",
    ])
      expect(page.text).toContain(expected);
    // A retry records it before another test begins.
    await env.DB.prepare("UPDATE workspaces SET rules_version = 1000 WHERE id = ?").bind(workspace.id).run();
    await workspace.settled();
  });

  test("is found if the signal moves from the counter to the store between the look-ups", async () => {
    const id = await send(form(1));
    await workspace.settled();
    const trace = await workspace.store.signal(id);
    const signal = vi.fn().mockResolvedValueOnce(null).mockResolvedValue(trace);
    const bindings = { ...env, SIGNAL_STORE: { getByName: () => ({ signal }) } } as unknown as Env;
    expect(await followSignal(bindings, workspace.id, id)).toEqual({ recorded: trace });
  });

  test("explains every status and its reason", async () => {
    const at = Date.now() - 60_000;
    await deliverAll(
      { payload: form(1), at },
      { payload: form(1), at: at + 1 },
      { payload: form(3), at, ordinal: 1_042, verdict: "held" },
      { payload: form(4), at: at - 9 * DAY, verdict: "held", periodEnd: at - DAY },
      { payload: "no json", at },
      { payload: { type: "track", event: "Seen", userId: "user-1", anonymousId: "visitor-1" }, at },
      { payload: { event: "Seen", source: "web" }, at },
      { payload: { type: "identify", anonymousId: "visitor-2", traits: {} }, at },
      { payload: form(9, { timestamp: new Date(at - DAY).toISOString() }), at, ordinal: 1_041 },
      { payload: form(10, { timestamp: new Date(at + 60_000).toISOString() }), at },
      { payload: form(11, { timestamp: new Date(at + DAY).toISOString() }), at },
    );
    for (const [id, ...texts] of [
      ["sig_2", "Duplicate Same content as sig_1. Counted, but not scored.", "The payload of a duplicate is not kept."],
      ["sig_3", "Held: signal 1,042 of 1,000", "unless an owner or admin releases it.", "Email p3@example.com"],
      ["sig_4", "Purged", "The billing period ended while the signal was held."],
      ["sig_5", "Could not be processed", "SyntaxError", "no json"],
      ["sig_6", "Visitor not known yet", "User id user-1", "Anonymous id visitor-1"],
      ["sig_7", "No person named The signal has no email"],
      ["sig_8", "No person identified"],
      ["sig_9", "Accepted: signal 1,041 of 1,000 Beyond the signal limit at that time", "By timestamp in the payload"],
      ["sig_10", "Not before the receipt, by timestamp in the payload"],
      ["sig_11", "Its timestamp is more than ten minutes after the receipt, so it is not used."],
    ]) {
      const { text } = await read(`/${id}`);
      for (const expected of texts) expect(text).toContain(expected);
    }
    for (const [id, looks, link, target = ""] of [
      ["sig_2", ["good"], "sig_1", "/sig_1"],
      ["sig_3", ["warn", "warn"], "View held signals", "/all?status=held"],
      ["sig_5", ["good", "bad"]],
      ["sig_6", ["good", "info"]],
    ] as const) {
      const page = await read(`/${id}`);
      if (link !== undefined) expect(page.link(link).target).toBe(`${base}/signals${target}`);
      expect(page.all(".timeline li[class]").map((step) => step.attribute("class"))).toEqual(looks);
    }
    const ids = { anonymousId: "visitor-1", userId: "user-1" };
    const identify = { type: "identify", ...ids, traits: { email: "z@example.com" } };
    await deliver(workspace.id, [{ id: "sig_12", ordinal: 12, payload: identify }]);
    const linked = (await read("/sig_6")).text;
    expect(linked).toContain("z@example.com, by its user id, linked when the visitor became known");
    expect(linked).toContain("No rule tried No enabled mapping rule was for this event. View mapping rules");
  });

  test("counts a rule as tried that has matched since, when it was applied to past signals", async () => {
    await deliverAll({ payload: form(1) });
    expect((await read("/sig_1")).text).toContain("No rule tried");
    const body = { name: "r", event: "Filled*", scoring_signal: "demo", points: 5 };
    const rule = await workspace.operator<{ id: string }>("POST", "/rules", body);
    await workspace.operator("POST", `/rules/${rule.id}/apply`, {});
    await until(async () => expect((await read("/sig_1")).text).toContain("1 rule tried, 1 matched +5 demo"));
  });

  test("of a deleted person says when they were deleted, and nothing about an effect", async () => {
    await workspace.operator("POST", "/rules", { name: "r", event: "Filled*", scoring_signal: "s", points: 5 });
    const anonymous = { type: "track", event: "Seen", anonymousId: "visitor-1" };
    const identify = { type: "identify", anonymousId: "visitor-1", traits: { email: "p1@example.com" } };
    const held = { payload: form(1), verdict: "held" } as const;
    await deliverAll({ payload: form(1) }, held, { payload: anonymous }, { payload: identify });
    await members.owner.post(`${base}/people/p1%40example.com/delete`, { email: "p1@example.com" });
    for (const n of [1, 2, 3]) {
      await until(async () => expect((await read(`/sig_${n}`)).text).toContain("Deleted on"));
      const { text } = await read(`/sig_${n}`);
      expect(text).toContain("The signal was deleted with its person.");
      expect(text).not.toMatch(/processed\.|No person|score|points|p1@|visitor-1/i);
    }
    const kept = ["Filled Out Form", "Filled Out Form", "Identify call", "Seen"];
    expect((await read("/all")).rowHeads.toSorted()).toEqual(kept);
  });

  test("says that its payload is missing in cold storage", async () => {
    await deliverAll({ payload: form(1) });
    expect(await loseColdPayloads()).toBe(1);
    expect((await read("/sig_1")).text).toContain("The payload is missing in cold storage.");
  });

  test("of a group call says which traits are not used, because an attribute cannot have their name", async () => {
    const traits = { plan: "Growth", region: "emea", "Employee Count": 12, "geo.city": "Bonn", "": 1, "a b": 1 };
    const id = await send({ type: "group", userId: "user-1", groupId: "acme", traits });
    const other = await send({ type: "group", userId: "user-1", groupId: "acme", traits: { plan: "Growth" } });
    await workspace.settled();
    const why =
      "Group traits that are not used, because of a space, a dot or a control character in the name, or a name that is too long: " +
      "“Employee Count”, “geo.city”, “”, 1 more.";
    expect(await workspace.operator("GET", `/signals/${id}`)).toMatchObject({ traits_problem: why });
    expect(await workspace.operator("GET", `/signals/${other}`)).toMatchObject({ traits_problem: null });
    expect((await read(`/${id}`)).text).toContain(why);
  });

  test("of a signal whose email looks like a link says why no person has it", async () => {
    const email = "https://evil.example/login?x=1#@x.co";
    const why = 'Its email has a "/", ":", "<" or ">", which no address of a person may have, so it names nobody.';
    const ids = [
      await send({ event: "Signed Up", email }),
      await send({ type: "track", event: "Signed Up", anonymousId: "visitor-1", traits: { email } }),
      await send({ type: "identify", userId: "user-1", traits: { email } }),
    ];
    await workspace.settled();
    const traces = await Promise.all(ids.map((id) => workspace.operator<object>("GET", `/signals/${id}`)));
    expect(traces).toMatchObject(
      ["processed", "anonymous", "processed"].map((status) => ({ status, person: null, email_problem: why })),
    );
    for (const id of ids) expect((await read(`/${id}`)).text).toContain(why);
    expect((await members.owner.read(`${base}/people`)).text).not.toContain("evil.example");
  });

  test("says which fields are not used and why, also of a held, dead or repeated signal, and without its payload", async () => {
    const all = Array.from({ length: 3_000 }, (_, n) => n);
    const value = all.slice(0, 100).map((n) => `value ${n}`);
    const condition = { path: "properties.all[]", operator: "in", value };
    const greedy = { event: "Greedy", match: "any", conditions: Array.from({ length: 4 }, () => condition), points: 1 };
    for (let n = 0; n < 20; n++) {
      await workspace.operator("POST", "/rules", { name: `r${n}`, scoring_signal: "s", ...greedy });
    }
    const unused = { type: "track", email: "a@b@c", userId: "null", anonymousId: "a-1", timestamp: "yesterday" };
    const bought = { ...unused, event: "Bought" };
    await deliverAll(
      { payload: bought },
      { payload: bought },
      { payload: { ...bought, messageId: "m-1" }, verdict: "held" },
      { payload: { ...unused, event: "Greedy", properties: { all } } },
    );
    await loseColdPayloads();
    const problems = {
      email_problem: "Its email is not an email address, so it names nobody.",
      id_problem: "Its `userId` is a word that senders write for many people, so it names nobody.",
      traits_problem: null,
      time_problem: "Its `timestamp` cannot be read: send ISO 8601, or milliseconds since 1970.",
    };
    const signals = [
      ["sig_1", "anonymous"],
      ["sig_2", "duplicate"],
      ["sig_3", "held"],
      ["sig_4", "dead"],
    ];
    for (const [id, status] of signals) {
      const trace = await workspace.operator<{ payload: unknown }>("GET", `/signals/${id}`);
      expect(trace).toMatchObject({ status, ...problems });
      if (status === "anonymous" || status === "duplicate") expect(trace.payload).toBeNull();
      const { text } = await read(`/${id}`);
      for (const problem of Object.values(problems))
        if (problem !== null) expect(text).toContain(problem.replaceAll("`", ""));
    }
  });

  test("shows each number with the digits that were sent, as the API does", async () => {
    const sent =
      '{"event":"Order","email":"d@example.com","properties":{"order_id":7615917337495251231,"huge":1e400,"price":1.50}}';
    const id = (await (await workspace.send(sent)).json<{ id: string }>()).id;
    await workspace.settled();
    const digits = ["7615917337495251231", "1e400", "1.50"];
    const { text } = await read(`/${id}`);
    const headers = { authorization: `Bearer ${env.OPERATOR_TOKEN}` };
    const answerTo = async (path: string): Promise<string> =>
      (await call(`/operator/workspaces/${workspace.id}${path}`, { headers })).text();
    const [answer, queue] = [await answerTo(`/signals/${id}`), await answerTo("/events")];
    for (const number of digits) for (const shown of [text, answer, queue]) expect(shown).toContain(number);
  });

  test("of a signal whose ids name nobody says why, not that it has none", async () => {
    const id = await send({ type: "track", event: "Bought", messageId: "m-null", userId: "null" });
    await workspace.settled();
    const why = "Its `userId` is a word that senders write for many people, so it names nobody.";
    expect(await workspace.operator("GET", `/signals/${id}`)).toMatchObject({ person: null, id_problem: why });
    const { text } = await read(`/${id}`);
    expect(text).toContain(why.replaceAll("`", ""));
    expect(text).toContain("name nobody, for the reasons under “Signal”");
    expect(text).not.toContain("has no email, user id or anonymous id");
  });
});

test("an unknown signal or event is not found, and no cache may store a signal's page", async () => {
  await deliverAll({ payload: form(1) });
  for (const path of [groupPath("nothing"), "/group", "/group?event=Filled+Out+Form", "/sig_none"])
    expect((await members.owner.get(`${base}/signals${path}`)).status, path).toBe(404);
  expect((await members.owner.get(`${base}/signals/sig_1`)).headers.get("cache-control")).toBe("no-store");
});

describe("dead letters", () => {
  const deliverDead = () =>
    deliverAll(
      ...["<script>no json", "no json"].map((payload) => ({ payload, periodStart: 1, periodEnd: Date.now() + DAY })),
    );

  /** Replays and waits until the replayed signals are settled. @returns the target of the redirection. */
  async function replay(browser: Browser, fields: Record<string, string> = {}): Promise<string> {
    const { location } = await browser.post(`${base}/signals/dead-letters/replay`, fields);
    await until(async () => expect((await workspace.counter.books()).unsettled).toBe(0));
    return location.slice(base.length);
  }

  test("are shown with their reasons; managers replay one or all, with an audit entry each", async () => {
    await deliverDead();
    const page = await read("/dead-letters", members.admin);
    expect([rowsOf(page).length, page.inlineScripts.length]).toEqual([2, 0]);
    expect(page.text).toContain("SyntaxError");
    const { admin, owner } = members;
    expect(await replay(admin, { id: "sig_1" })).toMatch(/^\/signals\/sig_1\?replayed=\d+&done=replayed$/);
    expect(await replay(owner)).toBe("/signals/dead-letters?done=replayed");
    expect(rowsOf(await read("/dead-letters"))).toHaveLength(2);
    expect(await replay(owner, { id: "sig_none" })).toBe("/signals/dead-letters?done=nothing_to_replay");
    const entries = await workspace.auditLog("dead_letters.replayed");
    expect(entries.map(({ actor }) => actor)).toEqual([admin.email, owner.email, owner.email]);
  });

  test("are followed on their page after a replay, until it is known what came of it", async () => {
    expectLogged("batch_failed");
    await deliverAll({ payload: form(1) }, { payload: "no json", periodStart: 1, periodEnd: Date.now() + DAY });
    expect((await read("/sig_2")).all("[data-refresh]")).toHaveLength(0);
    // The store rejects signals that were evaluated with older rules, so that the replay stays in flight.
    await workspace.store.applyRule({ ruleId: "rule_newer", rule: null, rulesVersion: 1_000 });
    const { location } = await members.owner.post(`${base}/signals/dead-letters/replay`, { id: "sig_2" });
    const underWay = await members.owner.read(location);
    expect(underWay.only("#trace").attribute("data-refresh")).toMatch(/^\d+$/);
    expect(underWay.text).toContain("Replay in progress On its way to the Signal Store again.");
    expect(underWay.forms(/replay/)).toEqual([]);
    // Outside the part that refreshes.
    expect(underWay.only("h1").text).toBe("Signal");
    await env.DB.prepare("UPDATE workspaces SET rules_version = 1000 WHERE id = ?").bind(workspace.id).run();
    await until(async () => expect((await workspace.counter.books()).unsettled).toBe(0));
    const after = await members.owner.read(location);
    expect(after.all("[data-refresh]")).toHaveLength(0);
    expect(after.text).toMatch(/Could not be processed The replay has not changed that\. .*SyntaxError/);
    // Neither without the time of a replay, nor long after it.
    for (const query of ["", "?replayed=no", `?replayed=${Date.now() - DAY}`, `?replayed=${Date.now() + DAY}`])
      expect((await read(`/sig_2${query}`)).text).not.toContain("The replay");
  });

  test("are counted in the menu of every list, and have no button if there are none", async () => {
    const empty = await read("/dead-letters", members.owner);
    expect([empty.text, empty.forms(/replay/)]).toEqual([expect.stringContaining("No dead letters"), []]);
    await deliverDead();
    for (const path of ["", "?q=none"])
      expect((await read(path)).link("Dead letters 2").target).toContain("dead-letters");
  });
});
