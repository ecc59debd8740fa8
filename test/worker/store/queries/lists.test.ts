/** Lists of signals and event groups over the log, held signals and dead letters. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { QUEUE_SCAN_GROUPS } from "../../../../src/limits.ts";
import { hashOfName } from "../../../../src/domain/signal/identity.ts";
import { rememberEmail } from "../../../../src/store/deletion/deleted-names.ts";
import { latestSignals } from "../../../../src/store/queries/newest-signals.ts";
import { PORTION_MAX_LINES } from "../../../../src/store/log/signal-log.ts";
import type {
  LatestSignals,
  SignalSummary,
  SignalTrace,
  FindFilter,
} from "../../../../src/store/protocol/stored-signals.ts";
import { signalStore } from "../../../../src/use-cases/objects.ts";
import { amount } from "../../../support/amount.ts";
import { expectLogged } from "../../../support/logged.ts";
import { rowsRead } from "../../../support/sql-cost.ts";
import { readStore, heldIn } from "../../../support/read-store.ts";
import { ring } from "../../../support/cold.ts";
import { DAY, MINUTE, deliver, type Delivered } from "../../../support/deliver.ts";
import { allItems, allSlices } from "../../../support/slices.ts";
import { newWorkspace, type TestWorkspace } from "../../../support/workspace.ts";
import { shown as show } from "../../../../src/store/queries/shown.ts";
import { testStored } from "../../../support/log.ts";

let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace();
});

const NOW = Date.now();
let ordinal = 0;

function signal(over: Partial<Delivered> & { email?: string; event?: string; source?: string } = {}): Delivered {
  const { email, event = "E", source = "web", ...more } = over;
  const n = ++ordinal;
  const payload = { event, source, ...(email === undefined ? {} : { email }), properties: { n } };
  return { id: `sig_${n}`, ordinal: n, at: NOW - MINUTE, periodEnd: NOW + DAY, payload, ...more };
}

/** All signals that a query finds. */
async function all(filter: FindFilter = {}, limit = 7): Promise<SignalSummary[]> {
  const pages = await allSlices((cursor) => workspace.store.signals(filter, { cursor, limit }));
  for (const { items, next, complete } of pages) {
    expect(items.length).toBeLessThanOrEqual(limit);
    if (next !== null && complete) expect(items).toHaveLength(limit);
  }
  return pages.flatMap(({ items }) => items);
}

const idsOf = (signals: readonly { id: string }[]) => signals.map(({ id }) => id);

