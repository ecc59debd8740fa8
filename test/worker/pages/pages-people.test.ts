/** People (spec §2.3): the list and its orders, one person, deletion with a receipt, exports. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, test } from "vitest";
import { SCORE_CURVE_STEPS, SCORE_CURVE_SIGNALS } from "../../../src/store/queries/person-page.ts";
import { insertEntries } from "../../../src/store/people/timelines.ts";
import { personList } from "../../../src/store/people/visitors.ts";
import { StoreState } from "../../../src/store/state/store-state.ts";
import { deliver, type Delivered } from "../../support/deliver.ts";
import { newMembers, type Members } from "../../support/members.ts";
import { readHtml } from "../../support/html.ts";
import { until } from "../../support/until.ts";
import { operator } from "../../support/workspace.ts";

const NOW = Date.now();
const HOUR = 3_600_000;

let members: Members;
let people: string;
let ids = 0;

beforeAll(async () => {
  members = await newMembers();
  people = `${members.home}/people`;
});

/** Delivers one signal per email to the consumer in one call, the oldest first. */
async function happened(of: Members, signals: Partial<Delivered>[]): Promise<string[]> {
  const all = signals.map((signal) => ({
    id: `sig_${crypto.randomUUID()}`,
    at: NOW - HOUR,
    payload: {},
    ordinal: ++ids,
    ...signal,
  }));
  await deliver(of.workspace.id, all);
  return all.map(({ id }) => id);
}

const did = (email: string, event: string, at: number, more: object = {}): Partial<Delivered> => ({
  at,
  payload: { email, event, source: "website", properties: {}, ...more },
});

/** Emails of the list's rows, in their order. */
function listed(html: string): string[] {
  return readHtml(html).rows.map((row) => row.only("th").text);
}

function nextOf(html: string): string | null {
  return readHtml(html).next ?? null;
}

async function newRule(of: Members, event: string, points: number): Promise<{ id: string; name: string }> {
  const name = `Rule for <b>${event}</b>`;
  const body = { name, event, match: "all", conditions: [], scoring_signal: `${event}_scored`, points };
  return operator("POST", `/workspaces/${of.workspace.id}/rules`, body);
}

