/** The Rejections page (spec §7): refused calls by key and code, with their reason and advice for the sender. */
import { beforeEach, describe, expect, test } from "vitest";
import type { RefusedCalls } from "../../../src/domain/keys/refusal.ts";
import { PAGE_ROWS, REJECTIONS_KEPT } from "../../../src/limits.ts";
import { type Members, newMembers } from "../../support/members.ts";
import { until } from "../../support/until.ts";
import type { TestWorkspace } from "../../support/workspace.ts";

let of: Members;
let workspace: TestWorkspace;
let path: string;

beforeEach(async () => {
  of = await newMembers();
  ({ workspace } = of);
  path = `${of.home}/rejections`;
});

const textAt = async (query = "") => (await of.owner.read(path + query)).text;

function entry(keyId: string, atMs: number): RefusedCalls {
  const reason = { keyId, code: "event_missing", cause: null, detail: "No event.", requestId: `req_${keyId}` } as const;
  return { ...reason, calls: 1, signals: 1, firstAtMs: atMs, lastAtMs: atMs };
}

describe("the Rejections page", () => {
  test("counts by key and reason with advice, and lists refusals with detail, count and the first request id", async () => {
    const otherKey = await workspace.newKey({ name: "Old campaign" });
    const first = await workspace.send({ event: "" });
    await workspace.send({ email: "a@example.com" });
    await workspace.send([{ event: "ok" }, { event: "ok", email: "{{lead.Email}}" }]);
    const broken = await workspace.send("{ nonsense", { key: otherKey.key });
    const page = await of.owner.read(path);
    for (const expected of [
      /No event 422 event_missing test key 2 2/,
      /Invalid email 422 email_invalid test key 1 1/,
      /Not JSON 400 body_not_json Old campaign 1 1/,
      /Fix the template where the detail says\./,
      /No event `event` is missing or empty; .* test key 2 req_/,
      /4 refused calls with a key of this workspace in the last 30 days\./,
      /Calls with a key that does not exist belong to no workspace and are not shown\./,
    ])
      expect(page.text).toMatch(expected);
    for (const answer of [broken, first])
      expect(await of.owner.see(path)).toContain(answer.headers.get("x-request-id") ?? "none");
  });

  test("filters by key and by code", async () => {
    const otherKey = await workspace.newKey({ name: "Old campaign" });
    const requestId = async (answer: Promise<Response>) => (await answer).headers.get("x-request-id") ?? "none";
    const first = await requestId(workspace.send({ email: "a@example.com" }));
    const second = await requestId(workspace.send("{ nonsense"));
    const third = await requestId(workspace.send("{ nonsense", { key: otherKey.key }));
    const shown = async (query: string) => {
      const html = await of.owner.see(path + query);
      return [first, second, third].map((id) => html.includes(id));
    };
    expect(await shown("")).toEqual([true, true, true]);
    expect(await shown("?code=body_not_json")).toEqual([false, true, true]);
    expect(await shown(`?code=body_not_json&key=${otherKey.id}`)).toEqual([false, false, true]);
    expect(await shown(`?code=&key=`)).toEqual([true, true, true]);
    expect(await shown(`?code=nonsense`)).toEqual([true, true, true]);
    expect(await textAt(`?key=key_of_nobody`)).toContain("No such call among those that are kept");
    const nothing = await of.owner.read(`${path}?code=body_not_json&key=key_of_nobody&to=2020-01-01`);
    expect(nothing.text).toMatch(
      /kept Reason: .* Clear Key: An API key \(…body\) Clear Days: until 2020-01-01 \(UTC\) Clear/,
    );
    const clearDays = nothing.only('a[aria-label="Clear “Days”"]');
    expect(clearDays.target).toBe(`${path}?code=body_not_json&key=key_of_nobody`);
  });

  test("counts only what the filter selects: days, a key and a reason", async () => {
    const now = Date.now();
    const dayAgo = now - 86_400_000;
    await workspace.counter.countRefused([
      { ...entry("key_old", dayAgo), calls: 3, signals: 3 },
      { ...entry("key_new", now), calls: 2, signals: 2 },
      { ...entry("key_new", now), code: "body_empty", calls: 5, signals: 0 },
    ]);
    const summary = async (query: string) => {
      const table = (await of.member.read(path + query)).table("Refused calls by reason and key");
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
    expect(await textAt(`?key=key_old`)).toContain("10 refused calls with a key of this workspace");
    const { targets } = await of.member.read(`${path}?from=${today}`);
    expect(targets).toContain(`${path}?from=${today}&code=event_missing&key=key_new`);
  });

  test("counts a burst without a secret and with a wrong one exactly, each with its cause in words", async () => {
    const { key } = await workspace.newKey({ name: "CRM", secret: true });
    const send = (n: number) => workspace.send({}, { key, headers: n % 2 === 0 ? {} : { "x-api-secret": "wrong" } });
    await Promise.all(Array.from({ length: 40 }, (_, n) => send(n)));
    await until(async () => expect(await textAt()).toContain("40 refused calls with"));
    const text = await textAt();
    expect(text).toMatch(/The key wants a secret, and the call had no X-Api-Secret header\. CRM 20 20/);
    expect(text).toMatch(/The secret in the X-Api-Secret header is not the key's\. CRM 20 20/);
  });

  test("shows the number of calls and signals, and the time of the first", async () => {
    const refusal = {
      keyId: workspace.key.id,
      code: "unauthorized",
      cause: "key_deactivated",
      requestId: "req_1",
    } as const;
    const when = { firstAtMs: Date.now() - 60_000, lastAtMs: Date.now() };
    await workspace.counter.countRefused([{ ...refusal, detail: "Not valid.", calls: 1_234, signals: 1_234, ...when }]);
    const text = await textAt();
    expect(text).toContain("1,234 refused calls with");
    expect(text).toContain("The key is deactivated. test key 1,234 1,234");
    expect(text).toMatch(/since (a|1) minute/);
  });

  test("pages use a cursor: each entry once, latest first; an expired cursor starts at the first page", async () => {
    await workspace.counter.countRefused(
      Array.from({ length: PAGE_ROWS + 5 }, (_, n) => entry(`key_${n}`, Date.now() + n)),
    );
    const pageOf = async (query: string) => {
      const page = await of.owner.read(path + query);
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
    const some = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, n) => entry(`key_${from + n}`, Date.now()));
    await workspace.counter.countRefused(some(0, REJECTIONS_KEPT - 1));
    expect(await textAt()).not.toContain("earlier ones are not kept");
    await workspace.counter.countRefused(some(REJECTIONS_KEPT, REJECTIONS_KEPT + 1));
    expect(await textAt()).toContain("earlier ones are not kept");
  });

  test("shows members key ids only, and hostile names and details as text", async () => {
    const key = await workspace.newKey({ name: "<script>alert(1)</script>" });
    await workspace.counter.countRefused([{ ...entry(key.id, Date.now()), detail: "<script>alert(2)</script>" }]);
    for (const browser of [of.owner, of.member]) {
      const page = await browser.read(path);
      expect(page.text).toContain("<script>alert(2)</script>");
      expect(page.inlineScripts).toHaveLength(0);
      expect(page.text.includes("<script>alert(1)</script>")).toBe(browser === of.owner);
      expect(page.targets.includes(`${of.home}/settings/api-keys/${key.id}`)).toBe(browser === of.owner);
    }
    expect(await of.member.see(path)).toContain(key.id);
  });
});