describe("signals", () => {
  const kinds = fc.constantFrom("accepted", "held", "dead", "accepted", "release", "replay");
  const batches = fc.array(fc.array(fc.tuple(kinds, fc.nat(2)), { minLength: 1, maxLength: 12 }), {
    minLength: 1,
    maxLength: 8,
  });

  test("since the last cursor are read without the earlier signals", async () => {
    for (let batch = 0; batch < 8; batch++) {
      // oxlint-disable-next-line no-await-in-loop -- as they come
      await deliver(
        workspace.id,
        Array.from({ length: 2 * PORTION_MAX_LINES }, (_, n) => signal({ email: `p${n}@example.com` })),
      );
    }
    const before = await workspace.store.latest(null, 50);
    await deliver(workspace.id, [signal({ email: "new@example.com" })]);
    await readStore(workspace.id, (state) => {
      const { sql } = state;
      let latest: LatestSignals | null = null;
      expect(rowsRead(sql, () => (latest = latestSignals(show(state), before?.cursor ?? "", 50)))).toBeLessThan(40);
      expect(latest).toMatchObject({ signals: [{ email: "new@example.com" }], more: 0 });
    });
  });

  test("appear once each, the latest recorded first, wherever they were before", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: NOW });
    await fc.assert(
      fc.asyncProperty(batches, fc.integer({ min: 1, max: 9 }), async (history, limit) => {
        workspace = await newWorkspace();
        const recorded: { id: string; email: string | null; status: string }[] = [];
        const places = { held: [] as Delivered[], dead: [] as Delivered[] };
        const gone = { held: 0, dead: 0 };
        let seen: string | null = null;
        for (const batch of history) {
          vi.setSystemTime(Date.now() + 10);
          const sent = batch.flatMap(([kind, who]): Delivered[] => {
            const email = `p${who}@example.com`;
            if (kind === "accepted") return [signal({ email })];
            if (kind === "held") return [signal({ email, verdict: "held" })];
            if (kind === "dead") return [signal({ payload: "{" })];
            const from = kind === "release" ? "held" : "dead";
            const before = places[from][gone[from]];
            if (before === undefined) return [];
            const { payload: _payload, ...fresh } = signal();
            const { payload } = from === "held" ? before : signal({ email });
            const resent = { from, place: ++gone[from] } as const;
            return [{ ...before, payload, at: fresh.at ?? NOW, verdict: "accepted", resent }];
          });
          // oxlint-disable-next-line no-await-in-loop -- as they come
          await deliver(workspace.id, sent);
          // oxlint-disable-next-line no-await-in-loop
          const latest: LatestSignals | null = await workspace.store.latest(seen, 100);
          seen = latest?.cursor ?? seen;
          expect(idsOf(latest?.signals ?? []).toSorted()).toEqual(idsOf(sent).toSorted());
          for (const line of sent.toSorted(
            (a, b) => Number(a.at) - Number(b.at) || Number(a.ordinal) - Number(b.ordinal),
          )) {
            const before = recorded.findIndex(({ id }) => id === line.id);
            if (before !== -1) recorded.splice(before, 1);
            const isDead = line.payload === "{";
            if (isDead) places.dead.push(line);
            else if (line.verdict === "held") places.held.push(line);
            const email = isDead ? null : (line.payload as { email: string }).email;
            recorded.push({
              id: line.id,
              email,
              status: isDead ? "dead" : line.verdict === "held" ? "held" : "processed",
            });
          }
        }
        const expected = recorded.toReversed();
        const shown = await all({}, limit);
        expect(shown.map(({ id, email, status }) => ({ id, email, status }))).toEqual(expected);
        const latest = await workspace.store.latest(null, limit);
        expect(idsOf(latest?.signals ?? [])).toEqual(idsOf(expected.slice(0, limit)));
        for (const status of ["held", "dead", "processed"] as const) {
          // oxlint-disable-next-line no-await-in-loop
          expect(idsOf(await all({ status }, limit))).toEqual(idsOf(expected.filter((line) => line.status === status)));
        }
        const email = "p1@example.com";
        expect(idsOf(await all({ email }, limit))).toEqual(idsOf(expected.filter((line) => line.email === email)));
        for (const { id, status } of expected) {
          // oxlint-disable-next-line no-await-in-loop
          expect(await signalStore(env, workspace.id).signal(id)).toMatchObject({ id, status });
        }
      }),
      { numRuns: amount(3, 15) },
    );
    vi.useRealTimers();
  });

  test("are found by event, source, status and person, in sealed segments and open lines", async () => {
    const count = PORTION_MAX_LINES + 100;
    const sent = Array.from({ length: count }, (_, n) =>
      signal({
        email: `p${n % 3}@example.com`,
        event: n % 50 === 0 ? "rare" : "frequent",
        source: n % 2 === 0 ? "web" : "crm",
        ...(n % 40 === 7 ? { payload: { type: "track", event: "frequent", source: "web", anonymousId: `a${n}` } } : {}),
      }),
    );
    await deliver(workspace.id, sent);
    const anonymous = sent.filter((_, n) => n % 40 === 7);
    const named = sent
      .filter((line) => !anonymous.includes(line))
      .map((line) => ({ ...(line.payload as { event: string; source: string; email: string }), id: line.id }));
    const expected = (which: (line: (typeof named)[number]) => boolean) => idsOf(named.filter(which).toReversed());
    expect(idsOf(await all({ event: "rare" }))).toEqual(expected(({ event }) => event === "rare"));
    expect(idsOf(await all({ event: "rare", source: "crm" }))).toEqual([]);
    expect(idsOf(await all({ source: "crm" }, 50))).toEqual(expected(({ source }) => source === "crm"));
    expect(idsOf(await all({ email: " P1@example.com " }, 50))).toEqual(
      expected(({ email }) => email === "p1@example.com"),
    );
    expect(idsOf(await all({ email: "p1@example.com", event: "rare" }))).toEqual(
      expected(({ email, event }) => email === "p1@example.com" && event === "rare"),
    );
    expect(idsOf(await all({ status: "anonymous" }))).toEqual(idsOf(anonymous.toReversed()));
    expect(await all({ status: "purged" })).toEqual([]);
    expect(await all({ email: "nobody@example.com" })).toEqual([]);
  });

  test("of identify calls are found by event, source and email, also in a sealed segment", async () => {
    const identify = { type: "identify", userId: "u1", traits: { email: "p1@example.com" } };
    await deliver(workspace.id, [signal({ email: "p1@example.com" }), signal({ payload: identify })]);
    const found = await all({ event: "identify" });
    expect(found.map(({ kind, event, email }) => ({ kind, event, email }))).toEqual([
      { kind: "identify", event: "identify", email: "p1@example.com" },
    ]);
    await ring(workspace.id);
    expect(await all({ event: "identify" })).toEqual(found);
    expect(await all({ event: "identify", source: "segment" })).toEqual(found);
    expect(await all({ event: "identify", email: "p1@example.com" })).toEqual(found);
  });

  test("of a person being deleted show no name, but later signals with the same email do", async () => {
    const email = "ann@example.com";
    await deliver(workspace.id, [signal({ email, verdict: "held" }), signal({ email, verdict: "held", at: NOW })]);
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
      sql.exec(
        `INSERT INTO deletions (id, email_hash, requested_at, last_requested_at, person_id, step, position, people, identities, signals,
           anonymous, held, dead_letters, scoring_signals, cold_objects)
         VALUES ('del_1', 'x', ?1, ?1, 9, 'held', 0, 1, 0, 0, 0, 0, 0, 0, 0)`,
        NOW - 1,
      );
      rememberEmail(sql, { hash: hashOfName({ kind: "email", value: email }), mark: null }, 9, NOW - 1);
    });
    expect((await all()).map((line) => line.email)).toEqual([email, null]);
    expect(await all({ email })).toHaveLength(1);
    const { text } = await workspace.store.exportPart({ records: "signals", format: "ndjson", cursor: null });
    const exported = text.split("\n").slice(0, -1);
    expect(exported.map((line) => (JSON.parse(line) as { email: string | null }).email)).toEqual([null, email]);
  });
});

