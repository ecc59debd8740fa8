/** Exports of signals, people and scoring signals: NDJSON and CSV, streamed from the store a part at a time. */
import { createExecutionContext, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { PERSON_MAX_IDS } from "../../../../src/limits.ts";
import { COLD_AFTER_MS } from "../../../../src/store/log/cold.ts";
import { EXPORT_PART_BUDGET, EXPORT_PART_MAX_CHARACTERS } from "../../../../src/store/queries/exports.ts";
import type { ExportPart, ExportRange } from "../../../../src/store/protocol/store-operations.ts";
import { keyOf, personList } from "../../../../src/store/people/timelines.ts";
import { DOWNLOADS } from "../../../../src/http/workspace-share.ts";
import { exportFile } from "../../../../src/use-cases/export-file.ts";
import { signalStore } from "../../../../src/use-cases/objects.ts";
import worker from "../../../../src/index.ts";
import { d1Failing } from "../../../support/faults.ts";
import { expectLogged } from "../../../support/logged.ts";
import { Browser } from "../../../support/members.ts";
import { readStore } from "../../../support/read-store.ts";
import { ring } from "../../../support/cold.ts";
import { DAY, deliver } from "../../../support/deliver.ts";
import { call, newWorkspace, type TestWorkspace } from "../../../support/workspace.ts";
import { testStored, dropLines } from "../../../support/log.ts";

let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace();
});

const AT = Date.parse("2026-11-01T10:00:00.000Z");
const AUTHORISED = { authorization: `Bearer ${env.OPERATOR_TOKEN}` };

function ask(path: string): Promise<Response> {
  return call(`/operator/workspaces/${workspace.id}/export/${path}`, { headers: AUTHORISED });
}

async function lines(path: string): Promise<Record<string, unknown>[]> {
  const text = await (await ask(path)).text();
  expect(text === "" || text.endsWith("\n")).toBe(true);
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

function send(count: number, payload: (index: number) => unknown = (index) => ({ event: "E", properties: { index } })) {
  const signals = Array.from({ length: count }, (_, index) => ({
    id: `sig_${index}`,
    payload: payload(index),
    at: AT,
  }));
  return deliver(workspace.id, signals);
}

/** The export as the pages and the operator API start it, with each part of the store passing through `page`. */
async function start(page: (range: ExportRange, read: () => Promise<ExportPart>) => Promise<ExportPart>) {
  const store = signalStore(env, workspace.id);
  const exportPart = (range: ExportRange) => page(range, () => store.exportPart(range));
  const bindings = { ...env, SIGNAL_STORE: { getByName: () => ({ exportPart }) } } as unknown as Env;
  const by = { actor: "jane@example.com", nowMs: AT };
  const wanted = { records: "signals", format: "ndjson" } as const;
  const file = await exportFile(workspace.context({ env: bindings, by }), "slug", wanted);
  if (file === null) throw new Error("too many downloads");
  return file;
}

/** Moves all payloads to R2. */
async function inColdStorage(): Promise<void> {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + COLD_AFTER_MS + 1 });
  await ring(workspace.id);
  vi.useRealTimers();
  await readStore(workspace.id, ({ signals }) => {
    expect([...signals.walk({ after: 0 })].map(({ payloads }) => payloads)).toEqual(["in_r2"]);
  });
}

/** Exports signals, with an event before each page but the first. */
async function exportedWhile(happens: () => Promise<unknown>): Promise<string[]> {
  let pages = 0;
  const { body } = await start(async (_, read) => {
    if (pages++ > 0) await happens();
    return read();
  });
  const text = await new Response(body).text();
  expect(pages).toBeGreaterThan(1);
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => (JSON.parse(line) as { id: string }).id);
}

