/** The overview: first steps, what needs attention, and the figures of the last days. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { DAY, deliver } from "../../support/deliver.ts";
import type { Part } from "../../support/html.ts";
import { intercept } from "../../support/intercept.ts";
import { type Browser, newMembers, visitWith } from "../../support/members.ts";

afterEach(() => void vi.useRealTimers());

/** Subjects and details of the table "Needs attention", in order. */
const attention = (page: Part): string[] =>
  page.all("#attention tbody tr").map((row) => row.cells.slice(0, 2).join(": "));

/** How the problems of the table look: `bad` loses signals or calls now, `warn` will. */
const tones = (page: Part): string[] =>
  page.all("#attention .badge").map((badge) => badge.attribute("class")?.replace("badge ", "") ?? "");

/** The first steps: `done`, the page of the step's button, or its text. */
async function stepsOf(browser: Browser, home: string): Promise<string[]> {
  const page = await browser.read(`${home}/`);
  return page.all("ol.steps li").map((step) => {
    if (step.text.includes("(done)")) return "done";
    const [target] = step.targets;
    if (target !== undefined) return target.slice(home.length + 1);
    return step.text.includes("Ask an owner or admin") ? "ask" : "later";
  });
}

const RULE = { name: "r", event: "e", scoring_signal: "s", points: 1 };

describe("the first steps", () => {
  test("lead to the next step until all are done", async () => {
    const { workspace, home, owner, member } = await newMembers({ key: null });
    expect(await stepsOf(owner, home)).toEqual(["settings/api-keys/new", "later", "later", "later"]);
    expect(await stepsOf(member, home)).toEqual(["ask", "later", "later", "later"]);
    await workspace.newKey();
    expect(await stepsOf(member, home)).toEqual(["done", "connect", "later", "later"]);
    await deliver(workspace.id, [{ id: "sig_1", ordinal: 1, payload: { event: "Nobody's" } }]);
    expect(await stepsOf(owner, home)).toEqual(["done", "done", "rules/new", "later"]);
    await workspace.operator("POST", "/rules", RULE);
    expect(await stepsOf(member, home)).toEqual(["done", "done", "done", "people"]);
    await deliver(workspace.id, [{ id: "sig_2", ordinal: 2, payload: { event: "e", email: "jane@example.com" } }]);
    expect(await stepsOf(owner, home)).toEqual([]);
  });

  test("are dismissed by each person for themselves", async () => {
    const { home, owner, member } = await newMembers({ key: null });
    const form = (await owner.read(`${home}/`)).form(`${home}/dismiss`);
    const fields = Object.fromEntries(["what", "state", "back"].map((name) => [name, form.field(name).value ?? ""]));
    const dismissed = await owner.post(`${home}/dismiss`, fields);
    expect([dismissed.status, dismissed.location]).toEqual([303, `${home}/`]);
    expect((await owner.get(`${home}/`, dismissed.cookie)).text).not.toContain("First steps");
    expect((await member.read(`${home}/`)).text).toContain("First steps");
  });
});

