/** The Signal Queue's pages (spec §6.3, design §1.3): groups, signals, traces, dead letters. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { QUEUE_SCAN_GROUPS, LIST_SCAN_SIGNALS } from "../../../src/limits.ts";
import { DAY, deliver } from "../../support/deliver.ts";
import { newMembers, type Members, type Browser } from "../../support/members.ts";
import { readHtml, textOf } from "../../support/html.ts";
import type { StoreState } from "../../../src/store/state/store-state.ts";
import { until } from "../../support/until.ts";
import type { TestWorkspace } from "../../support/workspace.ts";

let workspace: TestWorkspace;
let members: Members;
let base: string;

beforeEach(async () => {
  members = await newMembers();
  ({ workspace, home: base } = members);
});
afterEach(() => void vi.useRealTimers());

const see = async (path: string) => members.member.see(`${base}/signals${path}`);
const groupPath = (event: string, source = "web") => `/group?${new URLSearchParams({ event, source }).toString()}`;
const form = (n: number, more: object = {}) => ({
  event: "Filled Out Form",
  source: "web",
  email: `p${n}@example.com`,
  properties: { n, ...more },
});

async function audit(): Promise<string[]> {
  const { results } = await env.DB.prepare(
    "select action || ' ' || actor as entry from audit_log where workspace_id = ? order by id",
  )
    .bind(workspace.id)
    .all<{ entry: string }>();
  return results.map(({ entry }) => entry);
}

/** Texts of a table's rows. */
function rowsOf(html: string): string[] {
  return readHtml(html).rows.map(({ text }) => text);
}