describe("an export of signals", () => {
  test.each([0, 1, EXPORT_PART_BUDGET, 3 * EXPORT_PART_BUDGET])(
    "contains each of %i signals once, in order of arrival",
    async (count) => {
      if (count > 0) await send(count);
      const exported = await lines("signals");
      expect(exported.map(({ id }) => id)).toEqual(Array.from({ length: count }, (_, index) => `sig_${index}`));
    },
  );

  test("has the facts of each signal", async () => {
    await workspace.operator("POST", "/rules", {
      name: "R",
      event: "*",
      match: "all",
      conditions: [],
      scoring_signal: "s",
      points: -5,
    });
    const payload = {
      type: "track",
      messageId: "m",
      anonymousId: "visitor-1",
      userId: "user-1",
      event: "E",
      properties: { email: "Jane@Example.com" },
    };
    const identify = {
      type: "identify",
      messageId: "i",
      anonymousId: "visitor-1",
      traits: { email: "jane@example.com" },
    };
    await deliver(workspace.id, [{ id: "sig_a", payload, at: AT }]);
    await deliver(workspace.id, [
      { id: "sig_b", payload: identify, at: AT + 1, ordinal: 2 },
      { id: "sig_c", payload, at: AT + 2, ordinal: 3 },
    ]);
    const [first, second, third] = await lines("signals");
    expect(first).toEqual({
      id: "sig_a",
      status: "processed",
      kind: "signal",
      event: "E",
      source: "segment",
      email: "jane@example.com",
      user_id: "user-1",
      anonymous_id: "visitor-1",
      endpoint: "signal_staging",
      key_id: "key_test",
      verdict: "accepted",
      ordinal: 1,
      received_at: "2026-11-01T10:00:00.000Z",
      recorded_at: expect.stringMatching(/Z$/),
      duplicate_of: null,
      linked_at: expect.stringMatching(/Z$/),
      points: -5,
      dead_reason: null,
      deleted_at: null,
      payload,
      occurred_at: "2026-11-01T10:00:00.000Z",
      occurred_from: "received",
    });
    expect(second).toMatchObject({ id: "sig_b", kind: "identify", points: 0, payload: identify });
    expect(third).toMatchObject({ id: "sig_c", status: "duplicate", duplicate_of: "sig_a", payload: null });
  });

  test("has each payload with its values as sent, in one line; a broken payload as text, and keys masked", async () => {
    const pretty = '{\n  "event": "E",\r\n  "properties": { "big": 12345678901234567890, "text": "a\\nb" }\n}';
    await deliver(workspace.id, [
      { id: "sig_a", payload: pretty },
      { id: "sig_b", payload: '{"event": "E", broken' },
      { id: "sig_c", payload: { event: "E", properties: { key: workspace.key.key } } },
    ]);
    const text = await (await ask("signals")).text();
    expect(text.split("\n")).toHaveLength(4);
    expect(text).not.toContain(workspace.key.key);
    // Dead letters come first.
    expect(JSON.parse(text.split("\n")[0] ?? "")).toMatchObject({ status: "dead", payload: '{"event": "E", broken' });
    expect(text).toContain(
      '"payload":{   "event": "E",   "properties": { "big": 12345678901234567890, "text": "a\\nb" } },"occurred_at":',
    );
  });

  test("leaves out signals that are recorded after it has begun", async () => {
    await send(EXPORT_PART_BUDGET + 1);
    const { body } = await start((_, read) => read());
    await deliver(workspace.id, [{ id: "sig_late", payload: { event: "E" } }]);
    const text = await new Response(body).text();
    expect(text.split("\n")).toHaveLength(EXPORT_PART_BUDGET + 2);
    expect(text).not.toContain("sig_late");
  });

  const big = "x".repeat(60_000);
  const PORTION_BYTES = 262_144;

  testStored(
    "reads a part of the store when the receiver has taken the one before, and sends it in chunks",
    async () => {
      await send(100, (index) => ({ event: "E", properties: { index, big } }));
      let [characters, taken] = [0, 0];
      const untaken: number[] = [];
      const { body } = await start(async (_, read) => {
        untaken.push(characters - taken);
        const page = await read();
        expect(page.text.length).toBeLessThan(EXPORT_PART_MAX_CHARACTERS + 70_000);
        characters += page.text.length;
        return page;
      });
      for await (const portion of body) {
        taken += portion.byteLength;
        expect(portion.byteLength).toBeLessThanOrEqual(PORTION_BYTES);
      }
      expect(taken).toBeGreaterThan(6_000_000);
      expect(untaken.length).toBeGreaterThan(2);
      expect(untaken).toEqual(untaken.map(() => 0));
    },
  );

  test("cuts no character in two between portions", async () => {
    await send(1, () => ({ event: "E", properties: { emoji: "😀".repeat(15_000) } }));
    await send(60, (index) => ({ event: "E", properties: { index, emoji: "😀".repeat(15_000) } }));
    const text = await new Response((await start((_, read) => read())).body).text();
    expect(text).not.toContain("\uFFFD");
    for (const line of text.trim().split("\n")) expect(line).toContain("😀".repeat(15_000));
  });

  test("ends with an error after 30 seconds if its receiver stops, and its place is free", async () => {
    await send(50, (index) => ({ event: "E", properties: { index, big } }));
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const stopped = await Promise.all(
      Array.from({ length: DOWNLOADS.each }, async () => {
        const reader = (await start((_, read) => read())).body.getReader();
        await reader.read();
        return reader;
      }),
    );
    await expect(start((_, read) => read())).rejects.toThrow("too many downloads");
    vi.advanceTimersByTime(30_000);
    for (const reader of stopped) await expect(reader.read()).rejects.toThrow("does not take the file");
    await (await start((_, read) => read())).body.cancel();
  });

  testStored("has the payloads from R2, and fails if they cannot be read", async () => {
    expectLogged("cold_read_failed", "error");
    const payload = (index: number) => ({
      event: "E",
      anonymousId: `visitor-${index}`,
      messageId: `m${index}`,
      type: "track",
    });
    await send(3, payload);
    await inColdStorage();
    expect((await lines("signals")).map((line) => line["payload"])).toEqual([0, 1, 2].map(payload));
    for (const { key } of (await env.COLD.list({ prefix: `cold/${workspace.id}/` })).objects)
      await env.COLD.delete(key);
    expect((await ask("signals")).status).toBe(503);
  });

  test("ends with an error if the store stops answering", async () => {
    await send(EXPORT_PART_BUDGET + 1);
    const { body } = await start(({ cursor }, read) =>
      cursor === null ? read() : Promise.reject(new Error("store is gone")),
    );
    await expect(new Response(body).text()).rejects.toThrow("store is gone");
  });
});

