/** What the store expects of a log (src/store/log/signal-log.ts), of both logs: after each step they equal an array of lines. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { OCCURRED_FROM } from "../../../../src/domain/signal/occurred-at.ts";
import { LINE_STATUSES } from "../../../../src/domain/signal/signal.ts";
import { newId } from "../../../../src/platform/ids.ts";
import {
  afterRetention,
  isDropped,
  isOriginal,
  keepsPayload,
  type SignalFacts,
  type ListingId,
} from "../../../../src/store/log/line.ts";
import { HASH_BYTES } from "../../../../src/domain/signal/canonical-form.ts";
import {
  readLine,
  type SignalLogName,
  type Portion,
  type SignalLog,
  type WantedLines,
} from "../../../../src/store/log/signal-log.ts";
import { StoredSignalLog } from "../../../../src/store/log/stored-log.ts";
import { amount } from "../../../support/amount.ts";
import { assertForSoLong } from "../../../support/for-so-long.ts";
import { lineOf, storedLog } from "../../../support/log.ts";
import { PlainSignalLog } from "../../../support/plain-log.ts";
import { inStore } from "../../../support/store.ts";

const NOW = Date.UTC(2026, 5, 1, 12);
const SECOND = 1_000;
const WINDOW_MS = 10 * SECOND;

type Open = (storage: DurableObjectStorage, name?: SignalLogName) => SignalLog;

const LOGS: [name: string, open: Open][] = [
  ["the stored log", (storage, name = "signals") => storedLog(storage, name)],
  ["the plain log", (storage, name = "signals") => new PlainSignalLog(storage.sql, name, { count: 0 })],
];

const EVENTS = ["Visit", "Form", 'R"a,re', "é\u0000"];
const EMAILS = ["ann@example.com", "bob@example.com"];
const text = fc.string({ unit: "binary", maxLength: 20 });
const maybe = fc.option(text.filter((value) => value !== ""));
const facts: fc.Arbitrary<Omit<SignalFacts, "admission">> = fc.record({
  recordedAtMs: fc.integer({ min: NOW, max: NOW + 200_000_000 }),
  occurred: fc.record({ ms: fc.integer({ min: 1, max: NOW }), from: fc.constantFrom(...OCCURRED_FROM) }),
  kind: fc.constantFrom("signal", "identify", "account"),
  status: fc.constantFrom(...LINE_STATUSES),
  event: fc.oneof(fc.constantFrom(...EVENTS), maybe),
  source: maybe,
  email: fc.oneof(fc.constantFrom(...EMAILS), maybe),
  userId: maybe,
  anonymousId: fc.oneof(fc.uuid(), maybe),
  traits: fc.oneof(fc.constant({}), fc.record({ name: fc.constant("Ann"), title: text }), fc.record({ company: text })),
  person: fc.option(
    fc.record({ personId: fc.integer({ min: 1, max: 9 }), by: fc.constantFrom("email", "user_id", "anonymous_id") }),
  ),
  timelineIds: fc.subarray<ListingId>(["user_id", "anonymous_id"]),
  linkedAtMs: fc.option(fc.integer({ min: 1, max: NOW })),
  linkedRulesVersion: fc.option(fc.nat(1_000)),
  duplicateOf: maybe,
  sameId: fc.boolean(),
  rulesTried: fc.nat(20),
  outcomes: fc.array(fc.integer({ min: 1, max: 4 }), { maxLength: 3 }),
  excludedBy: fc.constantFrom(null, "exc_1", "exc_2"),
  problems: fc.oneof(fc.constant({}), fc.record({ id: text }), fc.record({ email: text, time: text })),
  mapped: fc.boolean(),
  topic: maybe,
  deletedAtMs: fc.option(fc.integer({ min: 1, max: NOW }), { freq: 9 }),
});
const line = fc.record({
  facts,
  payload: fc.json(),
  hash: fc.option(
    fc.uint8Array({ minLength: HASH_BYTES, maxLength: HASH_BYTES }).filter((bytes) => bytes.some((byte) => byte !== 0)),
  ),
  /** Age of the id in seconds; null: the id contains no time. */
  ageSeconds: fc.option(fc.oneof(fc.nat(5), fc.nat(100_000)), { freq: 9 }),
  ordinal: fc.integer({ min: 1, max: 1_000 }),
  large: fc.boolean(),
});
const chosen = fc.array(fc.nat(), { minLength: 1, maxLength: 5 });
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
  { weight: 4, arbitrary: fc.record({ do: fc.constant("rewrite" as const), at: chosen, facts }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("drop" as const), at: chosen }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("drop the first" as const), lines: fc.nat(30) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("restart" as const) }) },
);
const steps = fc.array(fc.record({ step, fails: fc.integer({ min: 0, max: 7 }) }), { maxLength: 40 });