describe("the signal queue", () => {
  test("in an empty workspace lists the first steps, each with its tick or its button, until all are done", async () => {
    const of = await newMembers({ key: null });
    const steps = async (browser: Browser, query = "") => {
      const page = await browser.read(`${of.home}/signals${query}`);
      return page
        .all("ol.first-steps li")
        .map((step) =>
          step.attribute("class") === "done" ? "done" : (step.targets[0]?.slice(of.home.length + 1) ?? "ask"),
        );
    };
    expect(await steps(of.owner)).toEqual(["settings/api-keys/new", "connect", "rules/new", "people"]);
    expect(await steps(of.member)).toEqual(["ask", "connect", "ask", "people"]);
    await of.workspace.operator("POST", "/keys", { name: "First" });
    expect(await steps(of.owner)).toEqual(["done", "connect", "rules/new", "people"]);
    await deliver(of.workspace.id, [{ id: "sig_1", ordinal: 1, payload: { event: "Nobody's" } }]);
    expect(await steps(of.owner)).toEqual(["done", "done", "rules/new", "people"]);
    expect(await steps(of.owner, "?q=x")).toEqual([]);
    await of.workspace.operator("POST", "/rules", {
      name: "r",
      event: "e",
      match: "all",
      conditions: [],
      scoring_signal: "s",
      points: 1,
    });
    expect(await steps(of.member)).toEqual(["done", "done", "done", "people"]);
    await deliver(of.workspace.id, [{ id: "sig_2", ordinal: 2, payload: form(2) }]);
    expect(await steps(of.owner)).toEqual([]);
  });

  test("each person can dismiss the first steps for themselves", async () => {
    const answer = await members.owner.post(`${base}/dismiss`, {
      what: "first-steps",
      state: "all",
      back: `${base}/signals`,
    });
    const cookie = answer.headers.get("set-cookie")?.split(";")[0] ?? "";
    const html = await (await members.owner.get(`${base}/signals`, cookie)).text();
    expect([textOf(html).includes("First steps"), textOf(html).includes("No signals yet")]).toEqual([false, true]);
    expect(textOf(await see(""))).toContain("First steps");
  });

  test("shows each event and source with its counts, its days and its last time", async () => {
    const now = Date.now();
    // "today" must be the day of the signals, also if the test runs over midnight.
    vi.useFakeTimers({ toFake: ["Date"], now });
    await deliver(workspace.id, [
      { id: "sig_1", ordinal: 1, payload: form(1), at: now - 3 * DAY },
      { id: "sig_2", ordinal: 2, payload: form(2), at: now },
      { id: "sig_3", ordinal: 3, payload: form(3), at: now, verdict: "held" },
      { id: "sig_4", ordinal: 4, payload: { ...form(2), source: "crm" }, at: now - 40 * DAY },
      { id: "sig_5", ordinal: 5, payload: form(2), at: now },
      {
        id: "sig_6",
        ordinal: 6,
        payload: { type: "track", event: "Seen", anonymousId: "visitor-1", messageId: "m" },
        at: now,
      },
    ]);
    const html = await see("");
    expect(rowsOf(html).sort()).toEqual([
      "Filled Out Form crm 1 0 0 1 month ago 1 month ago",
      "Filled Out Form web 3 1 0 3 days ago just now",
      "Seen segment 1 0 1 just now just now",
    ]);
    const page = readHtml(html);
    const labels = page.all("svg").map((chart) => chart.attribute("aria-label"));
    expect(labels).toContain("3 signals in 14 days, 2 signals today");
    expect(labels).toContain("0 signals in 14 days, 0 signals today");
    expect(page.text).toContain("1 signal is held");
    expect(page.only("main").targets).toContain(`${base}/usage`);
  });

  test("filters by part of the name, by source, and by held and anonymous signals", async () => {
    await deliver(workspace.id, [
      { id: "sig_1", ordinal: 1, payload: form(1) },
      { id: "sig_2", ordinal: 2, payload: { ...form(1), event: "Opened Email", source: "crm" } },
      { id: "sig_3", ordinal: 3, payload: { ...form(1), event: "Späßchen" }, verdict: "held" },
      { id: "sig_4", ordinal: 4, payload: { event: "Seen", source: "web", type: "track", anonymousId: "visitor-1" } },
    ]);
    const events = async (query: string) => rowsOf(await see(`?${query}`)).map((row) => row.split(" ")[0]);
    expect(await events("q=out+FORM")).toEqual(["Filled"]);
    expect(await events("q=%C3%9FCHEN")).toEqual(["Späßchen"]);
    expect(await events("source=crm")).toEqual(["Opened"]);
    expect(await events("only=held")).toEqual(["Späßchen"]);
    expect(await events("only=anonymous")).toEqual(["Seen"]);
    expect(await events("q=form&source=crm")).toEqual([]);
    expect(textOf(await see("?q=nowhere"))).toContain("No event fits");
    expect(readHtml(await see("?q=%22%3E%3Cscript%3E")).field("q").value).toBe('"><script>');
  });

  test("a signal's id in the search links to the signal", async () => {
    await deliver(workspace.id, [{ id: "sig_1", payload: form(1) }]);
    for (const path of ["?q=+sig_1+", "/all?id=sig_1"]) {
      const response = await members.member.get(`${base}/signals${path}`);
      expect([response.status, response.headers.get("location")]).toEqual([303, `${base}/signals/sig_1`]);
    }
  });

  test("pages by cursor, each group once, also groups with the same last time", async () => {
    const at = Date.now();
    const payload = (n: number) => ({ ...form(1), event: `event ${String(n).padStart(2, "0")}` });
    await deliver(
      workspace.id,
      Array.from({ length: 60 }, (_, n) => ({ id: `sig_${n}`, ordinal: n + 1, payload: payload(n), at })),
    );
    const seen: string[] = [];
    for (let path: string | undefined = `${base}/signals`; path !== undefined;) {
      // oxlint-disable-next-line no-await-in-loop -- each page leads to the next
      const html: string = await members.member.see(path);
      seen.push(...rowsOf(html).map((row) => row.slice(0, 8)));
      path = readHtml(html).next;
    }
    expect(seen.sort()).toEqual(Array.from({ length: 60 }, (_, n) => payload(n).event));
  });

  test("reads a bounded number of groups at a time, and says where it stopped", async () => {
    await deliver(workspace.id, [{ id: "sig_1", payload: form(1), at: 1_000 }]);
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
    const first = await see("?q=form");
    expect(rowsOf(first)).toEqual([]);
    expect(textOf(first)).toContain("Looked through 2,000 events");
    const next = readHtml(first).next ?? "";
    expect(rowsOf(await members.member.see(next))).toHaveLength(1);
  });

  test("hostile names appear as text everywhere", async () => {
    const hostile = `"><script>alert(1)</script>'&`;
    await deliver(workspace.id, [
      {
        id: "sig_1",
        payload: { event: hostile, source: hostile, email: "x@example.com", properties: { [hostile]: hostile } },
      },
    ]);
    const [queue, group] = [await see(""), await see(groupPath(hostile, hostile))];
    for (const html of [queue, group, await see("/all"), await see("/sig_1")]) {
      expect(readHtml(html).inlineScripts).toHaveLength(0);
      expect(textOf(html)).toContain("<script>alert(1)</script>");
    }
    const link = readHtml(queue).targets.find((target) => target.includes("/group?")) ?? "";
    expect(textOf(await members.member.see(link))).toContain("The latest sample");
  });
});