describe("the list of people", () => {
  test("says what to do first if there are no people", async () => {
    const page = await members.member.read(people);
    expect(page.text).toContain("Nobody yet");
    expect(page.only("main").targets).toContain(`${members.home}/connect`);
  });

  test("has four orders, and each person appears once across its pages", async () => {
    const of = await newMembers();
    await newRule(of, "scored", 3);
    // 60 people: those with the same score and the same last time are sorted by number.
    await happened(
      of,
      Array.from({ length: 60 }, (_, index) =>
        did(
          `p${String((index * 37) % 60).padStart(2, "0")}@example.com`,
          index % 3 === 0 ? "scored" : "other",
          NOW - (index % 5) * HOUR,
        ),
      ),
    );
    const inOrder = async (sort: string): Promise<string[]> => {
      const seen: string[] = [];
      let path: string | null = `${of.home}/people?sort=${sort}`;
      for (let pages = 0; path !== null && pages < 10; pages++) {
        // oxlint-disable-next-line no-await-in-loop -- each page names the next
        const html = await of.member.see(path);
        seen.push(...listed(html));
        path = nextOf(html);
      }
      return seen;
    };
    const emails = Array.from(
      { length: 60 },
      (_, index) => `p${String((index * 37) % 60).padStart(2, "0")}@example.com`,
    );
    const index = (email: string) => emails.indexOf(email);
    const lastSeen = (email: string) => -(index(email) % 5);
    // People were recorded in order of receipt.
    const recorded = emails.toSorted((a, b) => lastSeen(a) - lastSeen(b));
    const number = (email: string) => recorded.indexOf(email);
    expect(await inOrder("email")).toEqual(emails.toSorted());
    expect(await inOrder("newest")).toEqual(recorded.toReversed());
    expect(await inOrder("last_seen")).toEqual(
      emails.toSorted((a, b) => lastSeen(b) - lastSeen(a) || number(b) - number(a)),
    );
    const score = (email: string) => (index(email) % 3 === 0 ? 3 : 0);
    expect(await inOrder("score")).toEqual(emails.toSorted((a, b) => score(b) - score(a) || number(b) - number(a)));
  });

  test("keeps search, order, score and days across its pages and in its form", async () => {
    const of = await newMembers();
    await newRule(of, "scored", 3);
    const some = (count: number, event: string) =>
      Array.from({ length: count }, (_, index) => did(`${event}${index}@x.example`, event, NOW - index * HOUR));
    await happened(of, [...some(30, "scored"), ...some(5, "other")]);
    const since = new Date(NOW - 3 * 24 * HOUR).toISOString().slice(0, 10);
    const asked = new URLSearchParams({ q: "X.Example", sort: "last_seen_up", score: "3", from: since }).toString();
    const html = await of.member.see(`${of.home}/people?${asked}`);
    const form = readHtml(html).only("main").only("form");
    const kept = ["q", "sort", "score", "from"].map((name) => form.field(name).value);
    expect(kept).toEqual(["X.Example", "last_seen_up", "3", since]);
    const next = nextOf(html);
    expect(next).toContain(asked);
    const second = await of.member.see(next ?? "");
    const order = Array.from({ length: 30 }, (_, index) => `scored${29 - index}@x.example`);
    expect([...listed(html), ...listed(second)]).toEqual(order);
    expect(nextOf(second)).toBe(null);
  });

  test("names the filter that matches no person, and clears each of them", async () => {
    const of = await newMembers();
    await happened(of, [did("ann@example.com", "e", NOW)]);
    const html = await of.member.see(`${of.home}/people?q=%22%3E%3Cscript%3E&score=7&from=2020-01-01&sort=email`);
    const page = readHtml(html);
    expect(page.inlineScripts).toHaveLength(0);
    expect(page.text).toContain(
      `Nobody found Email, name or company with: "><script> Clear Score at least: 7 Clear Last seen: from 2020-01-01 (UTC) Clear`,
    );
    const clear = (label: string) => page.only(`a[aria-label="Clear “${label}”"]`).target;
    expect(clear("Score at least")).toBe(`${of.home}/people?q=%22%3E%3Cscript%3E&sort=email&from=2020-01-01`);
    expect(clear("Last seen")).toBe(`${of.home}/people?q=%22%3E%3Cscript%3E&sort=email&score=7`);
    expect(page.link(/^Clear all of them/).target).toBe(`${of.home}/people`);
  });

  test("ignores an invalid order and an invalid search", async () => {
    const html = await members.member.see(`${people}?sort=toString&score=many&from=never&q=%20`);
    expect(html).toContain("Nobody yet");
  });

  test("links an email to the person", async () => {
    const response = await members.member.get(`${people}?email=${encodeURIComponent(" Jane/X@Example.com ")}`);
    expect(response.status).toBe(303);
    expect(response.headers.get("location")).toBe(`${people}/${encodeURIComponent("jane/x@example.com")}`);
  });
});

