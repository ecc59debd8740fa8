/**
 * The longest and widest input that the edge accepts, in everything stored in one row or sent in one message: names
 * of events and sources, traits, paired ids, samples of groups, payloads. Recording continues.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { SIGNAL_MAX_BYTES, TRAIT_MAX_BYTES } from "../../../src/limits.ts";
import { HEAD_META_MAX_BYTES } from "../../../src/store/log/stored-log.ts";
import { expectToAddUp } from "../../support/read-store.ts";
import { headMetaBytes, largestRows, PLATFORM_ROW_MAX_BYTES } from "../../support/sql-cost.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";
import { wanting } from "../../support/wanting.ts";

/** The platform rejects larger queue messages. */
const MESSAGE_BYTES = 128_000;
const NAMES = 255;
/** Four bytes in UTF-8. */
const WIDE = "😀";
/** Characters that grow when escaped in JSON. */
const ESCAPED = '\t"\\';

const wideName = (n: number): string =>
  `${Array.from(`${n} ${WIDE.repeat(NAMES)}`)
    .slice(0, NAMES - 1)
    .join("")}.`;
const escapedName = (n: number): string => `${`${n} ${ESCAPED.repeat(NAMES)}`.slice(0, NAMES - 1)}.`;
const wideId = (n: number): string => `${n} ${"\u0fd4".repeat(NAMES)}`.slice(0, NAMES);

/** A signal of the maximum size, filled with these characters. */
function filled(letter: string, make: (text: string) => object): string {
  const left = SIGNAL_MAX_BYTES - Buffer.byteLength(JSON.stringify(make("")));
  const times = Math.floor(left / (Buffer.byteLength(JSON.stringify(letter)) - 2));
  return JSON.stringify(make(letter.repeat(times)));
}

/** Keeps the counter's messages to the queue. */
async function recordMessages(workspace: TestWorkspace): Promise<string[]> {
  const bodies: string[] = [];
  const sendBatch = (messages: { body: string; contentType: "text" }[]): Promise<unknown> => {
    bodies.push(...messages.map(({ body }) => body));
    return env.SIGNALS.sendBatch(messages);
  };
  await runInDurableObject(workspace.counter, (instance) => {
    Object.assign(instance, { env: { ...env, SIGNALS: { sendBatch } } });
  });
  return bodies;
}

test("the longest and widest allowed input is recorded, and rows and messages stay below the platform's limits", async () => {
  const workspace = await newWorkspace();
  const scoring = { event: "*", match: "all", conditions: [], scoring_signal: WIDE.repeat(NAMES), points: 1 };
  for (const name of ["one", "two"]) await workspace.operator("POST", "/rules", { name, ...scoring });
  await workspace.store.wantNotifications(
    wanting({ types: ["person.scored", "person.score_crossed"], thresholds: [1, 2, 3, 4, 5] }),
  );
  const bodies = await recordMessages(workspace);
  const path = `/api/signal-staging/webhook/${encodeURIComponent(wideName(0))}/{key}`;
  let [sent, calls] = [0, 0];
  const send = async (signals: (object | string)[], options: { path?: string } = {}): Promise<void> => {
    const headers = { "idempotency-key": `${++calls}`.padEnd(NAMES, "k") };
    const items = signals.map((signal) => (typeof signal === "string" ? signal : JSON.stringify(signal)));
    const response = await workspace.send(`[${items.join(",")}]`, { headers, ...options });
    expect(await response.json()).toMatchObject({ rejected: 0, held: 0, accepted: items.length });
    expect(response.status).toBe(202);
    sent += items.length;
  };
  const numbers = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

  // Groups of the signal queue, by event and by source.
  const groups = numbers(300).map((n) => ({ event: wideName(n), source: wideName(n), email: `p${n}@example.com` }));
  await send(groups);
  await send(numbers(300).map((n) => ({ event: escapedName(n), source: escapedName(n), email: `p${n}@example.com` })));
  await send(
    groups.map(({ event, email }) => ({ event, email, more: 1 })),
    { path },
  );
  // Traits.
  for (const letter of ["\ufdfa", WIDE, "\\", "\u2028"]) {
    const email = `${"x".repeat(242)}@example.com`;
    const [name, title] = [letter.repeat(5_000), letter.repeat(2_000)];
    const identify = { type: "identify", anonymousId: wideId(0), userId: wideId(1) };
    await send([filled(letter, (company) => ({ ...identify, traits: { email, name, title, company } }))], { path });
  }
  // Pairs of ids.
  const pairs = numbers(40).flatMap((n) => [
    { type: "identify", userId: wideId(2), anonymousId: wideId(3 + n) },
    { type: "alias", userId: wideId(2), previousId: wideId(100 + n) },
  ]);
  await send(pairs);
  // Payloads, which are samples of their groups.
  for (const letter of ["\ufdfa", WIDE, "\\", "\u2028"]) {
    const named = { event: wideName(1), source: wideName(1), anonymousId: wideId(4) };
    await send(numbers(5).map((n) => filled(letter, (text) => ({ ...named, n, properties: { text } }))));
  }

  const books = await workspace.settled();
  expect(books).toMatchObject({ accepted: sent, dead_lettered: 0, balanced: true });
  await workspace.operator("GET", "/events");
  await send([{ event: "One more", email: "jane@example.com" }]);
  await workspace.settled();
  const { items } = await workspace.operator<{ items: unknown[] }>("GET", "/people?email=jane@example.com");
  expect(items).toMatchObject([{ score: 2 }]);

  expect(Math.max(...bodies.map((body) => Buffer.byteLength(body)))).toBeGreaterThan(SIGNAL_MAX_BYTES);
  expect(Math.max(...bodies.map((body) => Buffer.byteLength(body)))).toBeLessThan(MESSAGE_BYTES);
  for (const object of [workspace.store, workspace.counter] as const) {
    const rows = await runInDurableObject(object as DurableObjectStub, (_, { storage }) => largestRows(storage.sql));
    for (const [table, bytes] of rows) expect(bytes, table).toBeLessThan(PLATFORM_ROW_MAX_BYTES / 2);
  }
  await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
    expect(headMetaBytes(sql)).toBeLessThanOrEqual(HEAD_META_MAX_BYTES + 1_024);
    const names = sql.exec<{ bytes: number }>("SELECT max(length(CAST(names AS BLOB))) AS bytes FROM people").one();
    expect(names.bytes).toBeGreaterThan(TRAIT_MAX_BYTES);
    expect(names.bytes).toBeLessThanOrEqual(2 * TRAIT_MAX_BYTES + 1);
    expect(sql.exec("SELECT count(*) AS pairs FROM pairs").one()["pairs"]).toBeGreaterThan(30);
  });
  await expectToAddUp(workspace.id);
});
