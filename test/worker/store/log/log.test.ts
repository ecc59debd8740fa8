/** The log (src/store/log): whatever is appended, sealed, rewritten, moved, dropped and read again is what a plain array says. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SEGMENT_MAX_LINES, SEGMENT_MAX_BYTES } from "../../../../src/store/log/head.ts";
import { newId } from "../../../../src/platform/ids.ts";
import { ColdObjects } from "../../../../src/store/log/cold-objects.ts";
import { moveToCold, removeObjects, scrubObject, COLD_AFTER_MS } from "../../../../src/store/log/cold.ts";
import { scrubCold } from "../../../../src/store/log/cold-removals.ts";
import { afterDeletion } from "../../../../src/store/log/line-remains.ts";
import type { Facts, ListingId } from "../../../../src/store/log/line.ts";
import { Log } from "../../../../src/store/log/log.ts";
import { readPayloads } from "../../../../src/store/log/payloads.ts";
import { HASH_BYTES } from "../../../../src/store/log/segment.ts";
import { amount } from "../../../support/amount.ts";
import { assertForSoLong } from "../../../support/for-so-long.ts";

const NOW = Date.UTC(2026, 5, 1, 12);
const SECOND = 1_000;

/** A storage of its own, with the tables of the store. */
function inStore<T>(act: (storage: DurableObjectStorage, workspaceId: string) => T | Promise<T>): Promise<T> {
  const id = crypto.randomUUID();
  return runInDurableObject(env.SIGNAL_STORE.getByName(id), (_, { storage }) => act(storage, id));
}

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
    kind: "signal",
    status: "processed",
    event: "Visit",
    source: "site",
    email: null,
    userId: null,
    anonymousId: null,
    traits: {},
    owner: null,
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
const maybe = fc.option(text.filter((one) => one !== ""));
const facts: fc.Arbitrary<Omit<Facts, "admission">> = fc.record({
  recordedAtMs: fc.integer({ min: NOW, max: NOW + 100_000 }),
  kind: fc.constantFrom("signal", "identify", "account"),
  status: fc.constantFrom("processed", "anonymous", "duplicate", "purged"),
  event: fc.oneof(fc.constantFrom("Visit", "Form"), text),
  source: text,
  email: maybe,
  userId: maybe,
  anonymousId: maybe,
  traits: fc.oneof(fc.constant({}), fc.record({ name: fc.constant("Ann"), title: text }), fc.record({ company: text })),
  owner: fc.option(
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
  /** How long ago its id was given, in seconds; null: the id tells no time. */
  ageSeconds: fc.option(fc.oneof(fc.nat(5), fc.nat(100_000)), { freq: 9 }),
  large: fc.boolean(),
});
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("append" as const),
      lines: fc.array(line, { minLength: 1, maxLength: 12 }),
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
  test("says what a plain array says, after every step, and after those that were taken back", async () => {
    let sealed = 0;
    const enough = amount(0, 20);
    await assertForSoLong(
      fc.asyncProperty(steps, (all) =>
        inStore((storage) => {
          const { sql } = storage;
          let log = newLog(sql);
          let model = new Map<number, Kept>();
          for (const [number, { step: one, fails }] of all.entries()) {
            const next = new Map(model);
            const act = () => {
              if (one.do === "append") {
                for (const { facts: made, payload, hash, ageSeconds, large } of one.lines) {
                  const id =
                    ageSeconds === null
                      ? `sig_${crypto.randomUUID()}`
                      : newId("sig", NOW + number * SECOND - ageSeconds * SECOND);
                  const whole = { ...factsOf(id), ...made };
                  const sent =
                    payload === null ? null : large ? JSON.stringify([payload, "x".repeat(30_000)]) : payload;
                  next.set(log.append({ facts: whole, payload: sent }, hash), { facts: whole, payload: sent, hash });
                }
              } else if (one.do === "seal") log.seal();
              else if (one.do === "rewrite") {
                const seqs = one.at.map((at) => [...next.keys()][at % next.size]).filter((seq) => seq !== undefined);
                for (const { segment, seqs: here } of log.segmentsOf(seqs)) {
                  const changes = new Map(
                    here.map((seq) => [seq, { ...one.facts, admission: segment.facts(seq).admission }] as const),
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
              } else if (one.do === "blank") {
                const seq = [...next.keys()][one.at % next.size];
                const segment = seq === undefined ? null : log.segmentOf(seq);
                const before = seq === undefined ? undefined : next.get(seq);
                if (segment !== null && seq !== undefined && before !== undefined) {
                  log.blank(segment, [seq]);
                  next.set(seq, { ...before, payload: null });
                }
              } else if (one.do === "drop") {
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

  test("a segment has at most so many lines, and so many bytes before it is compressed; one large signal has one of its own", () =>
    inStore(({ sql }) => {
      const log = newLog(sql);
      for (let n = 0; n < SEGMENT_MAX_LINES * 2 + 1; n++)
        log.append({ facts: factsOf(newId("sig", NOW)), payload: "{}" }, null);
      expect(log.rows("TRUE").map(({ first_seq, last_seq }) => last_seq - first_seq + 1)).toEqual([
        SEGMENT_MAX_LINES,
        SEGMENT_MAX_LINES,
      ]);
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

  test("what hardly repeats itself is kept like everything else, facts and payloads", () =>
    inStore(({ sql }) => {
      const noise = () => Buffer.from(crypto.getRandomValues(new Uint8Array(30_000))).toString("base64");
      const log = newLog(sql);
      const payloads = [noise(), noise()].map((one) => JSON.stringify(one));
      const names = [noise(), noise()];
      const seqs = payloads.map((payload, index) =>
        log.append({ facts: factsOf(newId("sig", NOW), { traits: { name: names[index] ?? "" } }), payload }, null),
      );
      log.seal();
      log.flush();
      const read = newLog(sql);
      for (const [index, seq] of seqs.entries()) {
        const segment = read.segmentOf(seq);
        if (segment === null) throw new Error("no segment");
        expect(segment.facts(seq).traits).toEqual({ name: names[index] });
        expect(read.payloadsOf(segment)?.[seq - segment.firstSeq]).toBe(payloads[index]);
      }
    }));

  test("a lone line writes one row, whatever is open already; a segment four more", () =>
    inStore(({ sql }) => {
      const log = newLog(sql);
      log.flush();
      const exec = sql.exec.bind(sql);
      let rows = 0;
      sql.exec = ((query: string, ...bindings: unknown[]) => {
        const cursor = exec(query, ...bindings);
        if (!query.startsWith("SELECT")) rows += cursor.rowsWritten;
        return cursor;
      }) as typeof sql.exec;
      for (let n = 0; n < 300; n++) {
        rows = 0;
        log.append({ facts: factsOf(newId("sig", NOW + n)), payload: "{}" }, null);
        log.flush();
        expect(rows).toBe(1);
      }
      rows = 0;
      log.seal();
      log.flush();
      expect(rows).toBe(5);
      sql.exec = exec;
    }));

  test("a rewritten segment that has been rewritten meanwhile is refused", () =>
    inStore(({ sql }) => {
      const log = newLog(sql);
      const seq = log.append({ facts: factsOf("sig_1"), payload: "{}" }, null);
      log.seal();
      const read = log.segmentOf(seq);
      if (read === null) throw new Error("no segment");
      log.rewrite(read, new Map([[seq, factsOf("sig_1", { linkedAtMs: 1 })]]));
      expect(log.isCurrent(read)).toBe(false);
      expect(() => log.rewrite(read, new Map([[seq, factsOf("sig_1")]]))).toThrow("meanwhile");
    }));

  test("what is found by event, source or status passes over the segments that have none", () =>
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
      expect(firsts(log.walk(0, { status: "duplicate" }))).toEqual([31]);
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

describe("cold storage", () => {
  const fill = (log: Log, segments: number, at = NOW) => {
    const ids: string[] = [];
    for (let n = 0; n < segments; n++) {
      for (let each = 0; each < 3; each++) {
        const made = factsOf(newId("sig", at));
        ids.push(made.admission.id);
        log.append(
          {
            facts: { ...made, admission: { ...made.admission, receivedAtMs: at } },
            payload: JSON.stringify({ n, each }),
          },
          null,
        );
      }
      log.seal();
    }
    log.flush();
    return ids;
  };
  const read = async (log: Log, objects: ColdObjects) => {
    const wanted = [...log.walk(0)].map((segment) => ({
      segment,
      seqs: segment.seqs(),
    }));
    return readPayloads(log, objects, wanted);
  };

  test("payloads that are old move into one object of their day, and are read from there", () =>
    inStore(async (storage, id) => {
      const log = newLog(storage.sql);
      const objects = new ColdObjects(env.COLD, id);
      fill(log, 4);
      const work = { storage, log, objects };
      await moveToCold(work, NOW + COLD_AFTER_MS - 1);
      expect(log.rows("cold IS NOT NULL")).toEqual([]);
      const before = await read(log, objects);
      await moveToCold(work, NOW + COLD_AFTER_MS);
      expect(log.rows("cold IS NOT NULL").length).toBe(4);
      expect(new Set(log.rows("TRUE").map(({ cold }) => cold)).size).toBe(1);
      expect(storage.sql.exec("SELECT * FROM signals_payloads").toArray()).toEqual([]);
      expect(await read(newLog(storage.sql), objects)).toEqual(before);
      expect(before.size).toBe(12);
      expect((await env.COLD.list({ prefix: `cold/${id}/` })).objects.length).toBe(1);
    }));

  test("what is deleted is in no object any more once they say so, whenever it was deleted", () =>
    inStore(async (storage, id) => {
      const log = newLog(storage.sql);
      const objects = new ColdObjects(env.COLD, id);
      const [first = ""] = fill(log, 3);
      const work = { storage, log, objects };
      await moveToCold(work, NOW + COLD_AFTER_MS);
      const found = log.find(first);
      const segment = log.segmentOf(found?.seq ?? 0);
      if (found === null || segment?.row === null || segment === null) throw new Error("not there");
      log.rewrite(segment, new Map([[found.seq, afterDeletion(found.facts, NOW)]]));
      scrubCold(storage.sql, [segment]);
      expect(await scrubObject(work)).toBe(true);
      expect(await scrubObject(work)).toBe(false);
      await removeObjects(work, NOW);
      const payloads = await read(log, objects);
      expect(payloads.get(1)).toBeNull();
      expect(payloads.get(2)).toBe('{"n":0,"each":1}');
      expect(payloads.get(9)).toBe('{"n":2,"each":2}');
      const { objects: left } = await env.COLD.list({ prefix: `cold/${id}/` });
      expect(left.length).toBe(1);
      expect(storage.sql.exec("SELECT state FROM cold_objects").toArray()).toEqual([{ state: "stored" }]);
    }));

  test("what is deleted while its object is being written is not used, and removed", () =>
    inStore(async (storage, id) => {
      const log = newLog(storage.sql);
      const [first = ""] = fill(log, 2);
      const bucket = new Proxy(env.COLD, {
        get: (target, name) =>
          name === "put"
            ? async (...given: Parameters<R2Bucket["put"]>) => {
                const found = log.find(first);
                const segment = log.segmentOf(found?.seq ?? 0);
                if (found !== null && segment !== null && found.facts.deletedAtMs === null) {
                  log.rewrite(segment, new Map([[found.seq, afterDeletion(found.facts, NOW)]]));
                  log.blank(segment, [found.seq]);
                }
                return target.put(...given);
              }
            : (Reflect.get(target, name) as () => unknown).bind(target),
      });
      const work = { storage, log, objects: new ColdObjects(bucket, id) };
      await moveToCold(work, NOW + COLD_AFTER_MS);
      expect(storage.sql.exec("SELECT state FROM cold_objects").toArray()).toEqual([{ state: "removing" }]);
      await removeObjects(work, NOW);
      await moveToCold(work, NOW + COLD_AFTER_MS);
      expect((await read(log, work.objects)).get(1)).toBeNull();
      expect(log.rows("cold IS NOT NULL").length).toBe(2);
      expect((await env.COLD.list({ prefix: `cold/${id}/` })).objects.length).toBe(1);
    }));
});
