/** The pages Usage, Plan and Ledger (spec §8, design §6): content, permissions, and the effect of the forms. */
import { afterEach, describe, expect, test, vi } from "vitest";
import { env } from "cloudflare:workers";
import { intercept } from "../../support/intercept.ts";
import { expectLogged } from "../../support/logged.ts";
import { type Browser, newMembers, visitWith } from "../../support/members.ts";
import { newPlan, operator, type NewWorkspace, type TestWorkspace } from "../../support/workspace.ts";

afterEach(() => void vi.useRealTimers());

const send = (workspace: TestWorkspace, count: number) =>
  workspace.send(Array.from({ length: count }, (_, n) => ({ event: "Signed Up", email: `p${n}@example.com` })));

const auditOf = async (workspace: TestWorkspace) =>
  (await workspace.auditLog()).map(({ actor, action, detail }) => [actor, action, detail]);

/** Sets the price of overages of a plan of two signals. @returns the plan. */
async function setPrice(plan: string, per_thousand: number, currency: string): Promise<string> {
  const overage_price = { per_thousand, currency };
  await operator("PUT", `/plans/${plan}`, { name: "Priced", signal_limit: 2, paid: true, overage_price });
  return plan;
}

/** The people of a new workspace, and the path of its Usage page. */
async function atUsage(options: NewWorkspace = {}) {
  const members = await newMembers(options);
  return { ...members, path: `${members.home}/usage` };
}