describe("the page of an event group", () => {
  test("shows samples and its signals with their status, and links managers to a rule", async () => {
    await deliver(workspace.id, [
      { id: "sig_1", ordinal: 1, payload: form(1) },
      { id: "sig_2", ordinal: 2, payload: form(1) },
      { id: "sig_3", ordinal: 3, payload: form(2, { plan: "<b>pro</b>" }), verdict: "held" },
      { id: "sig_4", ordinal: 4, payload: { ...form(3), source: "crm" } },
    ]);
    const html = await members.owner.see(`${base}/signals${groupPath("Filled Out Form")}`);
    expect(rowsOf(html).map((row) => row.replace(/^just now /, ""))).toEqual([
      "Held p2@example.com sig_…sig_3",
      "Processed p1@example.com sig_…sig_1",
    ]);
    expect(textOf(html)).toContain('"plan": "<b>pro</b>"');
    const toRule = readHtml(html).targets.find((target) => target.startsWith(`${base}/rules/new?`));
    expect(new URLSearchParams(toRule?.split("?")[1]).get("from")).toBe("sig_3");
    expect(rowsOf(await see(`${groupPath("Filled Out Form")}&status=held`))).toHaveLength(1);
    expect(textOf(await see(`${groupPath("Filled Out Form")}&status=dead`))).toContain("No signal fits");
    expect(await see(groupPath("Filled Out Form"))).not.toContain("rules/new");
  });

  test("counts signals whose sources name persons, and shows none of these sources", async () => {
    const source = "newsletter for p1@example.com";
    await deliver(workspace.id, [
      { id: "sig_1", ordinal: 1, payload: { ...form(1), source } },
      { id: "sig_2", ordinal: 2, payload: { ...form(2), source: "list of p2@example.com" } },
      { id: "sig_3", ordinal: 3, payload: form(3) },
    ]);
    for (const asked of ["", source]) {
      const html = await see(groupPath("Filled Out Form", asked));
      expect(rowsOf(html).map((row) => row.replace(/^just now /, ""))).toEqual([
        "Processed p2@example.com sig_…sig_2",
        "Processed p1@example.com sig_…sig_1",
      ]);
    }
    const queue = textOf(await see(""));
    expect(queue).toContain("Filled Out Form");
    expect(queue).not.toContain("newsletter");
  });

  test("is not found for an event that was never sent", async () => {
    for (const path of [groupPath("nothing"), "/group", "/group?event=Filled+Out+Form"]) {
      expect((await members.owner.get(`${base}/signals${path}`)).status, path).toBe(404);
    }
  });
});

