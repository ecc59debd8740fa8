/** The log (src/store/log): after each step it equals a plain array. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { newId } from "../../../../src/platform/ids.ts";
import type { Facts, ListingId } from "../../../../src/store/log/line.ts";
import { Log, SEGMENT_MAX_BYTES, SEGMENT_MAX_LINES } from "../../../../src/store/log/log.ts";
import { OCCURRED_FROM } from "../../../../src/domain/signal/occurred-at.ts";
import { HASH_BYTES } from "../../../../src/store/log/segment.ts";
import { amount } from "../../../support/amount.ts";
import { assertForSoLong } from "../../../support/for-so-long.ts";
import { rowsWritten } from "../../../support/sql-cost.ts";
import { inStore } from "../../../support/store.ts";

const NOW = Date.UTC(2026, 5, 1, 12);
const SECOND = 1_000;

function factsOf(id: string, over: Partial<Facts> = {}): Facts {
  return {
    admission: {
      id,
      keyId: "key_1",
      endpoint: "signal_staging",
      verdict: "accepted",
      ordinal: 7,
      signalLimit: 1_000,
      receivedAtMs: NOW,
      periodStartMs: NOW - 10,
      periodEndMs: NOW + 10,
    },
    recordedAtMs: NOW + 5,
    occurred: { ms: NOW, from: "received" },
    kind: "signal",
    status: "processed",
    event: "Visit",
    source: "site",
    email: null,
    userId: null,
    anonymousId: null,
    traits: {},
    person: null,
    listedBy: [],
    linkedAtMs: null,
    duplicateOf: null,
    rulesTried: 0,
    outcomes: [],
    deletedAtMs: null,
    ...over,
  };
}

const newLog = (sql: SqlStorage) => new Log(sql, "signals", { maxSpanMs: 0 });

const text = fc.string({ unit: "binary", maxLength: 20 });
const maybe = fc.option(text.filter((value) => value !== ""));
const facts: fc.Arbitrary<Omit<Facts, "admission">> = fc.record({
  recordedAtMs: fc.integer({ min: NOW, max: NOW + 100_000 }),
  occurred: fc.record({ ms: fc.integer({ min: 1, max: NOW }), from: fc.constantFrom(...OCCURRED_FROM) }),
  kind: fc.constantFrom("signal", "identify", "account"),
  status: fc.constantFrom("processed", "anonymous", "duplicate", "purged"),
  event: fc.oneof(fc.constantFrom("Visit", "Form"), text),
  source: text,
  email: maybe,
  userId: maybe,
  anonymousId: maybe,
  traits: fc.oneof(fc.constant({}), fc.record({ name: fc.constant("Ann"), title: text }), fc.record({ company: text })),
  person: fc.option(
    fc.record({ personId: fc.integer({ min: 1, max: 9 }), by: fc.constantFrom("email", "user_id", "anonymous_id") }),
  ),
  listedBy: fc.subarray<ListingId>(["user_id", "anonymous_id"]),
  linkedAtMs: fc.option(fc.integer({ min: 1, max: NOW })),
  duplicateOf: maybe,
  rulesTried: fc.nat(20),
  outcomes: fc.array(fc.integer({ min: 1, max: 900 }), { maxLength: 4 }),
  deletedAtMs: fc.option(fc.integer({ min: 1, max: NOW }), { freq: 9 }),
});
const line = fc.record({
  facts,
  payload: fc.option(fc.json()),
  hash: fc.option(
    fc.uint8Array({ minLength: HASH_BYTES, maxLength: HASH_BYTES }).filter((bytes) => bytes.some((byte) => byte !== 0)),
  ),
  /** Age of the id in seconds; null: the id contains no time. */
  ageSeconds: fc.option(fc.oneof(fc.nat(5), fc.nat(100_000)), { freq: 9 }),
  large: fc.boolean(),
});
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("append" as const),
      lines: fc.array(line, { minLength: 1, maxLength: 12 }),
      /** Makes many segments, so that ids of earlier times are late. */
      sealsEach: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("seal" as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("rewrite" as const),
      at: fc.array(fc.nat(), { minLength: 1, maxLength: 5 }),
      facts,
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("blank" as const), at: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("drop" as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("restart" as const) }) },
);
const steps = fc.array(fc.record({ step, fails: fc.integer({ min: 0, max: 7 }) }), { maxLength: 40 });

interface Kept {
  facts: Facts;
  payload: string | null;
  hash: Uint8Array | null;
}