describe("the usage pages", () => {
  test("show accepted, held and rejected signals, the limits in the chart, and balanced books that link to the lists", async () => {
    const { workspace, home, path, member } = await atUsage({ signalLimit: 10 });
    await send(workspace, 25);
    await workspace.settled();
    const page = await member.read(path);
    for (const expected of ["Used 20 200% of 10", "Held 10", "Rejected 5", "Left until rejections 0"])
      expect(page.text).toContain(expected);
    const labels = page.all("svg text").map(({ text }) => text);
    expect(labels).toEqual(expect.arrayContaining(["Limit 10", "Twice the limit 20"]));

    const ledger = await member.read(page.link("Ledger").target ?? "");
    const books = ledger.table("Books").rows.map(({ cells: [place, , period, total] }) => [place, period, total]);
    const counts = {
      Processed: 10,
      Duplicates: 0,
      Held: 10,
      Purged: 0,
      "Dead letters": 0,
      "In flight": 0,
      Accepted: 20,
    };
    expect(books).toEqual(Object.entries(counts).map(([place, count]) => [place, String(count), String(count)]));
    expect(ledger.text).toContain("Books Balanced");
    expect(ledger.text).toContain("No past periods yet");
    expect(ledger.link("Held").target).toBe(`${home}/signals/all?status=held`);
  });

  test("draw each day of the period with its verdicts, and list the numbers by day", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2031, 2, 1, 9) });
    const { workspace, path, owner } = await atUsage({ signalLimit: 10, anchor: "2026-01-01T10:00:00Z" });
    // On the same day as the first signals of the period, but before it begins.
    await send(workspace, 5);
    vi.setSystemTime(Date.UTC(2031, 2, 1, 12));
    await send(workspace, 8);
    vi.setSystemTime(Date.UTC(2031, 2, 2, 12));
    await send(workspace, 15);
    vi.setSystemTime(Date.UTC(2031, 2, 4, 6));
    const page = await owner.read(path);
    const bars = page.all("svg.chart title").map(({ text }) => text);
    expect(bars).toHaveLength(32);
    expect(bars.slice(0, 3)).toEqual([
      "Mar 1, 2031: 8 accepted, 0 held, 0 rejected",
      "Mar 2, 2031: 2 accepted, 10 held, 3 rejected",
      "Mar 3, 2031: 0 accepted, 0 held, 0 rejected",
    ]);
    const rows = page.table("Usage by day").rows.map(({ cells }) => cells.join(" "));
    expect(rows).toEqual(["Mar 4, 2031 0 0 0", "Mar 3, 2031 0 0 0", "Mar 2, 2031 2 10 3", "Mar 1, 2031 8 0 0"]);
    expect(page.text).toContain("You reached 10 signals (the limit) on Mar 2, 2031, and twice as many on Mar 2, 2031.");
  });

  test("forecast the day of the limit, and give the period's end the same distance as the overview", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2031, 2, 1, 12) });
    const { workspace, home, path, owner } = await atUsage({ signalLimit: 100, anchor: "2026-01-01T00:00:00Z" });
    await send(workspace, 10);
    vi.setSystemTime(Date.UTC(2031, 2, 2, 12));
    await send(workspace, 10);
    vi.setSystemTime(Date.UTC(2031, 2, 4, 6));
    // Ten signals in the two full days after the first: at this rate 80 more take sixteen days.
    const forecast =
      "At 5 signals a day (average of the last 2 full days), you reach the limit on Mar 20, 2031, and stay below twice the limit in this period.";
    expect((await owner.read(path)).text).toContain(forecast);
    await workspace.settled();
    for (const page of [path, home])
      expect((await owner.read(page)).text).toContain("The period ends on Apr 1, 2031, in 28 days.");
  });

  test("show the cost of overages so far and forecast at the plan's price, and nothing without a price", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2031, 2, 1, 12) });
    const plan = await newPlan(2);
    const { workspace, path, owner } = await atUsage({ plan, anchor: "2026-01-01T00:00:00Z" });
    await workspace.operator("PATCH", "", { overages: true });
    await send(workspace, 12);
    vi.setSystemTime(Date.UTC(2031, 2, 2, 0));
    const seen = async (tab = "") => (await owner.read(path + tab)).text;
    expect(await seen("/plan")).toContain("10 overages in this period. ");
    expect(await seen()).toContain("you reach about 370 by Apr 1, 2031: 368 overages.");

    await setPrice(plan, 50, "EUR");
    expect(await seen("/plan")).toContain("billed by the operator at €50.00 per 1,000.");
    expect(await seen("/plan")).toContain("10 overages in this period (about €0.50).");
    expect(await seen()).toContain("368 overages (about €18.40).");
  });

  test("scale the chart to the signals, without a distant limit, and without a forecast from one or two days", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2031, 2, 1, 12) });
    const { workspace, path, owner, admin } = await atUsage({ signalLimit: 100, anchor: "2026-01-01T00:00:00Z" });
    await workspace.operator("PATCH", "", { overages: true });
    await send(workspace, 20);
    const axis = async (by: Browser) =>
      (await by.read(path))
        .all("svg.chart")[0]
        ?.all('text[text-anchor="end"]')
        .map(({ text }) => text);
    vi.setSystemTime(Date.UTC(2031, 2, 2, 6));
    expect(await axis(owner)).toEqual(["0", "5", "10", "15", "20"]);
    for (const day of [2, 3, 4]) {
      vi.setSystemTime(Date.UTC(2031, 2, day, 12));
      await send(workspace, 20);
    }
    vi.setSystemTime(Date.UTC(2031, 2, 5, 6));
    expect(await axis(admin)).toEqual(["0", "200", "400", "600", "800", "Limit 100"]);
    // Without overages the forecast ends at twice the limit.
    await workspace.operator("PATCH", "", { overages: false });
    expect(await axis(admin)).toEqual(["0", "50", "100", "150", "200", "Limit 100", "Twice the limit 200"]);
  });

  test("show past periods with the streak, and how close the extra room is to its end", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2031, 2, 1, 12) });
    const { workspace, path, owner } = await atUsage({ signalLimit: 2, anchor: "2026-01-01T00:00:00Z" });
    await send(workspace, 3);
    vi.setSystemTime(Date.UTC(2031, 3, 1, 12));
    await send(workspace, 3);
    vi.setSystemTime(Date.UTC(2031, 4, 1, 12));
    const periods = (await owner.read(`${path}/ledger`)).table("Past periods").rows;
    expect(periods.map(({ cells }) => cells)).toEqual([
      ["Apr 1, 2031 to May 1, 2031", "2", "2", "1", "0", "Off", "2"],
      ["Mar 1, 2031 to Apr 1, 2031", "2", "2", "1", "0", "Off", "1"],
    ]);
    expect((await owner.read(`${path}/plan`)).text).toContain(
      "After 3 periods in a row over the limit, you permanently lose the extra room. 2 so far.",
    );
  });
});