describe("the list of all signals", () => {
  test("filters by days of receipt and, for managers, by key, also over sealed segments", async () => {
    const at = Date.UTC(2031, 4, 10, 12);
    vi.setSystemTime(at + DAY);
    const otherKey = await workspace.newKey({ name: "Other <key>" });
    for (const [n, keyId] of [workspace.key.id, otherKey.id, otherKey.id, workspace.key.id].entries()) {
      await deliver(workspace.id, [
        { id: `sig_${n}`, ordinal: n + 1, payload: form(n), at: at - (3 - n) * DAY, envelope: { key: keyId } },
      ]);
      await runInDurableObject(workspace.store, (store) => {
        const { signals } = (store as unknown as { state: StoreState }).state;
        signals.seal();
        signals.flush();
      });
    }
    const ids = async (query: string, browser = members.owner) => {
      const { targets } = await browser.read(`${base}/signals/all${query}`);
      return [...new Set(targets.flatMap((target) => /\/signals\/(sig_\d)$/.exec(target)?.[1] ?? []))];
    };
    expect(await ids("")).toEqual(["sig_3", "sig_2", "sig_1", "sig_0"]);
    expect(await ids("?from=2031-05-08&to=2031-05-09")).toEqual(["sig_2", "sig_1"]);
    expect(await ids("?from=2031-05-10")).toEqual(["sig_3"]);
    expect(await ids("?to=2031-05-07")).toEqual(["sig_0"]);
    expect(await ids(`?key=${otherKey.id}`)).toEqual(["sig_2", "sig_1"]);
    expect(await ids(`?key=${otherKey.id}&from=2031-05-09`)).toEqual(["sig_2"]);
    expect(await ids("?event=Filled+Out+Form&to=2031-05-08&email=p1@example.com")).toEqual(["sig_1"]);
    // Spec §1: other members see no keys.
    expect(await ids(`?key=${otherKey.id}`, members.member)).toHaveLength(4);
    expect(textOf(await members.owner.see(`${base}/signals/all`))).toContain("Other <key>");
    expect(textOf(await see("/all"))).not.toContain("Other <key>");
    expect(textOf(await members.owner.see(`${base}/signals/all?from=2040-01-01`))).toContain("No signal fits");
  });

  test("says what to do if there are none, and how to clear a filter that matches nothing", async () => {
    const [none, narrowed] = [textOf(await see("/all")), textOf(await see("/all?event=&status=held"))];
    expect([none.includes("No signals yet"), none.includes("Connect a sender")]).toEqual([true, true]);
    expect([none.includes("No signal fits"), narrowed.includes("No signal fits")]).toEqual([false, true]);
    const all = "event=Form+1&source=web&email=a%40x.example&status=held&key=key_1&from=2031-01-01";
    const html = await members.owner.see(`${base}/signals/all?${all}`);
    expect(textOf(html)).toContain(
      "No signal fits Event name: Form 1 Clear Source: web Clear Email of the person: a@x.example Clear Status: Held Clear Key: key_1 Clear Received: from 2031-01-01 (UTC) Clear Clear all of them",
    );
    expect(readHtml(html).only('a[aria-label="Clear “Source”"]').target).toBe(
      `${base}/signals/all?${all.replace("source=web&", "")}`,
    );
  });

  test("suggests the known events and sources", async () => {
    await deliver(workspace.id, [{ id: "sig_1", payload: { ...form(1), source: "the shop" } }]);
    const page = readHtml(await see("/all"));
    const offered = (id: string) => page.all(`datalist[id="${id}"] option`).map(({ value }) => value);
    expect([offered("known-event"), offered("known-source")]).toEqual([["Filled Out Form"], ["the shop"]]);
  });

  test("filters by event, person and status, and pages by cursor", async () => {
    await deliver(
      workspace.id,
      Array.from({ length: 30 }, (_, n) => ({ id: `sig_${n}`, ordinal: n + 1, payload: form(n % 3, { i: n }) })),
    );
    await deliver(workspace.id, [
      { id: "sig_held", ordinal: 40, payload: { ...form(1), event: "Other" }, verdict: "held" },
      { id: "sig_dead", ordinal: 41, payload: "no json" },
    ]);
    const rows = async (query: string) => rowsOf(await see(`/all?${query}`));
    expect(await rows("event=Other")).toHaveLength(1);
    expect(await rows("source=web")).toHaveLength(25);
    expect(await rows("source=web&event=Other")).toHaveLength(1);
    expect(await rows("source=we")).toHaveLength(0);
    expect(await rows("email=P1@example.com")).toHaveLength(11);
    expect(await rows("email=P1@example.com&status=held")).toHaveLength(1);
    expect(await rows("email=P1@example.com&event=Filled+Out+Form")).toHaveLength(10);
    expect(await rows("status=dead")).toHaveLength(1);
    expect(await rows("event=Filled+Out+Form&status=held")).toEqual([]);
    for (const cursor of ["nonsense", "1", "1.2", "-1.2.3", "1.2.3.4", "9e9.1.1"]) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await rows(`cursor=${cursor}`), cursor).toEqual([]);
    }
    const first = await see("/all");
    expect(rowsOf(first)).toHaveLength(25);
    const next = readHtml(first).next ?? "";
    expect(rowsOf(await members.member.see(next))).toHaveLength(7);
  });

  test("needs several pages for a rare combination, each of them short", async () => {
    await deliver(workspace.id, [{ id: "sig_1", payload: { ...form(1), event: "Rare" } }]);
    await deliver(
      workspace.id,
      Array.from({ length: LIST_SCAN_SIGNALS }, (_, n) => ({
        id: `sig_n${n}`,
        ordinal: n + 2,
        payload: form(1, { n }),
      })),
    );
    const first = await see("/all?event=Rare&email=p1@example.com");
    expect(rowsOf(first)).toEqual([]);
    expect(textOf(first)).toContain("Looked through 2,000 signals");
    const next = readHtml(first).next ?? "";
    expect(rowsOf(await members.member.see(next))).toHaveLength(1);
  });
});

