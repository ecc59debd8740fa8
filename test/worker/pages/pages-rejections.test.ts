/** The Rejections page (spec §7): rejected calls by key and code, with their reason and advice for the sender. */
import { beforeEach, describe, expect, test } from "vitest";
import type { RejectionEntry } from "../../../src/domain/keys/rejection.ts";
import { PAGE_ROWS, REJECTIONS_KEPT } from "../../../src/limits.ts";
import { type Members, newMembers } from "../../support/members.ts";
import { until } from "../../support/until.ts";
import { masked, type TestWorkspace } from "../../support/workspace.ts";

let members: Members;
let workspace: TestWorkspace;
let path: string;

beforeEach(async () => {
  members = await newMembers();
  ({ workspace } = members);
  path = `${members.home}/rejections`;
});

const textAt = async (query = "") => (await members.owner.read(path + query)).text;

function entry(keyId: string, atMs: number): RejectionEntry {
  const reason = { keyId, code: "event_missing", cause: null, detail: "No event.", requestId: `req_${keyId}` } as const;
  return { ...reason, calls: 1, signals: 1, firstAtMs: atMs, lastAtMs: atMs };
}

describe("the Rejections page", () => {
  test("lists each reason of a key once, with its detail; a row leads to its request id and the advice", async () => {
    const otherKey = await workspace.newKey({ name: "Old campaign" });
    const first = await workspace.send({ event: "" });
    await workspace.send({ email: "a@example.com" });
    await workspace.send([{ event: "ok" }, { event: "ok", email: "{{lead.Email}}" }]);
    const broken = await workspace.send("{ nonsense", { key: otherKey.key });
    const page = await members.owner.read(path);
    for (const expected of [
      /No event 422 event_missing event is missing or empty; .* test key sk_\S+ 2 just now/,
      /Invalid email 422 email_invalid .* test key sk_\S+ 1 /,
      /Not JSON 400 body_not_json .* Old campaign sk_\S+ 1 /,
      /4 rejected calls in the last 30 days\./,
      /All 4 No event 2 /,
      /Calls with an unknown key belong to no workspace and are not listed\./,
    ])
      expect(page.text).toMatch(expected);
    for (const [reason, answer, advice, intro] of [
      [
        "Not JSON",
        broken,
        "Fix the template at the position in the detail.",
        "1 call rejected with 400 body_not_json.",
      ],
      ["No event", first, "Fill in", "2 calls rejected with 422 event_missing."],
    ] as const) {
      const call = await members.owner.read(page.table("Rejected calls").link(new RegExp(`^${reason}`)).target ?? "");
      expect(call.text).toContain(intro);
      expect(call.text).toContain(`How to fix ${advice}`);
      expect(call.text).toContain(answer.headers.get("x-request-id") ?? "none");
    }
    expect((await members.owner.get(`${path}/req_none`)).status).toBe(404);
  });

  test("gives no advice that only repeats what the answer said", async () => {
    await workspace.send({ event: "ok", properties: 1 });
    const page = await members.owner.read(path);
    const call = await members.owner.read(page.table("Rejected calls").link(/^Invalid properties/).target ?? "");
    expect(call.text).toContain("The answer said properties is a number; send an object such as");
    expect(call.text).not.toContain("How to fix");
    expect(call.text).not.toContain("as a JSON object");
  });

  test.each([
    ["key_deactivated", "Switch the sender to an active key.", false],
    ["key_expired", "Switch the sender to an active key.", false],
    ["secret_missing", "Add the header X-Api-Secret", true],
    ["secret_wrong", "Correct the secret in the header X-Api-Secret.", true],
  ] as const)("of the cause %s says: %s", async (cause, advice, canRotate) => {
    const rejection = { ...entry(workspace.key.id, Date.now()), code: "unauthorized", cause } as const;
    await workspace.counter.countRejected([rejection]);
    const page = await members.owner.read(path);
    const [row] = page.table("Rejected calls").links();
    const call = await members.owner.read(row?.target ?? "");
    expect(call.text).toContain(`How to fix ${advice}`);
    expect(call.links("Rotate key").length > 0).toBe(canRotate);
  });

  test("filters by key and by code", async () => {
    const otherKey = await workspace.newKey({ name: "Old campaign" });
    const requestId = async (answer: Promise<Response>) => (await answer).headers.get("x-request-id") ?? "none";
    const first = await requestId(workspace.send({ email: "a@example.com" }));
    const second = await requestId(workspace.send("{ nonsense"));
    const third = await requestId(workspace.send("{ nonsense", { key: otherKey.key }));
    const shown = async (query: string) => {
      const targets = (await members.owner.read(path + query)).targets.join(" ");
      return [first, second, third].map((id) => targets.includes(id));
    };
    expect(await shown("")).toEqual([true, true, true]);
    expect(await shown("?code=body_not_json")).toEqual([false, true, true]);
    expect(await shown(`?code=body_not_json&key=${otherKey.id}`)).toEqual([false, false, true]);
    expect(await shown(`?code=&key=`)).toEqual([true, true, true]);
    expect(await textAt(`?key=key_of_nobody`)).toContain("No rejected calls match these filters");
    const { chips } = await members.owner.read(`${path}?code=body_not_json&key=${otherKey.id}&to=2020-01-01`);
    expect(Object.keys(chips)).toEqual([
      "Reason: Not JSON",
      `API key: Old campaign (${masked(otherKey.key)})`,
      "Rejected: until 2020-01-01 (UTC)",
    ]);
    expect(chips["Rejected: until 2020-01-01 (UTC)"]).toBe(`${path}?code=body_not_json&key=${otherKey.id}`);
  });

  test("names an unknown reason and a reversed range of days as errors, and does not apply them", async () => {
    await workspace.send("{ nonsense");
    const page = await members.owner.read(`${path}?code=nonsense&from=2031-01-02&to=2031-01-01`);
    expect(page.alerts).toEqual([
      expect.stringContaining("“nonsense” is not one of"),
      expect.stringContaining("“From” (2031-01-02) is after “To” (2031-01-01)"),
    ]);
    expect(page.rows).toHaveLength(1);
  });

  test("distinguishes keys with the same name by their masked keys", async () => {
    const keys = [await workspace.newKey({ name: "CRM" }), await workspace.newKey({ name: "CRM" })];
    for (const { key } of keys) await workspace.send("{ nonsense", { key });
    const page = await members.owner.read(path);
    const options = page.field("key").all("option");
    for (const { key } of keys) {
      expect(page.links(`CRM ${masked(key)}`)).toHaveLength(1);
      expect(options.map(({ text }) => text)).toContain(`CRM (${masked(key)})`);
    }
  });

  test("counts only what the filter selects: days, a key and a reason", async () => {
    const now = Date.now();
    const dayAgo = now - 86_400_000;
    await workspace.counter.countRejected([
      { ...entry("key_old", dayAgo), calls: 3, signals: 3 },
      { ...entry("key_new", now), calls: 2, signals: 2 },
      { ...entry("key_new", now), code: "body_empty", calls: 5, signals: 0, firstAtMs: dayAgo },
    ]);
    const summary = async (query: string) => {
      const table = (await members.member.read(path + query)).table("Rejected calls");
      return table.rows.map(({ cells }) => cells.filter((cell) => /^\d+$/.test(cell))).toSorted();
    };
    expect(await summary("")).toEqual([["2"], ["3"], ["5", "0"]]);
    const [today, yesterday] = [now, dayAgo].map((ms) => new Date(ms).toISOString().slice(0, 10));
    expect(await summary(`?from=${today}`)).toEqual([["2"], ["5", "0"]]);
    expect(await summary(`?to=${yesterday}`)).toEqual([["3"], ["5", "0"]]);
    expect(await summary(`?from=${today}&code=event_missing`)).toEqual([["2"]]);
    expect(await summary("?key=key_old")).toEqual([["3"]]);
    expect((await members.member.read(`${path}?from=${today}&code=event_missing`)).text).toContain("All 7 ");
    expect(await textAt(`?key=key_old`)).toContain("10 rejected calls in the last");
    const { targets } = await members.member.read(`${path}?from=${today}`);
    expect(targets).toContain(`${path}?from=${today}&code=event_missing`);
  });

  test("counts a burst without a secret and with a wrong one exactly, each with its cause in words", async () => {
    const { key } = await workspace.newKey({ name: "CRM", secret: true });
    const send = (n: number) => workspace.send({}, { key, headers: n % 2 === 0 ? {} : { "x-api-secret": "wrong" } });
    await Promise.all(Array.from({ length: 40 }, (_, n) => send(n)));
    await until(async () => expect(await textAt()).toContain("40 rejected calls in"));
    const text = await textAt();
    expect(text).toMatch(
      /The key requires a secret, but the call had no X-Api-Secret header 401 unauthorized Add the header .* CRM sk_\S+ 20 /,
    );
    expect(text).toMatch(
      /The secret in the X-Api-Secret header is wrong 401 unauthorized Correct the secret .* CRM sk_\S+ 20 /,
    );
  });

  test("shows the number of calls and signals, and the time of the first", async () => {
    const nowMs = Date.now();
    const rejection = { ...entry(workspace.key.id, nowMs), firstAtMs: nowMs - 60_000 };
    const reason = { code: "unauthorized", cause: "key_deactivated" } as const;
    await workspace.counter.countRejected([{ ...rejection, ...reason, calls: 1_234, signals: 1_234 }]);
    const text = await textAt();
    expect(text).toContain("1,234 rejected calls in");
    expect(text).toMatch(/The key is deactivated 401 unauthorized Switch the sender .* test key sk_\S+ 1,234 /);
    const call = await members.owner.read(
      (await members.owner.read(path)).table("Rejected calls").links()[0]?.target ?? "",
    );
    for (const expected of [/First \w+ \d/, /Latest \w+ \d/, /Calls 1,234 Rejected signals 1,234/])
      expect(call.text).toMatch(expected);
  });

  test("pages use a cursor: each entry once, latest first; an expired cursor starts at the first page", async () => {
    await workspace.counter.countRejected(
      Array.from({ length: PAGE_ROWS + 5 }, (_, n) => entry(`key_${n}`, Date.now() + n)),
    );
    const pageOf = async (query: string) => {
      const page = await members.owner.read(path + query);
      const ids = page.targets.flatMap((target) => /rejections\/(req_key_\d+)\./.exec(target)?.[1] ?? []);
      return { ids, next: page.next?.split("?")[1] };
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
    await workspace.counter.countRejected(some(0, REJECTIONS_KEPT - 1));
    expect(await textAt()).not.toContain("Older ones are not kept");
    await workspace.counter.countRejected(some(REJECTIONS_KEPT, REJECTIONS_KEPT + 1));
    expect(await textAt()).toContain("Older ones are not kept");
  });

  test("shows members key ids only, and hostile names and details as text", async () => {
    const key = await workspace.newKey({ name: "<script>alert(1)</script>" });
    await workspace.counter.countRejected([{ ...entry(key.id, Date.now()), detail: "<script>alert(2)</script>" }]);
    for (const browser of [members.owner, members.member]) {
      const page = await browser.read(path);
      expect(page.text).toContain("<script>alert(2)</script>");
      expect(page.inlineScripts).toHaveLength(0);
      expect(page.text.includes("<script>alert(1)</script>")).toBe(browser === members.owner);
      expect(page.targets.includes(`${members.home}/settings/api-keys/${key.id}`)).toBe(browser === members.owner);
    }
    expect(await members.member.see(path)).toContain(key.id);
  });
});