describe("changing plan and overages, releasing held signals", () => {
  test("a larger plan and overages are shown with their effect and change the usage, with an audit entry each", async () => {
    const { workspace, path, admin, owner } = await atUsage({ signalLimit: 2 });
    const plan = await newPlan(5);
    await send(workspace, 3);
    await workspace.settled();
    expect((await owner.read(`${path}/plan`)).text).toContain(
      "2 more signals are accepted in this period. Then 5 are held, and signals beyond 10 are rejected. You can then release 1 held signal.",
    );
    const before = expect.any(String) as string;
    for (const [by, form, fields, done, usage, detail] of [
      [owner, "plan", { plan }, "plan_changed", { signal_limit: 5 }, { plan: { from: before, to: plan } }],
      [
        admin,
        "overages",
        { overages: "on" },
        "overages_on",
        { overages: true },
        { overages: { from: false, to: true } },
      ],
      [
        admin,
        "overages",
        { overages: "off" },
        "overages_off",
        { overages: false },
        { overages: { from: true, to: false } },
      ],
    ] as const) {
      const answer = await by.post(`${path}/${form}`, fields);
      expect([answer.status, answer.location]).toEqual([303, `${path}/plan?done=${done}`]);
      expect(await workspace.operator("GET", "/usage")).toMatchObject(usage);
      expect((await auditOf(workspace)).at(-1)).toEqual([by.email, "workspace.updated", detail]);
    }
    expect((await admin.read(`${path}/plan?done=overages_on`)).text).toContain("Overages enabled.");
  });

  test("held signals are released as far as they fit, once, and the log states the number", async () => {
    const { workspace, path, owner, home } = await atUsage({ signalLimit: 2 });
    await send(workspace, 4);
    await workspace.settled();
    expect((await owner.read(`${path}/plan`)).text).toContain(
      "2 signals are held in this period. Upgrade or enable overages",
    );
    expect((await owner.read(`${home}/signals/dead-letters`)).text).not.toContain("Every signal was processed");
    expect((await owner.post(`${path}/release`, { most: "1", overages: "off" })).location).toBe(
      `${path}/plan?done=none_released`,
    );

    await owner.post(`${path}/plan`, { plan: await newPlan(3) });
    expect((await owner.read(`${path}/plan`)).text).toContain("Release 1 signal");
    expect((await owner.post(`${path}/release`, { most: "1", overages: "off" })).location).toBe(
      `${path}/plan?done=released`,
    );
    expect(await workspace.settled()).toMatchObject({ processed: 3, held: 1, balanced: true });
    const held = await owner.read(`${home}/signals/all?status=held`);
    expect([held.all("[data-refresh]").length, held.table("Signals").rows.length]).toEqual([0, 1]);
    expect((await owner.post(`${path}/release`, { most: "1", overages: "off" })).location).toBe(
      `${path}/plan?done=none_released`,
    );
    const released = (await auditOf(workspace)).filter(([, action]) => action === "held.released");
    const numbers = [0, 1, 0].map((count, nth) => ({ released: count, still_held: nth === 0 ? 2 : 1 }));
    expect(released).toEqual(numbers.map((detail) => [owner.email, "held.released", detail]));
  });

  test("a held signal that was deleted with its person is purged in the books, and neither said to be held nor offered for release", async () => {
    const { workspace, path, owner, home } = await atUsage({ signalLimit: 3 });
    await send(workspace, 5);
    await workspace.settled();
    const seen = async () => {
      const [plan, overview, ledger] = await Promise.all(
        [`${path}/plan`, `${home}/`, `${path}/ledger`].map((page) => owner.read(page)),
      );
      const notices = plan?.text.match(/over your signal limit: [^.]*\./)?.[0];
      const enable = plan?.text.match(/Enable overages[^?]*\?/)?.[0];
      const attention = overview?.text.match(/\d+ signals? held/)?.[0];
      const purged = ledger?.table("Books").rows.find(({ cells: [place] }) => place === "Purged")?.cells;
      return { notices, enable, attention, purged };
    };
    const before = await seen();
    expect(before.enable).toContain("and release 2");
    expect(before.attention).toBe("2 signals held");
    for (const name of ["p3", "p4"]) await workspace.operator("DELETE", `/people/${name}@example.com`);
    await vi.waitFor(async () => expect(await workspace.settled()).toMatchObject({ held: 0, purged: 2 }));
    const after = await seen();
    expect(after.notices).not.toMatch(/\d/);
    expect(after.enable).toBe("Enable overages Enable overages?");
    expect(after.attention).toBeUndefined();
    expect(after.purged).toEqual(["Purged", expect.stringMatching(/deleted with their person/i), "2", "2"]);
  });

  test("the list of held signals says what is on the way, and follows until nothing is", async () => {
    const { workspace, home, owner } = await atUsage({ signalLimit: 2 });
    await send(workspace, 4);
    await workspace.settled();
    // The store is one signal behind.
    const SIGNAL_STORE = intercept(env.SIGNAL_STORE, async ({ method, make }) => {
      const answer = (await make()) as { held: number };
      return method === "totals" ? { ...answer, held: answer.held - 1 } : answer;
    });
    const list = `${home}/signals/all?status=held`;
    const behind = await visitWith({ SIGNAL_STORE }, owner, list);
    const waiting = behind.page.only("#list");
    expect(waiting.text).toContain("1 more held signal is on the way.");
    expect(waiting.attribute("data-refresh")).toMatch(/^\d+$/);
    const upToDate = await owner.read(list);
    expect([upToDate.text.includes("on the way"), upToDate.all("[data-refresh]").length]).toEqual([false, 0]);
  });

  test("the release of held signals with overages states its cost", async () => {
    const { workspace, path, owner } = await atUsage({ plan: await setPrice(await newPlan(2), 1_500, "USD") });
    await send(workspace, 4);
    await workspace.settled();
    await owner.post(`${path}/overages`, { overages: "on" });
    const form = (await owner.read(`${path}/plan`)).form(`${path}/release`);
    expect(form.buttons("Release 2 signals (about $3.00)")).toHaveLength(1);
    expect([form.field("most").value, form.field("overages").value]).toEqual(["2", "on"]);
  });

  test("a release costs what was confirmed: not more signals, and none after the overages have changed", async () => {
    const { workspace, path, owner } = await atUsage({ signalLimit: 2 });
    await send(workspace, 4);
    await workspace.settled();
    await owner.post(`${path}/overages`, { overages: "on" });
    for (const confirmed of [{ most: "2", overages: "off" }, { most: "2" }, { most: "-1", overages: "on" }, {}]) {
      const { status, page } = await owner.post(`${path}/release`, confirmed);
      expect([status, page.text.includes("Overages have changed meanwhile.")]).toEqual([422, true]);
    }
    expect((await owner.post(`${path}/release`, { most: "1", overages: "on" })).location).toContain("done=released");
    expect(await workspace.settled()).toMatchObject({ processed: 3, held: 1, balanced: true });
  });

  test("the page asks for the workspace's usage in parallel with its other reads", async () => {
    const { home, owner } = await newMembers();
    // The store answers only after the counter was called.
    const asked = Promise.withResolvers<void>();
    const bindings = {
      SIGNAL_STORE: intercept(env.SIGNAL_STORE, async ({ make }) => {
        await asked.promise;
        return make();
      }),
      QUOTA_COUNTER: intercept(env.QUOTA_COUNTER, ({ method, make }) => {
        if (method === "usage") asked.resolve();
        return make();
      }),
    };
    expect((await visitWith(bindings, owner, `${home}/people`)).status).toBe(200);
  });

  test("shows a plan as current only after the counter has it, and pushes it again first", async () => {
    expectLogged("configure_failed", "error");
    const { workspace, owner, path } = await atUsage({ signalLimit: 5 });
    const plan = await newPlan(70);
    const bindings = {
      QUOTA_COUNTER: intercept(env.QUOTA_COUNTER, ({ method, make }) =>
        method === "configure" ? Promise.reject(new Error("the counter is away")) : make(),
      ),
    };
    expect((await visitWith(bindings, owner, `${path}/plan`, { plan })).status).toBe(303);
    expect((await visitWith(bindings, owner, path)).status).toBe(503);
    expect(await workspace.counter.usage()).toMatchObject({ signalLimit: 5 });
    expect((await owner.read(path)).text).toContain("of 70");
    expect(await workspace.counter.usage()).toMatchObject({ signalLimit: 70 });
  });
});