describe("a trace", () => {
  test("shows a held signal that failed after its release as a dead letter", async () => {
    const held = signal({ verdict: "held" });
    await deliver(workspace.id, [held]);
    await deliver(workspace.id, [{ ...held, payload: "{", verdict: "accepted", resent: { from: "held", place: 1 } }]);
    expect(await signalStore(env, workspace.id).signal(held.id)).toMatchObject({
      status: "dead",
      kind: "unknown",
      payload: "{",
    });
    expect(idsOf(await all())).toEqual([held.id]);
  });

  testStored("has the payload from R2, or says that R2 does not answer", async () => {
    expectLogged("cold_read_failed");
    const sent = signal({ email: "ann@example.com" });
    await deliver(workspace.id, [sent, signal()]);
    vi.useFakeTimers({ toFake: ["Date"], now: NOW + 400 * DAY });
    await ring(workspace.id);
    vi.useRealTimers();
    const trace = async (): Promise<SignalTrace | null> => signalStore(env, workspace.id).signal(sent.id);
    expect(await trace()).toMatchObject({
      inColdStorage: true,
      payload: JSON.stringify(sent.payload),
      person: { email: "ann@example.com" },
    });
    const { objects } = await env.COLD.list({ prefix: `cold/${workspace.id}/` });
    await env.COLD.delete(objects.map(({ key }) => key));
    expect(await trace()).toMatchObject({ inColdStorage: true, payload: null, person: { email: "ann@example.com" } });
  });
});

test("held signals are listed by ordinal, one period at a time, regardless of the order of recording", async () => {
  const count = 1_200;
  const numbers = Array.from({ length: count }, (_, n) => n + 1);
  const [ordinals = []] = fc.sample(fc.shuffledSubarray(numbers, { minLength: count }), { numRuns: 1, seed: 7 });
  // A batch records its signals in received order.
  const places: number[] = [];
  for (let from = 0; from < count; from += 300) {
    const batch = ordinals.slice(from, from + 300);
    places.push(...batch.toSorted((a, b) => a - b));
    const periodEnd = (n: number) => NOW + (n % 3 === 0 ? 2 : 1) * DAY;
    await deliver(
      workspace.id,
      batch.map((n) => signal({ id: `sig_h${n}`, ordinal: n, verdict: "held", periodEnd: periodEnd(n) })),
    );
  }
  const found: number[] = [];
  for (let [cursor, isMore] = [0, true]; isMore;) {
    const page = await heldIn(workspace.id, NOW + DAY, cursor, 100);
    for (const { admission, from, place } of page) {
      const { ordinal: number } = admission;
      expect([admission.id, from, place]).toEqual([`sig_h${number}`, "held", places.indexOf(number) + 1]);
    }
    found.push(...page.map(({ admission }) => admission.ordinal));
    isMore = page.length > 0;
    cursor = found.at(-1) ?? 0;
  }
  expect(found).toEqual(numbers.filter((n) => n % 3 !== 0));
});

test("event groups appear once each if a day has more groups than are sorted at a time", async () => {
  await deliver(workspace.id, [signal({ event: "today" })]);
  const count = QUEUE_SCAN_GROUPS + 300;
  await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
    sql.exec(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
       INSERT INTO event_groups (event, source, count, held, anonymous, first_seen, last_seen, last_day, sample_id,
         sample_ordinal, sample_seq)
       SELECT 'event ' || (i % 700), 's' || i, 1 + i % 5, 0, 0, 1, ?2 + i % 97, 1, 'sig_x', 1, 999 FROM n`,
      count,
      DAY,
    );
  });
  const expected = ["web", ...Array.from({ length: count }, (_, n) => `s${n + 1}`)].toSorted();
  for (const read of [
    async (cursor: string | null) => workspace.store.queuePage({}, { cursor, limit: 190 }).then(({ groups }) => groups),
    async (cursor: string | null) => signalStore(env, workspace.id).events({ cursor, limit: 190 }),
  ]) {
    // oxlint-disable-next-line no-await-in-loop -- one after the other
    const sources = (await allItems<{ source: string }>(read)).map(({ source }) => source);
    expect(sources[0]).toBe("web");
    expect(sources.toSorted()).toEqual(expected);
  }
  expect(await signalStore(env, workspace.id).events({ cursor: "[1,2,3]", limit: 5 })).toEqual({
    items: [],
    next: null,
  });
});