describe("signals that change state during an export", () => {
  const held = (count: number, from = 1) =>
    Array.from({ length: count }, (_, index) => ({
      id: `sig_h${from + index}`,
      ordinal: 5_000 + from + index,
      payload: { event: "H", properties: { n: from + index } },
      verdict: "held" as const,
      periodEnd: Date.now() + DAY,
    }));
  const release = (ids: number[], payload?: string) =>
    deliver(
      workspace.id,
      ids.map((n) => ({
        ...held(1, n)[0],
        id: `sig_h${n}`,
        payload: payload ?? { event: "H", properties: { n } },
        verdict: "accepted",
        resent: { from: "held", place: n },
      })),
    );
  const accepted = (count: number) => Array.from({ length: count }, (_, index) => `sig_${index}`);

  test("appear once if held signals are released while the log or the held signals are exported", async () => {
    const count = EXPORT_PART_BUDGET + 10;
    await deliver(workspace.id, held(count));
    await release([1]);
    await send(EXPORT_PART_BUDGET);
    const expected = [...accepted(EXPORT_PART_BUDGET), ...held(count).map(({ id }) => id)].toSorted();
    let next = 2;
    // Each page follows a release, of a signal before and of a signal after its turn.
    const ids = await exportedWhile(() => release([next, count - next++]));
    expect(ids.toSorted()).toEqual(expected);
  });

  test("appear once if a held signal fails, and if dead letters are replayed or held again", async () => {
    await deliver(workspace.id, held(3));
    await deliver(workspace.id, [
      { id: "sig_d1", ordinal: 8_001, payload: "{" },
      { id: "sig_d2", ordinal: 8_002, payload: "{" },
    ]);
    await send(EXPORT_PART_BUDGET);
    let isFirst = true;
    const ids = await exportedWhile(async () => {
      if (!isFirst) return;
      isFirst = false;
      await release([2], "{");
      const again = { payload: { event: "D" }, resent: { from: "dead" as const, place: 1 } };
      await deliver(workspace.id, [
        { id: "sig_d1", ordinal: 8_001, ...again },
        { id: "sig_d2", ordinal: 8_002, ...again, resent: { from: "dead", place: 2 }, verdict: "held" },
      ]);
      expect(await workspace.books()).toMatchObject({ dead_lettered: 1, held: 3, processed: EXPORT_PART_BUDGET + 1 });
    });
    expect(ids.toSorted()).toEqual(
      [...accepted(EXPORT_PART_BUDGET), "sig_d1", "sig_d2", "sig_h1", "sig_h2", "sig_h3"].toSorted(),
    );
  });
});