describe("the list of problems", () => {
  test("lists a used-up limit, dead letters and held signals, and leads to the pages that fix them", async () => {
    const { workspace, home, owner, member } = await newMembers({ signalLimit: 1 });
    await workspace.send([{ event: "a" }, { event: "b" }]);
    await workspace.settled();
    const periodEnd = Date.now() + DAY;
    await deliver(workspace.id, [{ id: "sig_dead", ordinal: 9, payload: "no json", periodStart: 1, periodEnd }]);
    const page = await member.read(`${home}/`);
    expect(attention(page)).toEqual([
      expect.stringContaining("You've reached twice your signal limit: signals are rejected: Senders get a 429 until "),
      expect.stringContaining("1 dead letter: "),
      expect.stringMatching(/^1 signal held: .* Upgrade or enable overages to release them\.$/),
    ]);
    expect(tones(page)).toEqual(["bad", "bad", "warn"]);
    const [plans, deadLetters] = [`${home}/usage/plan`, `${home}/signals/dead-letters`];
    expect(page.only("#attention").targets).toEqual([plans, deadLetters, plans]);
    await owner.post(`${home}/usage/overages`, { overages: "on" });
    expect(attention(await member.read(`${home}/`))).toEqual([
      expect.stringContaining("1 dead letter: "),
      expect.stringMatching(/^1 signal held: .* deleted on [^.]*\.$/),
    ]);
  });

  test("lists held signals, and not their reason, the signal limit, as a second problem", async () => {
    const { workspace, home, member } = await newMembers({ signalLimit: 2 });
    await workspace.send([{ event: "a" }, { event: "b" }, { event: "c" }]);
    await workspace.settled();
    expect(attention(await member.read(`${home}/`))).toEqual([expect.stringContaining("1 signal held: ")]);
  });

  test("lists 20 rejected calls of a key in 24 hours, at most three keys, and names a key for managers only", async () => {
    const { workspace, home, admin, member } = await newMembers({ key: { name: "CRM <b>key</b>" } });
    for (let calls = 0; calls < 19; calls++) await workspace.send({ email: "jane@example.com" });
    // Rejected for another reason.
    for (let calls = 0; calls < 5; calls++) await workspace.send("{ nonsense");
    const latest = expect.stringMatching(/^Latest call rejected: Not JSON, key CRM/);
    expect(attention(await admin.read(`${home}/`))).toEqual([latest]);
    await workspace.send({ email: "jane@example.com" });
    const page = await admin.read(`${home}/`);
    expect(attention(page)).toEqual([
      expect.stringMatching(/^20 calls rejected in 24 hours: .*, key CRM <b>key<\/b> \(sk_\S+\)$/),
    ]);
    const query = new URLSearchParams({ code: "event_missing", key: workspace.key.id }).toString();
    expect(page.only("#attention").targets).toEqual([`${home}/rejections?${query}`]);
    const seen = await member.read(`${home}/`);
    expect(attention(seen)).toHaveLength(1);
    expect(seen.text).not.toContain("CRM");
    expect(seen.only("#attention").targets).toEqual([`${home}/rejections?code=event_missing`]);
    const later = new Date(Date.now() + 2 * DAY).toISOString();
    await env.DB.prepare("UPDATE sessions SET expires_at = ?").bind(later).run();
    const counts = [24, 23, 22];
    for (const count of counts) {
      const key = await workspace.newKey();
      for (let calls = 0; calls < count; calls++) await workspace.send({ email: "jane@example.com" }, { key: key.key });
    }
    const most = counts.map((count) => expect.stringContaining(`${count} calls rejected in 24 hours`));
    const noEvent = expect.stringMatching(/^Latest call rejected: No event, key CRM/);
    expect(attention(await admin.read(`${home}/`))).toEqual([...most, noEvent]);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + DAY });
    expect(attention(await admin.read(`${home}/`))).toEqual([]);
    vi.useRealTimers();
  });

  test("says of how many more keys the latest call was rejected, and leads to the rejections", async () => {
    const { workspace, home, admin } = await newMembers();
    const reject = async (count: number) => {
      for (let n = 0; n < count; n++) {
        const { key } = await workspace.newKey({ name: "Sender" });
        await workspace.send("{ nonsense", { key });
      }
    };
    const latest = expect.stringMatching(/^Latest call rejected: Not JSON, key Sender/);
    await reject(3);
    expect(attention(await admin.read(`${home}/`))).toEqual([latest, latest, latest]);
    await reject(2);
    const page = await admin.read(`${home}/`);
    expect(attention(page)).toEqual([latest, latest, latest, "Latest call rejected: 2 more keys"]);
    expect(page.only("#attention").targets.at(-1)).toBe(`${home}/rejections`);
  });

  test("does not ask to rotate a key again that is still in use after its rotation", async () => {
    const { workspace, home, admin } = await newMembers({ key: { name: "CRM" } });
    const old = workspace.key;
    const created = new Date(Date.now() - 60 * DAY).toISOString();
    await env.DB.prepare("UPDATE api_keys SET created_at = ? WHERE id = ?").bind(created, old.id).run();
    await workspace.operator("POST", `/keys/${old.id}/rotate`, { overlap: "1h" });
    expect(attention(await admin.read(`${home}/`))).toEqual([]);
    await workspace.send({ event: "e" }, { key: old.key });
    await workspace.settled();
    const page = await admin.read(`${home}/`);
    expect(attention(page)).toEqual([
      expect.stringMatching(/^Rotated key still in use: CRM, ends in (59 minutes|1 hour)$/),
    ]);
    expect(page.only("#attention").text).toContain("View key");
  });

  test("lists failing destinations and keys that expire or are silent, to managers only", async () => {
    const { workspace, home, owner, member } = await newMembers({ key: null });
    const created = await workspace.newKey({ name: "Silent" });
    await env.DB.prepare("UPDATE api_keys SET silent_after_days = 2, created_at = ? WHERE id = ?")
      .bind(new Date(Date.now() - 3 * DAY).toISOString(), created.id)
      .run();
    const expiring = await workspace.newKey({ name: "Ending" });
    await env.DB.prepare("UPDATE api_keys SET created_at = ?, expires_at = ? WHERE id = ?")
      .bind(new Date(Date.now() - 60 * DAY).toISOString(), new Date(Date.now() + 3 * DAY).toISOString(), expiring.id)
      .run();
    const body = { name: "CRM", type: "webhook", target: "https://hook.example.com/", notifications: ["usage.level"] };
    const { id } = await workspace.operator<{ id: string }>("POST", "/destinations", body);
    await runInDurableObject(workspace.destinations, (_, { storage: { sql } }) => {
      const off = "state = 'disabled', disabled_reason = 'gone', failing_since_ms = ?1, failing_last_ms = ?1";
      sql.exec(`UPDATE destinations SET ${off}`, Date.now() - 2 * DAY);
    });
    await deliver(workspace.id, [{ id: "sig_1", payload: { event: "e" } }]);
    const page = await owner.read(`${home}/`);
    expect(attention(page)).toEqual([
      "Destination switched off: CRM, since 2 days ago",
      "No calls: Silent, last call 3 days ago",
      expect.stringMatching(/^Key expires soon: Ending, ends in (2|3) days$/),
    ]);
    expect(tones(page)).toEqual(["bad", "warn", "warn"]);
    expect(page.only("#attention").targets[0]).toBe(`${home}/settings/notifications/${id}`);
    expect(attention(await member.read(`${home}/`))).toEqual([]);
  });
});