describe("the notice of usage", () => {
  const bar = async (browser: Browser, path: string, cookie = "") =>
    (await browser.get(path, cookie)).page.all("section.notice.bar")[0] ?? null;

  test("is on every page at 80, 100 and 200% of the limit, to members too, until each person dismisses it", async () => {
    const { workspace, home, owner, member } = await atUsage({ signalLimit: 5 });
    const people = `${home}/people`;
    expect(await bar(owner, people)).toBeNull();
    await send(workspace, 4);
    expect((await bar(owner, people))?.text).toContain("You've used 80% of your signal limit.");
    expect((await bar(member, `${home}/signals`))?.text).toContain("You've used 80% of your signal limit.");
    // The usage pages show the notice in full.
    for (const tab of ["", "/plan", "/ledger"]) expect(await bar(owner, `${home}/usage${tab}`)).toBeNull();

    const state = (await bar(owner, people))?.field("state").value ?? "";
    const dismissed = await owner.post(`${home}/dismiss`, { what: "usage", state, back: people });
    expect([dismissed.status, dismissed.location]).toEqual([303, people]);
    // Another workspace may have a notice of the same name.
    expect(dismissed.headers.get("set-cookie")).toContain(`Path=${home};`);
    expect(await bar(owner, people, dismissed.cookie)).toBeNull();
    expect((await bar(member, people))?.text).toContain("80%");
    await send(workspace, 1);
    expect((await bar(owner, people, dismissed.cookie))?.text).toContain("You've reached your signal limit.");
    await send(workspace, 5);
    expect((await bar(owner, people, dismissed.cookie))?.text).toContain("signals are rejected");
  });

  test("if dismissed, keeps the list's filters, and does not repeat a form", async () => {
    const { workspace, home, owner } = await atUsage({ signalLimit: 5 });
    await send(workspace, 4);
    const back = async (path: string) => (await bar(owner, path))?.field("back").value ?? "";
    const filtered = `${home}/signals?view=all&status=held&q=a+%26+%C3%A9`;
    const answer = await owner.post(`${home}/dismiss`, { what: "usage", state: "x", back: await back(filtered) });
    expect(answer.location).toBe(filtered);
    expect(await back(`${home}/rules?done=rule_deleted&cursor=rule_1`)).toBe(`${home}/rules?cursor=rule_1`);
    expect(await back(`${home}/rules?done=rule_deleted`)).toBe(`${home}/rules`);
  });

  test("if dismissed after a rejected form, leads to a page that exists", async () => {
    const { workspace, home, owner } = await atUsage({ signalLimit: 5 });
    await send(workspace, 4);
    const rejected: [path: string, form: Record<string, string>, status: number, leadsTo: string][] = [
      ["settings/api-keys/new", { name: "" }, 422, "settings/api-keys"],
      ["settings/members", { email: "nobody" }, 422, "settings/members"],
      ["rules", { name: "" }, 422, "rules"],
      ["rules/import", { rules: "x" }, 422, "rules"],
      ["people/ann%40example.com/delete", { email: "x" }, 404, "people"],
      ["rules/none/delete", {}, 404, "signals"],
    ];
    for (const [path, form, status, leadsTo] of rejected) {
      const answer = await owner.post(`${home}/${path}`, form);
      expect([path, answer.status]).toEqual([path, status]);
      const back = answer.page.only("section.notice.bar").field("back").value ?? "";
      expect(back).toBe(`${home}/${leadsTo}`);
      expect((await owner.get(back)).status).toBe(200);
    }
  });

  test("if dismissed, redirects only within the workspace", async () => {
    const { home, owner } = await atUsage();
    for (const back of [
      "https://evil.example/",
      "//evil.example/",
      "/w/other/people",
      `${home}-other/people`,
      "/sign-out",
      `${home}/../other/people`,
      `${home}/people\r\nset-cookie: x=y`,
      `${home}/\0`,
    ]) {
      const answer = await owner.post(`${home}/dismiss`, { what: "usage", state: "x; Domain=evil", back });
      expect(answer.location).toBe(`${home}/signals`);
      expect(answer.headers.get("set-cookie")).toBeNull();
    }
  });
});