test("exported people have all their ids, each id with its current person", async () => {
  const identify = (id: string, email: string, anonymousId: string, n: number) => ({
    id,
    ordinal: n,
    at: AT + n,
    payload: { type: "identify", messageId: id, anonymousId, traits: { email } },
  });
  await deliver(workspace.id, [
    identify("sig_a", "ann@example.com", "shared", 1),
    identify("sig_b", "bob@example.com", "shared", 2),
    identify("sig_c", "cy@example.com", "own", 3),
  ]);
  const count = 2 * PERSON_MAX_IDS;
  const long = '"ä,'.repeat(20);
  await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
    sql.exec(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
       INSERT INTO identities (key, at, ordinal, person_id) SELECT CAST(
         iif(i % 2, 'a', 'u') || format('%04d', i) || ?2 AS BLOB), 1, 1, 1 FROM n`,
      count,
      long,
    );
  });
  const [ann, bob, cy] = await lines("people");
  const ids = (column: string) => (ann?.[column] as string[]) ?? [];
  expect([ids("user_ids").length, ids("anonymous_ids").length]).toEqual([PERSON_MAX_IDS, PERSON_MAX_IDS]);
  expect(new Set([...ids("user_ids"), ...ids("anonymous_ids")]).size).toBe(count);
  expect(ids("user_ids")[0]).toBe(`5000${long}`);
  expect([bob, cy]).toMatchObject([
    { email: "bob@example.com", user_ids: [], anonymous_ids: ["shared"] },
    { email: "cy@example.com", anonymous_ids: ["own"] },
  ]);
});

test("exported scoring signals appear once each, however many a person has, also of dropped signals", async () => {
  const rule = { name: "R", event: "E", match: "all", conditions: [], scoring_signal: "s", points: 2 };
  await workspace.operator("POST", "/rules", rule);
  const of = (n: number) => ({
    event: n % 10 === 0 ? "other" : "E",
    email: `p${n % 7 === 0 ? 2 : 1}@example.com`,
    properties: { n },
  });
  const count = 2_500;
  for (let from = 0; from < count; from += 500) {
    // oxlint-disable-next-line no-await-in-loop -- as they come
    await deliver(
      workspace.id,
      Array.from({ length: 500 }, (_, n) => ({
        id: `sig_${from + n}`,
        ordinal: from + n + 1,
        payload: of(from + n),
        at: AT,
      })),
    );
  }
  await readStore(workspace.id, (state) => dropLines(state));
  await evictDurableObject(workspace.store);
  const scored = Array.from({ length: count }, (_, n) => n).filter((n) => n % 10 !== 0);
  const expected = [1, 2].flatMap((person) =>
    scored
      .filter((n) => of(n).email === `p${person}@example.com`)
      .map((n) => [`p${person}@example.com`, `sig_${n}`, 2]),
  );
  const people = new Map<unknown, number>();
  const exported = (await lines("scoring-signals")).map((line) => {
    people.set(line["email"], people.size);
    return [line["email"], line["signal_id"], line["points"]];
  });
  const inOrder = expected.toSorted(([a], [b]) => (people.get(a) ?? 0) - (people.get(b) ?? 0));
  expect(exported).toEqual(inOrder);
  // Many people without a score make empty pages.
  await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
    sql.exec("UPDATE people SET id = 3000 WHERE id = 1");
    sql.exec("UPDATE timelines SET list = ? WHERE list = ?", keyOf(personList(3_000)), keyOf(personList(1)));
    sql.exec(
      `WITH RECURSIVE n (i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < 2999)
       INSERT INTO people (id, email, first_seen, last_seen, last_day) SELECT i, 'n' || i, 1, 1, 0 FROM n`,
    );
  });
  await readStore(workspace.id, (state) => {
    state.head.nextPersonId = 3_001;
    state.signals.flush();
  });
  await evictDurableObject(workspace.store);
  expect((await lines("scoring-signals")).length).toBe(exported.length);
});

describe("an export as CSV", () => {
  const rows = async (path: string) => (await (await ask(path)).text()).split("\r\n");

  test("has a header even if it is empty, and quotes as RFC 4180 requires", async () => {
    const header =
      "email,name,company,title,score,first_seen,last_seen,ids_dropped,user_ids,anonymous_ids,next_lapse_at,account";
    expect(await rows("people?format=csv")).toEqual([header, ""]);
    const traits = { email: "jane@example.com", name: 'Jane "J" Doe, Jr.', company: "Two\nLines", title: "Zoë ☃\rC" };
    const identify = { type: "identify", messageId: "i", anonymousId: "visitor-1", userId: "user-1", traits };
    await deliver(workspace.id, [{ id: "sig_a", payload: identify, at: AT }]);
    const times = "2026-11-01T10:00:00.000Z,2026-11-01T10:00:00.000Z";
    expect(await rows("people?format=csv")).toEqual([
      header,
      `jane@example.com,"Jane ""J"" Doe, Jr.","Two\nLines","Zoë ☃\rC",0,${times},0,"[""user-1""]","[""visitor-1""]",,`,
      "",
    ]);
  });

  test("prevents formulas in CSV cells, and quotes the cell separators of other locales", async () => {
    const formulas = ["=1+1", "+1", "-1", "@SUM(A1)", "＝1"];
    const separated = ["Jane;=1+1", ";+1", "a;b", "Jane\t=1+1"];
    await deliver(
      workspace.id,
      [...formulas, ...separated].map((event, n) => ({ id: `sig_${n}`, ordinal: n + 1, payload: { event }, at: AT })),
    );
    const csv = (await rows("signals?format=csv")).slice(1, -1).map((row) => row.split(",")[3]);
    expect(csv).toEqual([...formulas.map((event) => `'${event}`), ...separated.map((event) => `"${event}"`)]);
    expect((await lines("signals")).map(({ event }) => event)).toEqual([...formulas, ...separated]);
  });

  test("keeps negative numbers as numbers", async () => {
    const rule = { name: "R", event: "*", match: "all", conditions: [], scoring_signal: "churn risk", points: -20 };
    const { id } = await workspace.operator<{ id: string }>("POST", "/rules", rule);
    await deliver(workspace.id, [{ id: "sig_a", payload: { event: "E", email: "jane@example.com" }, at: AT }]);
    expect(await rows("scoring-signals?format=csv")).toEqual([
      "email,signal_id,rule_id,rule_version,scoring_signal,points,at,occurred_at,lapses_at,lapsed",
      `jane@example.com,sig_a,${id},1,churn risk,-20,2026-11-01T10:00:00.000Z,2026-11-01T10:00:00.000Z,,false`,
      "",
    ]);
    expect((await rows("people?format=csv"))[1]).toContain(",-20,");
  });
});