describe("a signal's page", () => {
  test("shows the way from receipt to score", async () => {
    const rule = await workspace.operator<{ id: string }>("POST", "/rules", {
      name: "Asked <b>for</b> a demo",
      event: "Filled*",
      scoring_signal: "demo",
      points: 20,
    });
    await workspace.operator("POST", "/rules", {
      name: "no",
      event: "F*",
      conditions: [{ path: "email", operator: "not_exists" }],
      scoring_signal: "x",
      points: 1,
    });
    const { id } = await (await workspace.send(form(1))).json<{ id: string }>();
    const path = `${base}/signals/${id}`;
    await workspace.settled();
    await workspace.operator("PATCH", `/rules/${rule.id}`, { points: 30 });
    const html = await members.owner.see(path);
    const text = textOf(html);
    expect(html).not.toContain("data-refresh");
    for (const expected of [
      "Processed It took its effect.",
      "On the Signal Staging endpoint, with the key test key.",
      "Accepted: signal 1 of 1,000,000",
      "Recorded",
      "p1@example.com, named by its email.",
      "2 rules tried, 1 matched",
      "+20 demo, by Asked <b>for</b> a demo version 1 (now version 2)",
      "+20 points",
    ]) {
      expect(text).toContain(expected);
    }
    expect(readHtml(html).targets).toContain(`${base}/rules/${rule.id}`);
    expect(readHtml(html).targets).toContain(`${base}/rules/new?from=${id}`);
    // For a rule that scores a person once, the next signal says why it does not score.
    await workspace.operator("PATCH", `/rules/${rule.id}`, { frequency: "once_per_day" });
    const next: string[] = [];
    for (const n of [7, 8]) {
      const sent = await workspace.send({ ...form(n), email: "p1@example.com" });
      next.push((await sent.json<{ id: string }>()).id);
      await workspace.settled();
    }
    const [scoring = "", silent = ""] = next;
    expect(textOf(await members.owner.see(`${base}/signals/${scoring}`))).toContain(
      "+30 demo, at most once a day (UTC), by",
    );
    const already = await members.owner.see(`${base}/signals/${silent}`);
    expect(textOf(already)).toContain("0 demo, already scored that day, by");
    expect(textOf(already)).toContain("The person's score is as it was.");
    expect(readHtml(already).link("already scored that day").target).toBe(`${base}/signals/${scoring}`);

    // Spec §1: only owners and admins see keys.
    const read = await members.member.see(path);
    expect(read).not.toContain("test key");
    expect(read).not.toContain("rules/new");
  });

  test("refreshes while the signal is in flight, until it is recorded", async () => {
    // The store refuses signals that were evaluated with older rules, so that they stay in flight.
    await workspace.store.applyRule({ ruleId: "rule_newer", rule: null, rulesVersion: 1_000 });
    const { id } = await (await workspace.send(form(1))).json<{ id: string }>();
    const html = await see(`/${id}`);
    expect(readHtml(html).only("#trace").attribute("data-refresh")).toMatch(/^\d+$/);
    expect(textOf(html)).toContain("In flight It is accepted and on its way to the store.");
    expect(textOf(html)).toContain("Accepted: signal 1 of 1,000,000");
    expect(textOf(html)).toContain("It is shown once the signal is recorded.");
  });

  test("explains every status and its reason", async () => {
    const at = Date.now() - 60_000;
    await deliver(workspace.id, [
      { id: "sig_1", ordinal: 1, payload: form(1), at },
      { id: "sig_2", ordinal: 2, payload: form(1), at: at + 1 },
      { id: "sig_3", ordinal: 1_042, payload: form(3), at, verdict: "held" },
      { id: "sig_4", ordinal: 4, payload: form(4), at: at - 9 * DAY, verdict: "held", periodEnd: at - DAY },
      { id: "sig_5", ordinal: 5, payload: "no json", at },
      {
        id: "sig_6",
        ordinal: 6,
        payload: { type: "track", event: "Seen", userId: "user-1", anonymousId: "visitor-1" },
        at,
      },
      { id: "sig_7", ordinal: 7, payload: { event: "Seen", source: "web" }, at },
      { id: "sig_8", ordinal: 8, payload: { type: "identify", anonymousId: "visitor-2", traits: {} }, at },
    ]);
    const descriptions = {
      sig_2: ["Duplicate The same content came before, as sig_1.", "A duplicate's payload is not kept"],
      sig_3: ["Held: signal 1,042 of 1,000", "Waiting Held until its billing period ends", "Email p3@example.com"],
      sig_4: ["Purged", "its billing period has ended"],
      sig_5: ["Could not be processed", "SyntaxError", "no json"],
      sig_6: ["Visitor not known yet", "User id user-1", "Anonymous id visitor-1"],
      sig_7: ["Nobody named It names no email"],
      sig_8: ["Nobody identified"],
    };
    for (const [id, texts] of Object.entries(descriptions)) {
      // oxlint-disable-next-line no-await-in-loop
      const text = textOf(await see(`/${id}`));
      for (const expected of texts) expect(text).toContain(expected);
    }
    await deliver(workspace.id, [
      {
        id: "sig_9",
        ordinal: 9,
        payload: { type: "identify", anonymousId: "visitor-1", userId: "user-1", traits: { email: "z@example.com" } },
      },
    ]);
    const linked = textOf(await see("/sig_6"));
    expect(linked).toContain("z@example.com, named by its user id; linked later");
    expect(linked).toContain("0 rules tried, 0 matched");
  });

  test("keeps a signal whose email looks like a link, creates no person from it, and says why", async () => {
    const link = "https://evil.example/login?x=1#@x.co";
    const why = 'Its email has a "/", ":", "<" or ">", as no address of a person may here, so it names nobody.';
    const answer = await workspace.send([
      { event: "Signed Up", email: link },
      { type: "track", event: "Signed Up", anonymousId: "visitor-1", traits: { email: link } },
      { type: "identify", userId: "user-1", traits: { email: link } },
    ]);
    const { results } = await answer.json<{ results: { id: string }[] }>();
    await workspace.settled();
    const ids = results.map(({ id }) => id);
    const traces = await Promise.all(ids.map((id) => workspace.operator<object>("GET", `/signals/${id}`)));
    const [plain, track, identify] = traces;
    expect(plain).toMatchObject({ status: "processed", person: null, email: null, email_problem: why });
    expect(track).toMatchObject({ status: "anonymous", person: null, email: null, email_problem: why });
    expect(identify).toMatchObject({ status: "processed", person: null, email_problem: why });
    for (const id of ids) {
      // oxlint-disable-next-line no-await-in-loop
      expect(textOf(await see(`/${id}`))).toContain(why);
    }
    expect(textOf(await members.owner.see(`${members.home}/people`))).not.toContain("evil.example");
  });

  test("of another workspace, or with an unknown id, is not found", async () => {
    await deliver(workspace.id, [{ id: "sig_1", payload: form(1) }]);
    const otherTeam = await newMembers();
    expect((await otherTeam.owner.get(`${otherTeam.home}/signals/sig_1`)).status).toBe(404);
    expect((await otherTeam.owner.get(`${base}/signals/sig_1`)).status).toBe(404);
    expect((await members.stranger.get(`${base}/signals`)).status).toBe(404);
    expect((await members.owner.get(`${base}/signals/sig_none`)).status).toBe(404);
    expect((await members.owner.get(`${base}/signals/sig_1`)).headers.get("cache-control")).toBe("no-store");
  });
});