describe("the log", () => {
  test("equals a plain array after every step and rollback", async () => {
    let sealed = 0;
    const enough = amount(0, 20);
    await assertForSoLong(
      fc.asyncProperty(steps, (all) =>
        inStore(({ storage }) => {
          const { sql } = storage;
          let log = newLog(sql);
          let model = new Map<number, Kept>();
          for (const [number, { step: action, fails }] of all.entries()) {
            const next = new Map(model);
            const act = () => {
              if (action.do === "append") {
                for (const { facts: made, payload, hash, ageSeconds, large } of action.lines) {
                  const id =
                    ageSeconds === null
                      ? `sig_${crypto.randomUUID()}`
                      : newId("sig", NOW + number * SECOND - ageSeconds * SECOND);
                  const whole = { ...factsOf(id), ...made };
                  const sent =
                    payload === null ? null : large ? JSON.stringify([payload, "x".repeat(30_000)]) : payload;
                  next.set(log.append({ facts: whole, payload: sent }, hash), { facts: whole, payload: sent, hash });
                  if (action.sealsEach) log.seal();
                }
              } else if (action.do === "seal") log.seal();
              else if (action.do === "rewrite") {
                const seqs = action.at.map((at) => [...next.keys()][at % next.size]).filter((seq) => seq !== undefined);
                for (const { segment, seqs: here } of log.segmentsOf(seqs)) {
                  const changes = new Map(
                    here.map((seq) => [seq, { ...action.facts, admission: segment.facts(seq).admission }] as const),
                  );
                  log.rewrite(segment, changes);
                  for (const [seq, changed] of changes) {
                    const isOriginal =
                      (changed.status === "processed" || changed.status === "anonymous") &&
                      changed.deletedAtMs === null;
                    const before = next.get(seq);
                    if (before !== undefined)
                      next.set(seq, { ...before, facts: changed, hash: isOriginal ? before.hash : null });
                  }
                }
              } else if (action.do === "blank") {
                const seq = [...next.keys()][action.at % next.size];
                const segment = seq === undefined ? null : log.segmentOf(seq);
                const before = seq === undefined ? undefined : next.get(seq);
                if (segment !== null && seq !== undefined && before !== undefined) {
                  log.blank(segment, [seq]);
                  next.set(seq, { ...before, payload: null });
                }
              } else if (action.do === "drop") {
                const [row] = log.rows("TRUE ORDER BY first_seq LIMIT 1");
                if (row !== undefined) {
                  log.drop(log.sealed(row));
                  for (let seq = row.first_seq; seq <= row.last_seq; seq++) next.delete(seq);
                }
              } else log = newLog(sql);
              log.flush();
              if (fails === 0) throw new Error("taken back");
            };
            try {
              storage.transactionSync(act);
              model = next;
            } catch (error) {
              expect(String(error)).toContain("taken back");
              log.reload();
            }
            check(log, model);
          }
          sealed += log.rows("TRUE").length;
          check(newLog(sql), model);
        }),
      ),
      { numRuns: 60, limitMs: 25_000, isSeen: () => sealed > enough },
    );
    expect(sealed).toBeGreaterThan(enough);
  });

  test("limits the lines and bytes of a segment, and gives a large signal its own segment", () =>
    inStore(({ sql }) => {
      const log = newLog(sql);
      for (let n = 0; n < SEGMENT_MAX_LINES * 2 + 1; n++)
        log.append({ facts: factsOf(newId("sig", NOW)), payload: "{}" }, null);
      const lengths = log.rows("TRUE").map(({ first_seq, last_seq }) => last_seq - first_seq + 1);
      expect(lengths).toEqual([SEGMENT_MAX_LINES, SEGMENT_MAX_LINES]);
      const large = JSON.stringify("x".repeat(SEGMENT_MAX_BYTES - 1_000));
      log.append({ facts: factsOf(newId("sig", NOW)), payload: large }, null);
      log.append({ facts: factsOf(newId("sig", NOW)), payload: large }, null);
      expect(log.rows("TRUE").length).toBe(3);
      const event = "é".repeat(255);
      for (let n = 0; n < 400; n++)
        log.append({ facts: factsOf(newId("sig", NOW), { event: event + n, source: event }), payload: "{}" }, null);
      log.seal();
      for (const row of log.rows("TRUE")) expect(row.groups.byteLength).toBeLessThan(SEGMENT_MAX_BYTES * 2);
    }));

  test("writes one row for a lone line, and four more for a segment", () =>
    inStore(({ sql }) => {
      const log = newLog(sql);
      log.flush();
      const rowsOf = (act: () => void) =>
        rowsWritten(sql, () => {
          act();
          log.flush();
        });
      const append = (n: number) => log.append({ facts: factsOf(newId("sig", NOW + n)), payload: "{}" }, null);
      for (let n = 0; n < 300; n++) expect(rowsOf(() => append(n))).toBe(1);
      expect(rowsOf(() => log.seal())).toBe(5);
    }));

  test("finds a line by its id although the first attempt to seal it was rolled back", () =>
    inStore(({ storage }) => {
      const log = newLog(storage.sql);
      const append = (ms: number) => log.append({ facts: factsOf(newId("sig", NOW + ms)), payload: null }, null);
      for (let segment = 1; segment <= 16; segment++) {
        append(segment * SECOND);
        log.seal();
      }
      const seq = append(1.5 * SECOND);
      log.flush();
      const fail = () => {
        log.seal();
        throw new Error("rolled back");
      };
      expect(() => storage.transactionSync(fail)).toThrow("rolled back");
      log.reload();
      log.seal();
      const id = log.read(seq)?.admission.id ?? "";
      expect(log.find(id)?.seq).toBe(seq);
    }));

  test.each([
    ["open lines that were rewritten", "open", "rewrite"],
    ["open lines that were sealed", "open", "seal"],
    ["a segment that was rewritten", "sealed", "rewrite"],
  ])("refuses to rewrite %s meanwhile", (_, where, meanwhile) =>
    inStore(({ sql }) => {
      const log = newLog(sql);
      const append = () => log.append({ facts: factsOf("sig_1"), payload: "{}" }, null);
      const seq = append();
      if (where === "sealed") log.seal();
      const read = log.segmentOf(seq);
      if (read === null) throw new Error("no segment");
      append();
      expect(log.isCurrent(read)).toBe(true);
      const change = () => log.rewrite(read, new Map([[seq, factsOf("sig_1", { linkedAtMs: 1 })]]));
      if (meanwhile === "seal") log.seal();
      else change();
      expect(log.isCurrent(read)).toBe(false);
      expect(change).toThrow("meanwhile");
    }),
  );

  test("skips segments without the wanted event, source or status", () =>
    inStore(({ sql }) => {
      const log = newLog(sql);
      for (let n = 0; n < 200; n++) {
        const over: Partial<Facts> =
          n === 17 ? { event: 'R"a,re', source: "x" } : n === 33 ? { status: "duplicate" } : {};
        log.append({ facts: factsOf(newId("sig", NOW), over), payload: null }, null);
        if (n % 10 === 9) log.seal();
      }
      const firsts = (walk: Iterable<{ firstSeq: number }>) => [...walk].map(({ firstSeq }) => firstSeq);
      expect(firsts(log.walkBack(Number.MAX_SAFE_INTEGER, { event: 'R"a,re' }))).toEqual([11]);
      expect(firsts(log.walk(0, { event: 'R"a,re', source: "x" }))).toEqual([11]);
      expect(firsts(log.walk(0, { event: 'R"a,re', source: "site" }))).toEqual([]);
      expect(firsts(log.walk(0, { status: "duplicate" }))).toEqual([31]);
      expect(log.segmentOf(15)?.seqsWith("event", 'R"a,re')).toEqual([18]);
      const [seq, segment] = [34, log.segmentOf(34)];
      if (segment === null) throw new Error("no segment");
      log.rewrite(segment, new Map([[seq, { ...segment.facts(seq), status: "anonymous" }]]));
      expect(firsts(log.walk(0, { status: "duplicate" }))).toEqual([]);
      expect(firsts(log.walk(0, { status: "anonymous" }))).toEqual([31]);
      expect(firsts(log.walk(155))).toEqual([151, 161, 171, 181, 191]);
      expect(firsts(log.walkBack(36))).toEqual([31, 21, 11, 1]);
    }));
});

function check(log: Log, model: ReadonlyMap<number, Kept>): void {
  const walked = [...log.walk(0)].flatMap((segment) => segment.seqs());
  expect(walked).toEqual([...model.keys()]);
  expect([...log.walkBack(Number.MAX_SAFE_INTEGER)].flatMap((segment) => segment.seqs().toReversed())).toEqual(
    walked.toReversed(),
  );
  expect(log.firstSeq).toBe(walked[0] ?? log.nextSeq);
  for (const [seq, { facts: kept, payload, hash }] of model) {
    const segment = log.segmentOf(seq);
    expect(segment?.facts(seq)).toEqual(kept);
    expect(log.find(kept.admission.id)).toEqual({ seq, facts: kept });
    if (segment === null) continue;
    expect(log.payloadsOf(segment)?.[seq - segment.firstSeq]).toBe(payload);
    const at = (seq - segment.firstSeq) * HASH_BYTES;
    expect([...log.hashesOf(segment.firstSeq).subarray(at, at + HASH_BYTES)]).toEqual([
      ...(hash ?? new Uint8Array(HASH_BYTES)),
    ]);
  }
  expect(log.find("sig_none")).toBeNull();
  expect(log.find(newId("sig", NOW))).toBeNull();
}