describe("a person", () => {
  test("shows facts, score, curve, timeline with rules and traces, and identities", async () => {
    const of = await newMembers();
    const rule = await newRule(of, "Viewed", 5);
    await newRule(of, "Left", -2);
    const [anonymous] = await happened(of, [
      {
        at: NOW - 3 * HOUR,
        payload: { type: "track", messageId: "m1", anonymousId: "anon-<i>", event: "Viewed", properties: {} },
      },
    ]);
    const [identify, viewed, left] = await happened(of, [
      {
        at: NOW - 2 * HOUR,
        payload: {
          type: "identify",
          messageId: "m2",
          anonymousId: "anon-<i>",
          userId: "user-1",
          traits: { email: "jane@example.com", name: "<script>alert(1)</script>", company: "A & B" },
        },
      },
      did("jane@example.com", "Viewed", NOW - HOUR),
      did("jane@example.com", "Left", NOW - HOUR / 2, { source: "<img src=x>" }),
    ]);
    const path = `${of.home}/people/jane%40example.com`;
    const html = await until(async () => {
      const page = await of.member.see(path);
      expect(page).toContain("from 3 scoring signals");
      return page;
    });
    const page = readHtml(html);
    expect(page.fact("Score")).toMatch(/^8\b/);
    expect(page.text).toContain("<script>alert(1)</script>");
    expect(page.text).toContain("A & B");
    expect(page.only("svg.chart").attribute("aria-label")).toMatch(/^Score from 0 on .* to 8 now\.$/);
    const signals = page.targets.filter((target) => target.includes("/signals/sig_"));
    const traces = [left, viewed, identify, anonymous].map((id) => `${of.home}/signals/${id}`);
    expect([...new Set(signals)]).toEqual(traces);
    expect(page.links("Rule for <b>Viewed</b>").map(({ target }) => target)).toContain(`${of.home}/rules/${rule.id}`);
    expect(page.text).toContain("links its ids to the email");
    expect(page.text).toContain("matched by anonymous id anon-<i>; was anonymous until");
    const codes = page.all("code").map(({ text }) => text);
    expect(codes).toContain("anon-<i>");
    expect(codes).toContain("user-1");
    expect(page.inlineScripts).toHaveLength(0);
    expect(page.all("main b, main i, img")).toHaveLength(0);

    const scores = await of.member.see(`${path}?show=scores`);
    expect(scores).toContain(`/signals/${left ?? "?"}`);
    expect(scores).not.toContain(`/signals/${identify ?? "?"}`);
    expect(scores).toContain("-2");
  });

  test("with more ids than are kept shows the number of dropped ids, on the page and in the API", async () => {
    const of = await newMembers();
    await happened(of, [did("jane@example.com", "Viewed", NOW - HOUR)]);
    const path = `${of.home}/people/jane%40example.com`;
    expect(await of.member.see(path)).not.toContain("dropped");
    await runInDurableObject(env.SIGNAL_STORE.getByName(of.workspace.id), (_, { storage: { sql } }) => {
      sql.exec("UPDATE people SET ids_dropped = 12345");
    });
    expect(await of.member.see(path)).toContain(
      "12,345 older ids were dropped: a person keeps the latest 2,500 of each kind.",
    );
    expect(await operator("GET", `/workspaces/${of.workspace.id}/people`)).toMatchObject({
      items: [{ identities_dropped: 12_345 }],
    });
  });

  test("with a changed email becomes two people of one id, whose pages say so and link to each other", async () => {
    const of = await newMembers();
    const named = (email: string, at: number, userId: string): Partial<Delivered> => ({
      at,
      payload: { type: "identify", messageId: `${email} ${userId}`, userId, traits: { email } },
    });
    await happened(of, [
      named("old@example.com", NOW - 3 * HOUR, "u-<1>"),
      named("old@example.com", NOW - 3 * HOUR, "u-own"),
      named("new@example.com", NOW - 2 * HOUR, "u-<1>"),
      named("else@example.com", NOW - HOUR, "u-else"),
    ]);
    const pathOf = (email: string) => `${of.home}/people/${encodeURIComponent(email)}`;
    const page = (email: string) => of.member.read(pathOf(email));
    for (const [email, otherEmail] of [
      ["old@example.com", "new@example.com"],
      ["new@example.com", "old@example.com"],
    ] as const) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const shown = await page(email);
      expect(shown.text).toContain(`User id u-<1> : ${otherEmail}, named`);
      expect(shown.link(otherEmail).target).toBe(pathOf(otherEmail));
    }
    expect((await page("old@example.com")).text).toContain("Other people");
    expect((await page("else@example.com")).text).not.toContain("Other people");
    await happened(of, [named("new@example.com", NOW, "u-own")]);
    expect((await page("old@example.com")).text).toContain("No id is linked any more");
  });

  test("has a page for any valid email", async () => {
    const of = await newMembers();
    const emails = [
      `o'brien+tag\\x%41?#"&b=@example.com`,
      "..@example.com",
      "%2f@example.com",
      "ünï@example.com",
      "..%2f..@x",
    ];
    await happened(
      of,
      emails.map((email) => did(email, "e", NOW)),
    );
    for (const email of emails) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const page = await of.member.read(`${of.home}/people/${encodeURIComponent(email)}`);
      expect(page.only("h1").verbatim).toBe(email);
    }
  });

  test("has a timeline in pages, in both views", async () => {
    const of = await newMembers();
    await newRule(of, "scored", 1);
    const some = (count: number, sinceMs: number) =>
      Array.from({ length: count }, (_, index) =>
        did("busy@example.com", "scored", sinceMs + index, { properties: { index, sinceMs } }),
      );
    // More signals than the person's row lists, and then as many as it lists.
    const sent = [...(await happened(of, some(100, NOW - 2 * HOUR))), ...(await happened(of, some(20, NOW - HOUR)))];
    for (const show of ["all", "scores"]) {
      const seen: string[] = [];
      let path: string | null = `${of.home}/people/busy%40example.com?show=${show}`;
      for (let pages = 0; path !== null && pages < 9; pages++) {
        // oxlint-disable-next-line no-await-in-loop -- each page names the next
        const html = await of.member.see(path);
        seen.push(...readHtml(html).targets.flatMap((target) => target.split("/signals/")[1] ?? []));
        path = nextOf(html);
      }
      expect(seen).toEqual(sent.toReversed());
    }
  });

  test("with very many scoring signals has a curve of few steps that ends at the score", async () => {
    const of = await newMembers();
    await happened(of, [did("busy@example.com", "e", NOW)]);
    const { curve, person } = await runInDurableObject(
      env.SIGNAL_STORE.getByName(of.workspace.id),
      (store, { storage: { sql } }) => {
        const count = SCORE_CURVE_SIGNALS + 500;
        sql.exec(
          "INSERT INTO rule_outcomes (id, rule_id, rule_version, scoring_signal, points) VALUES (98, 'rule', 1, 's', 3), (99, 'rule', 2, 's', -1)",
        );
        const entries = Array.from({ length: count }, (_, index) => {
          const atMs = NOW - 50 * 24 * HOUR + index * 60_000 + (index % 7);
          // Lines that no longer exist.
          return {
            seq: index - count,
            scored: { signalId: `sig_${index}`, atMs, outcomes: [index % 2 === 0 ? 98 : 99] },
          };
        });
        insertEntries(sql, personList(1), entries);
        sql.exec("UPDATE people SET score = ?", count);
        const page = store.personPage("busy@example.com", "all", { cursor: null, limit: 25 });
        if (page === null) throw new Error("nobody");
        return page;
      },
    );
    expect(person.score).toBe(SCORE_CURVE_SIGNALS + 500);
    // One of the latest signals has not scored.
    expect(curve).toMatchObject({ signals: SCORE_CURVE_SIGNALS - 1, complete: false });
    expect(curve.fromScore).toBeGreaterThanOrEqual(500);
    expect(curve.fromScore).toBeLessThanOrEqual(503);
    expect(curve.points.at(-1)?.score).toBe(person.score);
    expect(curve.points.length).toBeGreaterThan(SCORE_CURVE_STEPS / 2);
    expect(curve.points.length).toBeLessThanOrEqual(SCORE_CURVE_STEPS + 1);
    const times = curve.points.map(({ atMs }) => atMs);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect((await of.member.see(`${of.home}/people/busy%40example.com`)).length).toBeLessThan(60_000);
  });

  test("keeps scores whose signals are no longer stored", async () => {
    const of = await newMembers();
    await newRule(of, "old", 7);
    await happened(of, [did("kept@example.com", "old", NOW)]);
    await runInDurableObject(env.SIGNAL_STORE.getByName(of.workspace.id), (_, { storage: { sql } }) => {
      // Retention drops whole segments.
      const { signals } = new StoreState(sql);
      signals.seal();
      for (const segment of signals.walk(0)) signals.drop(segment);
      signals.flush();
      sql.exec(
        "INSERT INTO retention (id, days, next_at, deleted_until) VALUES (1, 31, 0, ?) ON CONFLICT (id) DO UPDATE SET deleted_until = excluded.deleted_until",
        NOW,
      );
    });
    await evictDurableObject(env.SIGNAL_STORE.getByName(of.workspace.id));
    const path = `${of.home}/people/kept%40example.com`;
    expect(await of.member.see(path)).toContain("are deleted. What they scored stays");
    const scores = await of.member.see(`${path}?show=scores`);
    expect(scores).toContain("A signal that is not kept any more");
    expect(scores).toContain("+7");
  });

  test("of another workspace is not found", async () => {
    await happened(members, [did("mine@example.com", "e", NOW)]);
    expect((await members.member.get(`${people}/mine%40example.com`)).status).toBe(200);
    expect((await members.stranger.get(`${people}/mine%40example.com`)).status).toBe(404);
    const otherTeam = await newMembers();
    for (const path of ["", "/delete", "/deletion"]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await otherTeam.owner.get(`${otherTeam.home}/people/mine%40example.com${path}`)).status).toBe(404);
    }
  });

  test("is not cached, nor is the list", async () => {
    expect((await members.member.get(people)).headers.get("cache-control")).toBe("no-store");
  });
});