test("the overview shows the signals of the last days, the plan's usage and the highest scores", async () => {
  const { workspace, home, member } = await newMembers({ signalLimit: 3 });
  await workspace.operator("POST", "/rules", { ...RULE, points: 7 });
  await workspace.send(Array.from({ length: 8 }, (_, n) => ({ event: "e", email: `p${n}@example.com` })));
  await workspace.settled();
  const page = await member.read(`${home}/`);
  expect(["Accepted", "Held", "Rejected over the limit"].map((name) => page.detail(name))).toEqual(["3", "3", "2"]);
  expect(page.text).toContain("6 of 3 signals used. The period ends on");
  expect(page.table("People").rowHeads).toEqual(["p2@example.com", "p1@example.com", "p0@example.com"]);
});

test("the overview reads each object once", async () => {
  const { workspace, home, owner } = await newMembers();
  await workspace.send({ event: "e", email: "jane@example.com" });
  await workspace.settled();
  const calls: string[] = [];
  const counted = <T extends object>(name: string, binding: T): T =>
    intercept(binding, ({ method, make }) => {
      calls.push(`${name} ${method}`);
      return make();
    });
  const bindings = {
    SIGNAL_STORE: counted("store", env.SIGNAL_STORE),
    QUOTA_COUNTER: counted("counter", env.QUOTA_COUNTER),
    DESTINATIONS: counted("destinations", env.DESTINATIONS),
  };
  expect((await visitWith(bindings, owner, `${home}/`)).status).toBe(200);
  expect(calls.toSorted()).toEqual(["counter overview", "destinations failing", "store overview"]);
});