describe("the answer to an export", () => {
  test.each([
    ["signals", "application/x-ndjson", "signals", "ndjson"],
    ["people?format=csv", "text/csv; charset=utf-8; header=present", "people", "csv"],
    ["scoring-signals?format=ndjson", "application/x-ndjson", "scoring-signals", "ndjson"],
  ])("to %s is a download with a name, and has an audit entry", async (path, type, records, format) => {
    const response = await ask(path);
    await response.text();
    expect(response.headers.get("content-type")).toBe(type);
    expect(response.headers.get("content-disposition")).toMatch(
      new RegExp(`^attachment; filename="w-[0-9a-f-]+-${records}-\\d{8}T\\d{6}Z\\.${format}"$`),
    );
    expect(response.headers.get("cache-control")).toBe("no-store");
    const detail = { records: records.replace("-", "_"), format };
    expect(await workspace.audit("data.exported")).toMatchObject([{ target: workspace.id, detail }]);
  });

  test.each(["signals", "people?format=csv", "scoring-signals"])(
    "to %s has no data if its audit entry cannot be written, on the pages too",
    async (path) => {
      expectLogged("error");
      await deliver(workspace.id, [{ id: "sig_a", payload: { event: "E", email: "jane@example.com" }, at: AT }]);
      const { slug } = await workspace.operator<{ slug: string }>("GET", "");
      await workspace.operator("POST", "/members", { email: `owner-${slug}@example.com`, role: "owner" });
      const cookie = await new Browser(`owner-${slug}@example.com`).cookie();
      const bindings = { ...env, DB: d1Failing(/insert into "audit_log"/, "no audit log") };
      for (const [address, headers] of [
        [`/operator/workspaces/${workspace.id}/export/${path}`, AUTHORISED],
        [`/w/${slug}/people/export?records=${path.split("?")[0]?.replace("-", "_")}&format=csv`, { cookie }],
      ] as const) {
        const request = new Request(`https://signals.example${address}`, { headers });
        const answer = await worker.fetch(request, bindings, createExecutionContext());
        expect([address, answer.status]).toEqual([address, 503]);
        expect(answer.headers.get("content-disposition")).toBeNull();
        expect(await answer.text()).not.toContain("jane@example.com");
      }
    },
  );

  test("is 422 for an unknown format and 404 for unknown records", async () => {
    expect((await ask("signals?format=xlsx")).status).toBe(422);
    expect((await ask("accounts")).status).toBe(404);
  });
});