describe("a person's deletion", () => {
  test("asks for the typed email, deletes once, and shows the receipt", async () => {
    const of = await newMembers();
    await newRule(of, "Viewed", 5);
    await happened(of, [did("gone@example.com", "Viewed", NOW), did("gone@example.com", "other", NOW)]);
    const path = `${of.home}/people/gone%40example.com`;
    expect((await of.admin.read(path)).targets).toContain(`${path}/delete`);
    expect(await of.admin.see(`${path}/delete`)).toContain("What is deleted:");

    const wrong = await of.admin.post(`${path}/delete`, { email: 'someone@"<b>' });
    expect(wrong.status).toBe(422);
    const refused = readHtml(await wrong.text());
    expect(refused.text).toContain("not this person's email");
    expect(refused.form(`${path}/delete`).field("email").value).toBe('someone@"<b>');
    expect((await of.admin.get(path)).status).toBe(200);

    const deleted = await of.admin.post(`${path}/delete`, { email: " Gone@Example.com " });
    expect(deleted.status).toBe(303);
    expect(deleted.headers.get("location")).toBe(`${path}/deletion`);
    const receipt = await until(async () => {
      const shown = await of.member.read(`${path}/deletion`);
      expect(shown.text).toContain("The deletion is complete.");
      return shown;
    });
    expect([receipt.fact("Signals"), receipt.fact("Scoring signals")]).toEqual(["2", "1"]);
    const id = receipt.all("code").find(({ text }) => text.startsWith("del_"))?.text;

    // The receipt is found in Activity by its id, by searching the address, and as a file.
    const activity = await of.admin.read(`${of.home}/settings/activity`);
    expect(activity.targets).toContain(`${of.home}/people/deletions/${id}`);
    const byId = await of.member.see(`${of.home}/people/deletions/${id}`);
    expect([byId.includes("The deletion is complete."), byId.includes("gone@example.com")]).toEqual([true, false]);
    expect((await of.member.read(`${of.home}/people?q=Gone@Example.com`)).targets).toContain(`${path}/deletion`);
    const file = await of.member.get(`${of.home}/people/deletions/${id}/download`);
    expect(file.headers.get("content-disposition")).toBe(`attachment; filename="${id}.json"`);
    expect(await file.json()).toMatchObject({ id, workspace: of.workspace.id, signals: 2, scoringSignals: 1 });
    expect((await of.stranger.get(`${of.home}/people/deletions/${id}`)).status).toBe(404);
    expect((await of.member.get(`${of.home}/people/deletions/del_none/download`)).status).toBe(404);

    // The form is sent again, as with the back button: the receipt stays the same.
    expect((await of.admin.post(`${path}/delete`, { email: "gone@example.com" })).headers.get("location")).toBe(
      `${path}/deletion`,
    );
    expect(await of.member.see(`${path}/deletion`)).toContain(String(id));
    expect((await of.member.get(path)).headers.get("location")).toBe(`${path}/deletion`);
    expect(await of.member.see(`${of.home}/people`)).not.toContain("gone@example.com");

    const { results } = await env.DB.prepare(
      "SELECT actor, target, detail FROM audit_log WHERE workspace_id = ? AND action = 'person.deleted'",
    )
      .bind(of.workspace.id)
      .all<{ actor: string; target: string; detail: string }>();
    expect(results).toEqual([
      { actor: expect.stringMatching(/^admin-/), target: id, detail: expect.not.stringContaining("gone@") },
    ]);
  });

  test("is not available to members", async () => {
    await happened(members, [did("stays@example.com", "e", NOW)]);
    const path = `${people}/stays%40example.com`;
    expect((await members.member.read(path)).targets).not.toContain(`${path}/delete`);
    expect((await members.member.get(`${path}/delete`)).status).toBe(403);
    expect((await members.member.post(`${path}/delete`, { email: "stays@example.com" })).status).toBe(403);
    expect((await members.owner.get(path)).status).toBe(200);
  });
});

