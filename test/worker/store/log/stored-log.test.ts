/** The stored log (src/store/log/stored-log.ts): its segments, and the rows that it reads and writes. */
import { describe, expect, test } from "vitest";
import { DAY_MS } from "../../../../src/domain/duration.ts";
import { hashBytes } from "../../../../src/domain/signal/canonical-form.ts";
import { newId } from "../../../../src/platform/ids.ts";
import { SEGMENT_MAX_BYTES } from "../../../../src/store/log/head.ts";
import type { SignalFacts } from "../../../../src/store/log/line.ts";
import { PORTION_MAX_LINES, readLine } from "../../../../src/store/log/signal-log.ts";
import { lineOf, storedLog } from "../../../support/log.ts";
import { rowsWritten } from "../../../support/sql-cost.ts";
import { inStore } from "../../../support/store.ts";

const NOW = Date.UTC(2026, 5, 1, 12);
const SECOND = 1_000;

const segmentsIn = (sql: SqlStorage) =>
  sql
    .exec<{ first_seq: number; last_seq: number; groups: ArrayBuffer }>(
      "SELECT * FROM signals_segments ORDER BY first_seq",
    )
    .toArray();

describe("a segment", () => {
  test("has a bounded number of lines and bytes, and a large signal has its own", () =>
    inStore(({ storage, sql }) => {
      const log = storedLog(storage);
      for (let n = 0; n < PORTION_MAX_LINES * 2 + 1; n++)
        log.append({ facts: lineOf(newId("sig", NOW)), payload: "{}" }, null);
      const lengths = segmentsIn(sql).map(({ first_seq, last_seq }) => last_seq - first_seq + 1);
      expect(lengths).toEqual([PORTION_MAX_LINES, PORTION_MAX_LINES]);
      const large = JSON.stringify("x".repeat(SEGMENT_MAX_BYTES - 1_000));
      log.append({ facts: lineOf(newId("sig", NOW)), payload: large }, null);
      log.append({ facts: lineOf(newId("sig", NOW)), payload: large }, null);
      expect(segmentsIn(sql)).toHaveLength(3);
      const event = "é".repeat(255);
      for (let n = 0; n < 400; n++)
        log.append({ facts: lineOf(newId("sig", NOW), { event: event + n, source: event }), payload: "{}" }, null);
      log.seal();
      for (const row of segmentsIn(sql)) expect(row.groups.byteLength).toBeLessThan(SEGMENT_MAX_BYTES * 2);
    }));

  test("has lines that were recorded on one day", () =>
    inStore(({ storage, sql }) => {
      const log = storedLog(storage);
      for (const day of [0, 0, 1, 1, 1, 0]) {
        const recordedAtMs = NOW + day * DAY_MS;
        log.append({ facts: lineOf(newId("sig", NOW), { recordedAtMs }), payload: "{}" }, null);
      }
      expect(segmentsIn(sql)).toMatchObject([
        { first_seq: 1, last_seq: 2 },
        { first_seq: 3, last_seq: 5 },
      ]);
    }));

  test("costs four rows, and a lone line one", () =>
    inStore(({ storage, sql }) => {
      const log = storedLog(storage);
      log.flush();
      const rowsOf = (act: () => void) =>
        rowsWritten(sql, () => {
          act();
          log.flush();
        });
      const append = (n: number) => log.append({ facts: lineOf(newId("sig", NOW + n)), payload: "{}" }, null);
      for (let n = 0; n < 300; n++) expect(rowsOf(() => append(n))).toBe(1);
      expect(rowsOf(() => log.seal())).toBe(5);
    }));

  test("without the wanted event, source or status is skipped", () =>
    inStore(({ storage }) => {
      const log = storedLog(storage);
      for (let n = 0; n < 200; n++) {
        const over: Partial<SignalFacts> =
          n === 17 ? { event: 'R"a,re', source: "x" } : n === 33 ? { status: "duplicate" } : {};
        log.append({ facts: lineOf(newId("sig", NOW), over), payload: null }, null);
        if (n % 10 === 9) log.seal();
      }
      const firsts = (walk: Iterable<{ firstSeq: number }>) => [...walk].map(({ firstSeq }) => firstSeq);
      expect(firsts(log.walk({ before: Number.MAX_SAFE_INTEGER }, { event: 'R"a,re' }))).toEqual([11]);
      expect(firsts(log.walk({ after: 0 }, { event: 'R"a,re', source: "x" }))).toEqual([11]);
      expect(firsts(log.walk({ after: 0 }, { event: 'R"a,re', source: "site" }))).toEqual([]);
      expect(firsts(log.walk({ after: 0 }, { status: "duplicate" }))).toEqual([31]);
      const [portion] = log.read([34]);
      if (portion === undefined) throw new Error("it is gone");
      log.rewrite(portion, new Map([[34, { ...portion.facts(34), status: "anonymous" }]]));
      expect(firsts(log.walk({ after: 0 }, { status: "duplicate" }))).toEqual([]);
      expect(firsts(log.walk({ after: 0 }, { status: "anonymous" }))).toEqual([31]);
      expect(firsts(log.walk({ after: 155 }))).toEqual([151, 161, 171, 181, 191]);
      expect(firsts(log.walk({ before: 36 }))).toEqual([31, 21, 11, 1]);
    }));
});

test("finds a line by its id although the first attempt to seal it was rolled back", () =>
  inStore(({ storage }) => {
    const log = storedLog(storage);
    const append = (ms: number) => log.append({ facts: lineOf(newId("sig", NOW + ms)), payload: null }, null);
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
    const id = readLine(log, seq)?.admission.id ?? "";
    expect(log.find(id)?.seq).toBe(seq);
  }));

test.each([
  ["without a time", "sig_none"],
  ["with a time", newId("sig", NOW)],
])("finds the newest line of an id %s, such as that of a replayed dead letter", (_, id) =>
  inStore(({ storage }) => {
    const log = storedLog(storage);
    const seqs = [1, 2, 3].map(() => {
      const seq = log.append({ facts: lineOf(id), payload: null }, null);
      log.seal();
      return seq;
    });
    expect(log.find(id)?.seq).toBe(seqs.at(-1));
  }),
);

test("does not rewrite open lines that were sealed meanwhile", () =>
  inStore(({ storage }) => {
    const log = storedLog(storage);
    const seq = log.append({ facts: lineOf("sig_1"), payload: "{}" }, null);
    const [read] = log.read([seq]);
    if (read === undefined) throw new Error("it is gone");
    log.seal();
    expect(log.isCurrent(read)).toBe(false);
    expect(() => log.rewrite(read, new Map([[seq, lineOf("sig_1", { linkedAtMs: 1 })]]))).toThrow("meanwhile");
  }));

test.each([
  ["long window has its first bit", 0, 11, "8000000000000000"],
  ["short window has no first bit", 255, 10, "7fffffffffffffff"],
])("the stored hash of a %s", (_, byte, minutes, stored) => {
  const contentHash = Buffer.alloc(32, byte).toString("base64url");
  expect(hashBytes(contentHash, minutes * 60_000).toHex()).toBe(stored);
});