interface Kept {
  facts: SignalFacts;
  payload: string | null;
  hash: string | null;
}
/** By number, ascending. A dropped line is gone. */
type Model = Map<number, Kept>;

describe.each(LOGS)("%s", (_, open) => {
  test("equals an array after every step and rollback", async () => {
    let lines = 0;
    const enough = amount(0, 200);
    await assertForSoLong(
      fc.asyncProperty(steps, (all) =>
        inStore(async ({ storage }) => {
          const life = new Life(open, storage);
          for (const [number, { step: action, fails }] of all.entries()) {
            life.take(action, NOW + number * SECOND, fails === 0);
            await life.check();
          }
          lines += life.model.size;
          life.restart();
          await life.check();
        }),
      ),
      { numRuns: 60, limitMs: 15_000, isSeen: () => lines > enough },
    );
    expect(lines).toBeGreaterThan(enough);
  });

  test("keeps its other data with the lines, and takes both back together", () =>
    inStore(({ storage }) => {
      const log = open(storage);
      expect(log.meta).toMatchObject({ count: 0 });
      Object.assign(log.meta, { count: 1 });
      log.append({ facts: lineOf("sig_1"), payload: "{}" }, null);
      log.flush();
      Object.assign(log.meta, { count: 2 });
      log.append({ facts: lineOf("sig_2"), payload: "{}" }, null);
      log.reload();
      expect([log.meta, log.nextSeq, open(storage).nextSeq]).toEqual([expect.objectContaining({ count: 1 }), 2, 2]);
    }));

  test.each([
    ["open lines that were rewritten", "open", "rewrite"],
    ["a portion that was rewritten", "sealed", "rewrite"],
  ])("does not rewrite %s meanwhile", (_name, where) =>
    inStore(({ storage }) => {
      const log = open(storage);
      const append = () => log.append({ facts: lineOf("sig_1"), payload: "{}" }, null);
      const seq = append();
      if (where === "sealed") seal(log);
      const [read] = log.read([seq]);
      if (read === undefined) throw new Error("it is gone");
      append();
      expect(log.isCurrent(read)).toBe(true);
      const change = () => log.rewrite(read, new Map([[seq, lineOf("sig_1", { linkedAtMs: 1 })]]));
      change();
      expect(log.isCurrent(read)).toBe(false);
      expect(change).toThrow("meanwhile");
    }),
  );

  test("gives held lines by ordinal, and says when the next of them end", () =>
    inStore(({ storage }) => {
      const log = open(storage, "held");
      expect(log.earliest()).toEqual({ receivedMs: null, wholeMs: null, periodEndMs: null });
      const held = (ordinal: number, periodEndMs: number): SignalFacts => {
        const made = lineOf(newId("sig", NOW + ordinal), { status: "held" });
        return { ...made, admission: { ...made.admission, ordinal, periodEndMs, receivedAtMs: NOW + ordinal } };
      };
      for (const [ordinal, end] of [
        [31, 40],
        [32, 50],
        [11, 30],
        [12, 60],
        [1, 40],
        [22, 20],
      ] as const) {
        log.append({ facts: held(ordinal, NOW + end), payload: `{"o":${ordinal}}` }, null);
        if (ordinal % 2 === 0) seal(log);
      }
      const ordinals = (after: number) => {
        const firsts: number[] = [];
        const all = [...log.walk({ afterOrdinal: after })].flatMap((portion) => {
          const here = portion.seqs.map((seq) => portion.facts(seq).admission.ordinal);
          firsts.push(Math.min(...here));
          return here;
        });
        // The open lines come first, whatever their ordinals.
        expect(firsts.slice(1)).toEqual(firsts.slice(1).toSorted((a, b) => a - b));
        return all.filter((ordinal) => ordinal > after).toSorted((a, b) => a - b);
      };
      expect(ordinals(0)).toEqual([1, 11, 12, 22, 31, 32]);
      expect(ordinals(12)).toEqual([22, 31, 32]);
      expect(log.earliest()).toMatchObject({ receivedMs: NOW + 1, periodEndMs: NOW + 20 });
      const [portion] = log.read([6]);
      if (portion === undefined) throw new Error("it is gone");
      log.rewrite(portion, new Map([[6, { ...portion.facts(6), status: "purged" }]]));
      expect(log.earliest().periodEndMs).toBe(NOW + 30);
      expect(log.payloadsOf(portion)?.[6 - portion.firstSeq] ?? null).toBeNull();
    }));
});

type Action = typeof step extends fc.Arbitrary<infer T> ? T : never;

