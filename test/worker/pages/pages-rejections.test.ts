/** The Rejections page (spec §7): refused calls by key and code, with their reason and advice for the sender. */
import { describe, expect, test } from "vitest";
import type { RefusedCalls } from "../../../src/domain/keys/refusal.ts";
import { PAGE_ROWS, REJECTIONS_KEPT } from "../../../src/limits.ts";
import { newMembers } from "../../support/members.ts";
import { readHtml, textOf } from "../../support/html.ts";
import { until } from "../../support/until.ts";
import type { NewWorkspace } from "../../support/workspace.ts";

/** The people of a new workspace, and the path of its Rejections page. */
async function atRejections(options: NewWorkspace = {}) {
  const members = await newMembers(options);
  return { ...members, path: `${members.home}/rejections` };
}

function entry(keyId: string, atMs: number): RefusedCalls {
  const reason = { keyId, code: "event_missing", cause: null, detail: "No event.", requestId: `req_${keyId}` } as const;
  return { ...reason, calls: 1, signals: 1, firstAtMs: atMs, lastAtMs: atMs };
}

describe("the Rejections page", () => {
  test("says so if no call was refused", async () => {
    const { path, member } = await atRejections();
    expect(textOf(await member.see(path))).toContain("Nothing was refused");
  });

  test("counts by key and reason with advice, and lists refusals with detail, count and the first request id", async () => {
    const { workspace, path, owner } = await atRejections();
    const otherKey = await workspace.newKey({ name: "Old campaign" });
    const first = await workspace.send({ event: "" });
    await workspace.send({ email: "a@example.com" });
    await workspace.send([{ event: "ok" }, { event: "ok", email: "{{lead.Email}}" }]);
    const broken = await workspace.send("{ nonsense", { key: otherKey.key });
    const html = await owner.see(path);
    const text = textOf(html);
    expect(text).toMatch(
      /No event 422 event_missing test key 2 2 just now Fill in "event"|No event 422 event_missing test key 2 2/,
    );
    expect(text).toMatch(/Invalid email 422 email_invalid test key 1 1/);
    expect(text).toMatch(/Not JSON 400 body_not_json Old campaign 1 1/);
    expect(text).toContain("Mend the template where the detail says.");
    for (const answer of [broken, first]) expect(html).toContain(answer.headers.get("x-request-id") ?? "none");
    expect(text).toMatch(/No event `event` is missing or empty; .* test key 2 req_/);
    expect(text).toContain("4 refused calls with a key of this workspace in the last 30 days.");
    expect(text).toContain("Calls with a key that does not exist belong to no workspace and are not shown.");
  });

  test("filters by key and by code", async () => {
    const firstDay = new Date().toISOString().slice(0, 10);
    const { workspace, path, owner } = await atRejections();
    const otherKey = await workspace.newKey({ name: "Old campaign" });
    const requestId = async (answer: Promise<Response>) => (await answer).headers.get("x-request-id") ?? "none";
    const first = await requestId(workspace.send({ email: "a@example.com" }));
    const second = await requestId(workspace.send("{ nonsense"));
    const third = await requestId(workspace.send("{ nonsense", { key: otherKey.key }));
    const shown = async (query: string) => {
      const html = await owner.see(path + query);
      return [first, second, third].map((id) => html.includes(id));
    };
    expect(await shown("")).toEqual([true, true, true]);
    expect(await shown("?code=body_not_json")).toEqual([false, true, true]);
    expect(await shown(`?code=body_not_json&key=${otherKey.id}`)).toEqual([false, false, true]);
    expect(await shown(`?code=&key=`)).toEqual([true, true, true]);
    expect(await shown(`?code=nonsense`)).toEqual([true, true, true]);
    expect(textOf(await owner.see(`${path}?key=key_of_nobody`))).toContain("No such call among those that are kept");
    const nothing = await owner.see(`${path}?code=body_not_json&key=key_of_nobody&to=2020-01-01`);
    expect(textOf(nothing)).toMatch(
      /kept Reason: .* Clear Key: An API key \(…body\) Clear Days: until 2020-01-01 \(UTC\) Clear/,
    );
    const clearDays = readHtml(nothing).only('a[aria-label="Clear “Days”"]');
    expect(clearDays.target).toBe(`${path}?code=body_not_json&key=key_of_nobody`);
    // Midnight may have passed since the first call.
    const lastDay = new Date().toISOString().slice(0, 10);
    expect(await shown(`?from=${firstDay}&to=${lastDay}`)).toEqual([true, true, true]);
    expect(await shown("?to=2020-01-01")).toEqual([false, false, false]);
    expect(await shown("?from=2199-01-01")).toEqual([false, false, false]);
  });

  test("counts only what the filter selects: days, a key and a reason", async () => {
    const { workspace, path, member } = await atRejections();
    const now = Date.now();
    const dayAgo = now - 86_400_000;
    await workspace.counter.countRefused([
      { ...entry("key_old", dayAgo), calls: 3, signals: 3 },
      { ...entry("key_new", now), calls: 2, signals: 2 },
      { ...entry("key_new", now), code: "body_empty", calls: 5, signals: 0 },
    ]);
    const summary = async (query: string) => {
      const table = (await member.read(path + query)).table("Refused calls by reason and key");
      return table.rows.map(({ cells }) => cells.slice(2, 4));
    };
    expect(await summary("")).toEqual([
      ["5", "0"],
      ["3", "3"],
      ["2", "2"],
    ]);
    const [today, yesterday] = [now, dayAgo].map((ms) => new Date(ms).toISOString().slice(0, 10));
    expect(await summary(`?from=${today}`)).toEqual([
      ["5", "0"],
      ["2", "2"],
    ]);
    expect(await summary(`?to=${yesterday}`)).toEqual([["3", "3"]]);
    expect(await summary(`?from=${today}&code=event_missing`)).toEqual([["2", "2"]]);
    expect(await summary("?key=key_old")).toEqual([["3", "3"]]);
    expect(textOf(await member.see(`${path}?key=key_old`))).toContain("10 refused calls with a key of this workspace");
    const { targets } = await member.read(`${path}?from=${today}`);
    expect(targets).toContain(`${path}?from=${today}&code=event_missing&key=key_new`);
  });

  test("counts a burst without a secret and with a wrong one exactly, each with its cause in words", async () => {
    const { workspace, path, owner } = await atRejections();
    const { key } = await workspace.newKey({ name: "CRM", secret: true });
    const send = (n: number) => workspace.send({}, { key, headers: n % 2 === 0 ? {} : { "x-api-secret": "wrong" } });
    await Promise.all(Array.from({ length: 40 }, (_, n) => send(n)));
    await until(async () => expect(textOf(await owner.see(path))).toContain("40 refused calls with"));
    const text = textOf(await owner.see(path));
    expect(text).toMatch(/The key wants a secret, and the call had no X-Api-Secret header\. CRM 20 20/);
    expect(text).toMatch(/The secret in the X-Api-Secret header is not the key's\. CRM 20 20/);
  });

  test("shows the number of calls and signals, and the time of the first", async () => {
    const { workspace, path, owner } = await atRejections();
    const refusal = {
      keyId: workspace.key.id,
      code: "unauthorized",
      cause: "key_deactivated",
      requestId: "req_1",
    } as const;
    const when = { firstAtMs: Date.now() - 60_000, lastAtMs: Date.now() };
    await workspace.counter.countRefused([{ ...refusal, detail: "Not valid.", calls: 1_234, signals: 1_234, ...when }]);
    const text = textOf(await owner.see(path));
    expect(text).toContain("1,234 refused calls with");
    expect(text).toContain("The key is deactivated. test key 1,234 1,234");
    expect(text).toMatch(/since (a|1) minute/);
  });

  test("pages use a cursor: each entry once, latest first; an expired cursor starts at the first page", async () => {
    const { workspace, path, owner } = await atRejections();
    await workspace.counter.countRefused(
      Array.from({ length: PAGE_ROWS + 5 }, (_, n) => entry(`key_${n}`, Date.now() + n)),
    );
    const pageOf = async (query: string) => {
      const page = await owner.read(path + query);
      const ids = page.all("code.short-id").map(({ text }) => text);
      return { ids: ids.filter((id) => id.startsWith("req_")), next: page.next?.split("?")[1] };
    };
    const ids = Array.from({ length: PAGE_ROWS + 5 }, (_, n) => `req_key_${n}`).toReversed();
    const first = await pageOf("?code=event_missing");
    expect(first.ids).toEqual(ids.slice(0, PAGE_ROWS));
    expect(first.next).toContain("code=event_missing");
    const second = await pageOf(`?${first.next}`);
    expect(second).toEqual({ ids: ids.slice(PAGE_ROWS), next: undefined });
    expect((await pageOf("?cursor=gone")).ids).toEqual(first.ids);
  });

  test("says so if the maximum number of entries is stored", async () => {
    const { workspace, path, owner } = await atRejections();
    const some = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, n) => entry(`key_${from + n}`, Date.now()));
    await workspace.counter.countRefused(some(0, REJECTIONS_KEPT - 1));
    expect(textOf(await owner.see(path))).not.toContain("earlier ones are not kept");
    await workspace.counter.countRefused(some(REJECTIONS_KEPT, REJECTIONS_KEPT + 1));
    expect(textOf(await owner.see(path))).toContain("earlier ones are not kept");
  });

  test("members see rejections with key ids only; hostile names and details are escaped", async () => {
    const { workspace, path, owner, member } = await atRejections();
    const key = await workspace.newKey({ name: "<script>alert(1)</script>" });
    await workspace.counter.countRefused([{ ...entry(key.id, Date.now()), detail: "<script>alert(2)</script>" }]);
    for (const browser of [owner, member]) {
      const html = await browser.see(path);
      const shown = readHtml(html);
      expect(shown.text).toContain("<script>alert(2)</script>");
      expect(shown.text.includes("<script>alert(1)</script>")).toBe(browser === owner);
      expect(html).toContain(key.id);
      expect(shown.inlineScripts).toHaveLength(0);
      expect(html.includes(`settings/api-keys/${key.id}`)).toBe(browser === owner);
    }
    expect((await owner.get(path)).headers.get("cache-control")).toBe("no-store");
  });

  test("shows nothing of another workspace, and nothing to a stranger", async () => {
    const { workspace } = await atRejections();
    await workspace.send({ event: "" });
    const { path, owner, stranger } = await atRejections();
    expect(textOf(await owner.see(`${path}?key=${workspace.key.id}`))).toContain("Nothing was refused");
    expect((await stranger.get(path)).status).toBe(404);
  });
});