describe("dead letters", () => {
  const dead = () =>
    deliver(workspace.id, [
      { id: "sig_1", ordinal: 1, payload: "<script>no json", periodStart: 1, periodEnd: Date.now() + DAY },
      { id: "sig_2", ordinal: 2, payload: "no json", periodStart: 1, periodEnd: Date.now() + DAY },
    ]);

  /** Waits until the replayed signals are settled. */
  const sent = () => until(async () => expect((await workspace.counter.books()).unsettled).toBe(0));

  test("are shown with their reasons; managers replay one or all, with an audit entry each", async () => {
    await dead();
    expect(textOf(await see(""))).toContain("2 signals could not be processed");
    const html = await members.admin.see(`${base}/signals/dead-letters`);
    expect(rowsOf(html)).toHaveLength(2);
    expect(textOf(html)).toContain("Could not be processed: SyntaxError");
    expect(readHtml(html).inlineScripts).toHaveLength(0);

    const answer = await members.admin.post(`${base}/signals/dead-letters/replay`, { id: "sig_1" });
    expect([answer.status, answer.headers.get("location")]).toEqual([303, `${base}/signals/sig_1?done=replayed`]);
    await sent();
    const all = await members.owner.post(`${base}/signals/dead-letters/replay`);
    expect(all.headers.get("location")).toBe(`${base}/signals/dead-letters?done=replayed`);
    await sent();
    expect(rowsOf(await see("/dead-letters"))).toHaveLength(2);
    const none = await members.owner.post(`${base}/signals/dead-letters/replay`, { id: "sig_none" });
    expect(none.headers.get("location")).toContain("done=nothing_to_replay");
    expect((await audit()).filter((entry) => entry.startsWith("dead"))).toEqual([
      expect.stringMatching(/^dead_letters\.replayed admin-/),
      expect.stringMatching(/^dead_letters\.replayed owner-/),
      expect.stringMatching(/^dead_letters\.replayed owner-/),
    ]);
  });

  test("are read-only for plain members", async () => {
    await dead();
    const html = await see("/dead-letters");
    expect(rowsOf(html)).toHaveLength(2);
    expect(html).not.toContain("dead-letters/replay");
    expect(await see("/sig_1")).not.toContain("dead-letters/replay");
    expect((await members.member.post(`${base}/signals/dead-letters/replay`)).status).toBe(403);
    expect((await members.stranger.post(`${base}/signals/dead-letters/replay`)).status).toBe(404);
    expect(textOf(await members.owner.see(`${base}/signals?q=none`))).toContain("2 signals could not be processed");
  });

  test("are reported as none if there are none", async () => {
    expect(textOf(await see("/dead-letters"))).toContain("No dead letters");
  });
});