describe("exports of people and signals", () => {
  test("are files for owners and admins, with an audit entry", async () => {
    const of = await newMembers();
    await happened(of, [did("jane@example.com", "e", NOW)]);
    const exported = `${of.home}/people/export?records=people&format=csv`;
    expect((await of.admin.read(`${of.home}/people`)).targets).toContain(exported);
    const file = await of.admin.get(`${of.home}/people/export?records=people&format=csv`);
    expect(file.status).toBe(200);
    expect(file.headers.get("content-type")).toContain("text/csv");
    expect(file.headers.get("content-disposition")).toMatch(/^attachment; filename="w-.*-people-.*\.csv"$/);
    expect(file.headers.get("cache-control")).toBe("no-store");
    expect(await file.text()).toMatch(/^email,.*\r\njane@example\.com,/);
    const lines = (await (await of.owner.get(`${of.home}/people/export?records=signals&format=ndjson`)).text())
      .trim()
      .split("\n");
    expect(lines).toHaveLength(1);

    const { results } = await env.DB.prepare(
      "SELECT detail FROM audit_log WHERE workspace_id = ? AND action = 'data.exported' ORDER BY id",
    )
      .bind(of.workspace.id)
      .all<{ detail: string }>();
    expect(results.map(({ detail }) => JSON.parse(detail) as unknown)).toEqual([
      { records: "people", format: "csv" },
      { records: "signals", format: "ndjson" },
    ]);
  });

  test("are neither shown nor given to members, and other exports do not exist", async () => {
    expect(await members.member.see(people)).not.toContain("people/export");
    expect((await members.member.get(`${people}/export?records=people&format=csv`)).status).toBe(403);
    expect((await members.owner.get(`${people}/export?records=api_keys&format=csv`)).status).toBe(404);
    expect((await members.owner.get(`${people}/export?records=people&format=toString`)).status).toBe(404);
  });
});
