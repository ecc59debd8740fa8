/** Outbox rows that no release can read: they are kept, counted and reported, and block nothing. */
import { abortAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { beforeEach, expect, test, vi } from "vitest";
import { RESEND_AFTER_MS } from "../../../src/quota/drain.ts";
import { UNREADABLE_AFTER_MS } from "../../../src/quota/quota-counter.ts";
import { readMessage } from "../../../src/wire/message.ts";
import { stopClock } from "../../support/clock.ts";
import { TestCounter, lose } from "../../support/counter.ts";
import { expectLogged } from "../../support/logged.ts";
import { until } from "../../support/until.ts";
import { bytesOf, textOf } from "../../support/wire.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

beforeEach(() => stopClock(Date.UTC(2031, 0, 15)));

/** Two waiting rows. The bodies are stored as `spoil` returns them. */
async function withRows(spoil: (body: string, index: number) => string): Promise<[TestWorkspace, TestCounter]> {
  const workspace = await newWorkspace({ signalLimit: 100 });
  const counter = new TestCounter(workspace.id);
  await counter.sendTo(lose);
  for (const name of ["a", "b"]) {
    // oxlint-disable-next-line no-await-in-loop
    await workspace.send({ event: "E", email: `${name}@example.com` });
  }
  await runInDurableObject(workspace.counter, (_, { storage: { sql } }) => {
    const rows = sql.exec<{ row: number; body: ArrayBuffer }>("SELECT row, body FROM outbox ORDER BY row").toArray();
    for (const [index, { row, body }] of rows.entries()) {
      sql.exec("UPDATE outbox SET body = ? WHERE row = ?", bytesOf(spoil(textOf(body), index)), row);
    }
  });
  return [workspace, counter];
}

/** The counter's two tables after its alarm, and the lowest unsettled row in its messages. */
async function afterAlarm(counter: TestCounter, afterMs: number) {
  const lows: number[] = [];
  await counter.sendTo(
    async (messages) => void lows.push(...messages.map(({ body }) => readMessage(body).lowestUnsettledRow)),
  );
  vi.setSystemTime(Date.now() + afterMs);
  await runInDurableObject(counter.stub, (instance) => instance.alarm());
  const [rows, aside] = await runInDurableObject(counter.stub, (_, { storage: { sql } }) => [
    sql.exec<{ row: number }>("SELECT row FROM outbox WHERE bytes > 0").toArray(),
    sql.exec<{ row: number }>("SELECT row FROM unreadable_rows").toArray(),
  ]);
  return { rows: rows?.map(({ row }) => row) ?? [], aside: aside?.map(({ row }) => row) ?? [], lows };
}

const NONSENSE = "\u001dnonsense";

test("sets an unreadable row aside after 45 minutes, shows it as in flight and blocks no other row", async () => {
  const logged = expectLogged("rows_set_aside");
  const [workspace, counter] = await withRows((body, index) => (index === 0 ? NONSENSE : body));
  const early = await afterAlarm(counter, UNREADABLE_AFTER_MS - 60_000);
  expect(early.aside).toEqual([]);
  expect((await counter.stub.backlog()).unsettledSignals).toBe(2);
  const { rows, aside } = await afterAlarm(counter, 60_001);
  expect([rows, aside]).toEqual([[early.rows[1]], [early.rows[0]]]);
  expect(logged()).toMatchObject([{ workspace: workspace.id, signals: 1 }]);
  expect((await counter.stub.backlog()).unsettledSignals).toBe(2);
  // The resent message says that all earlier rows are settled.
  await until(async () => {
    const { lows } = await afterAlarm(counter, RESEND_AFTER_MS);
    expect(lows).toEqual([early.rows[1]]);
  });
  expect(await workspace.books()).toMatchObject({ accepted: 2, in_flight: 2, balanced: true });
  await abortAllDurableObjects();
  await until(async () => expect(await workspace.books()).toMatchObject({ processed: 1 }));
  expect(await workspace.books()).toMatchObject({ accepted: 2, in_flight: 1, balanced: true });
  const { alarms } = await workspace.operator<{ alarms: { alarm: string; says: string }[] }>("GET", "/health");
  expect(alarms).toMatchObject([
    { alarm: "signals_unreadable", says: expect.stringContaining("1 accepted signal cannot be read") },
  ]);
});

test("keeps the counts when the last row is set aside", async () => {
  expectLogged("rows_set_aside");
  const [workspace, counter] = await withRows(() => NONSENSE);
  const { rows, aside } = await afterAlarm(counter, UNREADABLE_AFTER_MS);
  expect([rows.length, aside.length]).toEqual([0, 2]);
  await abortAllDurableObjects();
  expect(await workspace.operator("GET", "/usage")).toMatchObject({ accepted: 2 });
  expect(await workspace.books()).toMatchObject({ accepted: 2, in_flight: 2, balanced: true });
});

test("keeps a row of a later version for a release that can read it", async () => {
  const [, counter] = await withRows((body) => body.replace('"v":1', '"v":2'));
  const { rows, aside } = await afterAlarm(counter, UNREADABLE_AFTER_MS);
  expect([rows.length, aside.length]).toEqual([2, 0]);
});