class Life {
  readonly #open: Open;
  readonly #storage: DurableObjectStorage;
  log: SignalLog;
  model: Model = new Map();

  constructor(open: Open, storage: DurableObjectStorage) {
    this.#open = open;
    this.#storage = storage;
    this.log = open(storage);
  }

  restart(): void {
    this.log = this.#open(this.#storage);
  }

  take(action: Action, nowMs: number, isTakenBack: boolean): void {
    const next: Model = new Map(this.model);
    const act = (): void => {
      this.#act(action, nowMs, next);
      this.log.flush();
      if (isTakenBack) throw new Error("taken back");
    };
    try {
      this.#storage.transactionSync(act);
      this.model = next;
    } catch (error) {
      expect(String(error)).toContain("taken back");
      this.log.reload();
    }
  }

  #act(action: Action, nowMs: number, next: Model): void {
    const pick = (at: readonly number[]) => at.flatMap((place) => [...next.keys()][place % next.size] ?? []);
    switch (action.do) {
      case "append":
        for (const made of action.lines) {
          this.#append(made, nowMs, next);
          if (action.sealsEach) seal(this.log);
        }
        return;
      case "seal":
        return seal(this.log);
      case "rewrite":
        return this.#rewrite(pick(action.at), (before) => rewritten(before, action.facts), next);
      case "drop":
        return this.#rewrite(pick(action.at), afterRetention, next);
      case "drop the first":
        return this.#rewrite([...next.keys()].slice(0, action.lines), afterRetention, next);
      case "restart":
        this.restart();
    }
  }

  #append(made: typeof line extends fc.Arbitrary<infer T> ? T : never, nowMs: number, next: Model): void {
    const { ageSeconds, ordinal } = made;
    const id = ageSeconds === null ? `sig_${crypto.randomUUID()}` : newId("sig", nowMs - ageSeconds * SECOND);
    const { admission } = lineOf(id);
    const whole: SignalFacts = { ...made.facts, admission: { ...admission, ordinal, receivedAtMs: nowMs } };
    const sent = made.large ? JSON.stringify([made.payload, "x".repeat(30_000)]) : made.payload;
    const payload = keepsPayload(whole) ? sent : null;
    const hash = isOriginal(whole) ? made.hash : null;
    next.set(this.log.append({ facts: whole, payload }, hash), { facts: whole, payload, hash: hash?.toHex() ?? null });
  }

  #rewrite(seqs: readonly number[], change: (facts: SignalFacts) => SignalFacts, next: Model): void {
    for (const portion of this.log.read(seqs)) {
      const changes = new Map(portion.seqs.map((seq) => [seq, change(portion.facts(seq))] as const));
      this.log.rewrite(portion, changes);
      for (const [seq, after] of changes) {
        const before = next.get(seq);
        if (before === undefined) throw new Error(`line ${seq} is not in the model`);
        if (isDropped(after)) next.delete(seq);
        else {
          const payload = keepsPayload(before.facts) && !keepsPayload(after) ? null : before.payload;
          next.set(seq, { facts: after, payload, hash: isOriginal(after) ? before.hash : null });
        }
      }
    }
  }

  async check(): Promise<void> {
    const { log, model } = this;
    const all = [...model.keys()];
    expect(seqsOf(log.walk({ after: 0 }))).toEqual(all);
    expect(seqsBack(log.walk({ before: Number.MAX_SAFE_INTEGER }))).toEqual(all.toReversed());
    const middle = all[Math.floor(all.length / 2)] ?? 0;
    expect(seqsOf(log.walk({ after: middle }))).toEqual(all.filter((seq) => seq > middle));
    expect(seqsBack(log.walk({ before: middle }))).toEqual(all.filter((seq) => seq < middle).toReversed());
    expect(log.firstSeq).toBeLessThanOrEqual(all[0] ?? log.nextSeq);
    if (all.length === 0) expect([log.firstSeq, log.earliest().receivedMs]).toEqual([log.nextSeq, null]);
    this.#checkWalks();
    for (const [seq, { facts: kept, payload }] of model) {
      expect(readLine(log, seq)).toEqual(kept);
      expect(log.find(kept.admission.id)).toEqual({ seq, facts: kept });
      const [portion] = log.read([seq]);
      expect(portion && log.payloadsOf(portion)?.[seq - portion.firstSeq]).toBe(payload);
    }
    expect(readLine(log, log.nextSeq)).toBeNull();
    for (const id of ["sig_none", newId("sig", NOW), ""]) expect(log.find(id)).toBeNull();
    const lines = [...log.read(all)].map((portion) => ({ portion, seqs: portion.seqs }));
    expect([...(await log.readPayloads(lines))].toSorted(([a], [b]) => a - b)).toEqual(
      [...model].map(([seq, { payload }]) => [seq, payload]),
    );
    this.#checkOriginals();
    const received = [...model.values()].map(({ facts: { admission } }) => admission.receivedAtMs);
    expect(log.earliest().receivedMs).toBe(received.length === 0 ? null : Math.min(...received));
  }

  /** By event, outcomes and email a walk chooses lines; by the others it may skip only portions without such lines. */
  #checkWalks(): void {
    const { log, model } = this;
    const lines = [...model].map(([seq, kept]) => ({ seq, ...kept.facts }));
    const source = lines.find((one) => one.source !== null && one.event !== null)?.source ?? "site";
    const seqs = (isWanted: (one: (typeof lines)[number]) => boolean) => lines.filter(isWanted).map(({ seq }) => seq);
    for (const event of EVENTS) {
      const ofEvent = seqs((one) => one.event === event);
      expect(seqsOf(log.walk({ after: 0 }, { event }))).toEqual(ofEvent);
      expect(seqsOf(log.walk({ after: 0 }, { event: (other) => other === event }))).toEqual(ofEvent);
      const scored = seqs((one) => one.event === event || one.outcomes.includes(2));
      expect(seqsOf(log.walk({ after: 0 }, { event, outcomes: new Set([2]) }))).toEqual(scored);
      const ofSource = seqs((one) => one.event === event && one.source === source);
      expect(seqsOf(log.walk({ after: 0 }, { event, source }))).toEqual(expect.arrayContaining(ofSource));
    }
    for (const email of EMAILS) {
      const theirs = seqs((one) => one.email === email);
      expect(seqsBack(log.walk({ before: Number.MAX_SAFE_INTEGER }, { email }))).toEqual(theirs.toReversed());
    }
    const contains = (wanted: WantedLines, expected: readonly number[]): void =>
      expect(seqsOf(log.walk({ after: 0 }, wanted))).toEqual(expect.arrayContaining([...expected]));
    for (const status of LINE_STATUSES)
      contains(
        { status },
        seqs((one) => one.status === status),
      );
    const [sinceMs, untilMs] = [NOW + 3 * SECOND, NOW + 8 * SECOND];
    contains(
      { sinceMs, untilMs },
      seqs(({ admission: { receivedAtMs: at } }) => at >= sinceMs && at < untilMs),
    );
    const received = { wholly: 0, partly: NOW + 5 * SECOND };
    contains(
      { received },
      seqs(({ admission }) => admission.receivedAtMs < received.partly),
    );
  }

  #checkOriginals(): void {
    const { log, model } = this;
    const latest = [...model].slice(-20);
    const candidates = latest.flatMap(
      ([
        ,
        {
          hash,
          facts: { admission },
        },
      ]) =>
        hash === null
          ? []
          : [
              {
                hash: Uint8Array.fromHex(hash),
                receivedAtMs: admission.receivedAtMs + WINDOW_MS,
                windowMs: WINDOW_MS,
                isResent: true,
              },
              { hash: Uint8Array.fromHex(hash), receivedAtMs: admission.receivedAtMs + 1, windowMs: 0, isResent: true },
            ],
    );
    const found = log.findOriginals(candidates, NOW + 60 * SECOND);
    for (const [index, { hash, receivedAtMs, windowMs }] of candidates.entries()) {
      const original = found[index] ?? null;
      const sameLine = original === null ? undefined : model.get(original.seq);
      // Several lines may have the same hash.
      expect(sameLine?.hash ?? null).toBe(windowMs === 0 ? null : hash.toHex());
      if (sameLine === undefined) continue;
      expect(original?.id).toBe(sameLine.facts.admission.id);
      expect(Math.abs(sameLine.facts.admission.receivedAtMs - receivedAtMs)).toBeLessThanOrEqual(windowMs);
    }
  }
}

/** Nothing gives a sameLine another event or source. */
function rewritten({ admission, event, source }: SignalFacts, change: Omit<SignalFacts, "admission">): SignalFacts {
  const isNamed = change.deletedAtMs === null;
  return { ...change, admission, event: isNamed ? event : null, source: isNamed ? source : null };
}

function seqsOf(portions: Iterable<Portion>): number[] {
  return [...portions].flatMap(({ seqs }) => seqs);
}

/** The latest first. */
function seqsBack(portions: Iterable<Portion>): number[] {
  return [...portions].flatMap(({ seqs }) => seqs.toReversed());
}

function seal(log: SignalLog): void {
  if (log instanceof StoredSignalLog || log instanceof PlainSignalLog) log.seal();
}