describe("the plans", () => {
  test("an unknown plan or value is a 422 that says so and changes nothing", async () => {
    const { workspace, path, owner } = await atUsage({ signalLimit: 2 });
    const before = await auditOf(workspace);
    for (const [form, body, says] of [
      ["plan", { plan: "<script>alert(1)</script>" }, "This plan does not exist."],
      ["plan", {}, "This plan does not exist."],
      ["overages", { overages: "maybe" }, "Overages are either on or off."],
    ] as const) {
      const { status, page } = await owner.post(`${path}/${form}`, body);
      expect([status, page.text, page.inlineScripts.length]).toEqual([422, expect.stringContaining(says), 0]);
    }
    expect(await auditOf(workspace)).toEqual(before);
  });

  test("a plan is offered to all workspaces or to named ones; others can neither see nor choose it", async () => {
    const [team, otherTeam] = [await atUsage({ signalLimit: 2 }), await atUsage({ signalLimit: 2 })];
    const ownPlan = `own-${crypto.randomUUID()}`;
    const plan = { name: ownPlan, signal_limit: 9, paid: true, offered_to: [team.workspace.id] };
    await operator("PUT", `/plans/${ownPlan}`, plan);
    expect(await team.owner.see(`${team.path}/plan`)).toContain(ownPlan);
    for (const browser of [otherTeam.owner, otherTeam.member])
      expect(await browser.see(`${otherTeam.path}/plan`)).not.toContain(ownPlan);

    const rejected = await otherTeam.owner.post(`${otherTeam.path}/plan`, { plan: ownPlan });
    expect(rejected.status).toBe(422);
    expect(rejected.body).toContain("This plan does not exist.");
    expect(await otherTeam.workspace.operator("GET", "/usage")).toMatchObject({ signal_limit: 2 });
    expect((await team.owner.post(`${team.path}/plan`, { plan: ownPlan })).status).toBe(303);

    // A plan is shown to its workspaces even if it is no longer offered.
    await operator("PUT", `/plans/${ownPlan}`, { ...plan, offered_to: [] });
    expect((await team.member.read(`${team.path}/plan`)).text).toContain(`${ownPlan} Current`);
    await operator("PUT", `/plans/${ownPlan}`, { ...plan, offered_to: null });
    expect((await otherTeam.owner.post(`${otherTeam.path}/plan`, { plan: ownPlan })).status).toBe(303);
  });

  test("plans are sorted by size, and their names are escaped", async () => {
    await operator("PUT", "/plans/odd", { name: "<script>alert(1)</script>", signal_limit: 5, paid: true });
    const { path, owner } = await atUsage();
    const page = await owner.read(`${path}/plan`);
    const at = ["<script>alert(1)</script>", "Free", "Starter", "Growth", "Scale"].map((name) =>
      page.text.indexOf(` ${name} `),
    );
    expect([at.includes(-1), at, page.inlineScripts.length]).toEqual([false, at.toSorted((a, b) => a - b), 0]);
  });
});
