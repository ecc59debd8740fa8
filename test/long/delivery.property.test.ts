/**
 * Invariants 1 and 5: with any order, repetition and split of the delivery, crashes, and other work of the store, its
 * content is the same.
 */
import { parsed } from "../../src/domain/json/json-value.ts";
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { signalStore } from "../../src/use-cases/objects.ts";
import { coldState, ring, ringUntilQuiet, withBindings } from "../support/cold.ts";
import { assertForSoLong } from "../support/for-so-long.ts";
import { expectLogged } from "../support/logged.ts";
import { expectToAddUp, expectDaysToAddUp, deadIn, heldIn } from "../support/read-store.ts";
import {
  DAY,
  MINUTE,
  consumeMessages,
  deliver,
  inOrder,
  messageOf,
  type Delivered,
  type Placed,
} from "../support/deliver.ts";
import { Faults, type Fault } from "../support/faults.ts";
import { newWorkspace, operator } from "../support/workspace.ts";

const START = Date.UTC(2026, 0, 10);
const PEOPLE = 3;
const emailOf = (person: number) => `person${person}@example.com`;

/** A sent signal or identify call. Each id belongs to one person, but a signal may carry ids of several. */
interface Received {
  kind: "identify" | "signal";
  person: number | null;
  userId: number | null;
  anonymousId: number | null;
  event: string;
  value: number;
  name: string | null;
  /** A message id: its duplicates are searched over days. */
  hasId: boolean;
  minute: number;
  /** Held for good; or held at first, and then released. */
  held: "never" | "for good" | "released";
}

const id = fc.option(fc.nat(PEOPLE - 1));
const common = {
  value: fc.nat(1),
  name: fc.option(fc.constantFrom("Ann", "Bob")),
  hasId: fc.boolean(),
  minute: fc.oneof(fc.nat(45), fc.constantFrom(24 * 60 - 1, 24 * 60, 7 * 24 * 60, 14 * 24 * 60)),
};
const anySignal: fc.Arbitrary<Received> = fc.record({
  ...common,
  kind: fc.constant("signal"),
  person: fc.option(fc.nat(PEOPLE - 1), { freq: 2 }),
  userId: id,
  anonymousId: id,
  event: fc.constantFrom("opened", "clicked"),
  held: fc.constantFrom("never", "never", "never", "never", "for good", "released"),
});
/** An identify; without an email it pairs its ids. */
const identify: fc.Arbitrary<Received> = fc
  .record({
    ...common,
    who: fc.nat(PEOPLE - 1),
    withEmail: fc.nat(2),
    ids: fc.constantFrom("user", "anonymous", "both"),
  })
  .map(({ who, withEmail, ids, ...rest }) => ({
    ...rest,
    kind: "identify",
    person: withEmail === 0 ? null : who,
    userId: ids === "anonymous" ? null : who,
    anonymousId: ids === "user" ? null : who,
    event: "identify",
    held: "never",
  }));
const history = fc.array(fc.oneof({ weight: 5, arbitrary: anySignal }, { weight: 3, arbitrary: identify }), {
  minLength: 1,
  maxLength: 24,
});
const PLACES = fc.nat(1_000);
/** A batch of the consumer, the fate of the calls made during it, and other work at the same time. */
const wave = fc.record({
  sizes: fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 3 }),
  faults: fc.array(fc.constantFrom<Fault[]>("none", "none", "none", "none", "before", "after"), { maxLength: 12 }),
  meanwhile: fc.constantFrom("nothing", "alarm", "restart", "apply", "delete a stranger"),
  /** The write at which the store's recording fails. */
  brokenAt: fc.option(fc.nat(15), { freq: 2 }),
});
/**
 * The places of a signal's deliveries in the sequence, including its deliveries as a dead letter, and the batches. A
 * list that is too short for the history repeats.
 */
const plan = fc.record({
  places: fc.array(
    fc.record({ at: fc.array(PLACES, { minLength: 1, maxLength: 2 }), buriedAt: fc.option(PLACES, { freq: 2 }) }),
    { minLength: 1, maxLength: 24 },
  ),
  waves: fc.array(wave, { minLength: 1, maxLength: 9 }),
});

function payloadOf(signal: Placed<Received>): Record<string, unknown> {
  const traits = signal.name === null ? {} : { name: signal.name };
  const email = signal.person === null ? {} : { email: emailOf(signal.person) };
  return {
    type: signal.kind === "identify" ? "identify" : "track",
    ...(signal.hasId ? { messageId: `m-${signal.ordinal}` } : { n: signal.ordinal }),
    ...(signal.userId === null ? {} : { userId: `user-${signal.userId}` }),
    ...(signal.anonymousId === null ? {} : { anonymousId: `anonymous-${signal.anonymousId}` }),
    ...(signal.kind === "identify"
      ? { traits: { ...traits, ...email } }
      : { event: signal.event, ...email, properties: { value: signal.value }, context: { traits } }),
  };
}

const RULES = [
  { name: "clicks", event: "clicked", conditions: [], scoring_signal: "click", points: 7 },
  {
    name: "unhappy",
    event: "*",
    conditions: [{ path: "properties.value", operator: "equals", value: 1 }],
    scoring_signal: "unhappy",
    points: -2,
  },
  { name: "daily", event: "opened", conditions: [], scoring_signal: "daily", points: 1_000, frequency: "once_per_day" },
  { name: "first", event: "*", conditions: [], scoring_signal: "first", points: 100_000, frequency: "once_ever" },
];
/** A rule on the email: with it, signals are evaluated only once their owner is known. */
const EMAIL_RULE = {
  name: "first",
  event: "opened",
  conditions: [{ path: "email", operator: "starts_with", value: "person0" }],
  scoring_signal: "first",
  points: 100,
};

/** Points from all rules, including rules that score a person once a day or once ever. */
function matchedPoints(signal: Placed<Received>, owner: string, withEmailRule: boolean): number {
  const limited = signal.kind === "identify" ? 0 : signal.event === "opened" ? 101_000 : 100_000;
  return pointsOf(signal, owner, withEmailRule) + limited;
}

/** Points from rules with a frequency, whichever signal counts. */
function limitedPoints(ownSignals: readonly Placed<Received>[]): number {
  const signals = ownSignals.filter((signal) => signal.kind === "signal");
  const days = new Set(
    signals.filter((signal) => signal.event === "opened").map((signal) => Math.floor(signal.at / DAY)),
  );
  return days.size * 1_000 + (signals.length > 0 ? 100_000 : 0);
}

/** Points from the other rules. */
function pointsOf(signal: Placed<Received>, owner: string, withEmailRule: boolean): number {
  let points = 0;
  if (signal.event === "clicked") points += 7;
  if (signal.kind === "signal" && signal.value === 1) points -= 2;
  if (withEmailRule && signal.event === "opened" && owner === emailOf(0)) points += 100;
  return points;
}

/** The expected result of the whole history, computed at once. */
function expected(signals: readonly Placed<Received>[], withEmailRule: boolean) {
  const accepted = signals.filter((signal) => signal.held !== "for good");
  const isNamed = (signal: Placed<Received>) =>
    signal.person !== null || signal.userId !== null || signal.anonymousId !== null;
  const links = new Map<string, number>();
  for (const signal of accepted) {
    if (signal.kind !== "identify" || signal.person === null) continue;
    if (signal.userId !== null) links.set(`user-${signal.userId}`, signal.person);
    if (signal.anonymousId !== null) links.set(`anonymous-${signal.anonymousId}`, signal.person);
  }
  for (const signal of accepted) {
    if (signal.kind !== "identify" || signal.person !== null || signal.userId === null || signal.anonymousId === null)
      continue;
    const [user, anonymous] = [`user-${signal.userId}`, `anonymous-${signal.anonymousId}`];
    const person = links.get(user) ?? links.get(anonymous);
    if (person === undefined) continue;
    links.set(user, person);
    links.set(anonymous, person);
  }
  const ownerOf = (signal: Placed<Received>): number | null =>
    signal.person ?? links.get(`user-${signal.userId}`) ?? links.get(`anonymous-${signal.anonymousId}`) ?? null;
  const isAnonymous = (signal: Placed<Received>) =>
    signal.kind === "signal" && isNamed(signal) && ownerOf(signal) === null;

  const people = [];
  for (let person = 0; person < PEOPLE; person++) {
    const personSignals = accepted.filter((signal) => ownerOf(signal) === person);
    if (personSignals.length === 0) continue;
    people.push({
      email: emailOf(person),
      name: personSignals.findLast((signal) => signal.name !== null)?.name ?? null,
      score: personSignals.reduce(
        (sum, signal) => sum + pointsOf(signal, emailOf(person), withEmailRule),
        limitedPoints(personSignals),
      ),
      firstSeenMs: personSignals[0]?.at,
      lastSeenMs: personSignals.at(-1)?.at,
      identities: [...links]
        .filter(([, owner]) => owner === person)
        .map(([value]) => value)
        .sort(),
    });
  }
  const shown = signals.filter((signal) => signal.kind === "signal");
  const groups = [...new Set(shown.map((signal) => signal.event))].sort().map((event) => {
    const all = shown.filter((signal) => signal.event === event);
    return {
      event,
      count: all.length,
      held: all.filter((signal) => signal.held === "for good").length,
      anonymous: all.filter((signal) => signal.held !== "for good" && isAnonymous(signal)).length,
      firstSeenMs: all[0]?.at,
      lastSeenMs: all.at(-1)?.at,
      sample: payloadOf(all.at(-1) ?? raise()),
    };
  });
  return {
    people,
    groups,
    totals: {
      processed: accepted.length,
      duplicates: 0,
      held: signals.length - accepted.length,
      purged: 0,
      deadLettered: 0,
    },
    signals: signals.map((signal) => ({
      id: signal.id,
      status: signal.held === "for good" ? "held" : isAnonymous(signal) ? "anonymous" : "processed",
      points:
        signal.held === "for good" || ownerOf(signal) === null
          ? 0
          : matchedPoints(signal, emailOf(ownerOf(signal) ?? 0), withEmailRule),
    })),
  };
}

async function actual(workspaceId: string, signals: readonly Placed<Received>[]) {
  const store = signalStore(env, workspaceId);
  const page = { cursor: null, limit: 100 };
  const people = (await store.people({}, page)).items;
  const groups = (await store.events(page)).items;
  const traces = await Promise.all(signals.map((signal) => store.signal(signal.id)));
  return {
    people: people
      .map(({ email, name, score, firstSeenMs, lastSeenMs, identities }) => {
        return { email, name, score, firstSeenMs, lastSeenMs, identities: identities.map(({ value }) => value).sort() };
      })
      .sort((a, b) => a.email.localeCompare(b.email)),
    groups: groups
      .map(({ event, count, held, anonymous, firstSeenMs, lastSeenMs, sample }) => {
        return { event, count, held, anonymous, firstSeenMs, lastSeenMs, sample: parsed(sample.payload) };
      })
      .sort((a, b) => a.event.localeCompare(b.event)),
    totals: await store.totals(),
    // Another signal may count for a rule that scores a person once, so that this is the sum of all matching rules.
    signals: traces.map((trace) => ({
      id: trace?.id,
      status: trace?.status,
      points: trace?.rulesMatched.reduce((sum, { points }) => sum + points, 0),
    })),
  };
}

interface Rules {
  workspaceId: string;
  ids: string[];
}

async function workspaceWithRules(withEmailRule: boolean): Promise<Rules> {
  const workspace = await newWorkspace();
  const ids: string[] = [];
  for (const rule of withEmailRule ? [...RULES, EMAIL_RULE] : RULES) {
    ids.push((await workspace.operator<{ id: string }>("POST", "/rules", { match: "all", ...rule })).id);
  }
  return { workspaceId: workspace.id, ids };
}

const PERIOD_END = Date.now() + DAY;

function toDeliver(signal: Placed<Received>, held = signal.held !== "never"): Delivered {
  return {
    id: signal.id,
    at: signal.at,
    ordinal: signal.ordinal,
    verdict: held ? "held" : "accepted",
    payload: payloadOf(signal),
    periodStart: START,
    periodEnd: PERIOD_END,
    head: { source: "site" },
  };
}

function raise(): never {
  throw new Error("there is none");
}

function nth<T>(list: readonly T[], index: number): T {
  return list[index % list.length] ?? raise();
}

/** A delivery of a signal by the queue; or by the dead-letter queue, from which it is replayed. */
interface Delivery {
  signal: Delivered;
  queue: "signals" | "signals-dlq";
  at: number;
}

function deliveriesOf(
  signal: Placed<Received>,
  { at: places, buriedAt }: { at: number[]; buriedAt: number | null },
): Delivery[] {
  const delivered = toDeliver(signal);
  const normal = places.map((at): Delivery => ({ signal: delivered, queue: "signals", at }));
  return buriedAt === null ? normal : [...normal, { signal: delivered, queue: "signals-dlq", at: buriedAt }];
}

/** Held signals to release and dead letters, each resent twice. */
async function resend(workspaceId: string, signals: readonly Placed<Received>[]): Promise<Delivery[]> {
  const released = new Map(
    signals.filter((signal) => signal.held === "released").map((signal) => [signal.id, signal] as const),
  );
  const held = await heldIn(workspaceId, PERIOD_END);
  const dead = await deadIn(workspaceId);
  return [...held.filter(({ admission }) => released.has(admission.id)), ...dead].flatMap(
    ({ admission, from, place: at }) => {
      const signal = signals.find((candidate) => candidate.id === admission.id) ?? raise();
      const isHeld = from === "dead" && admission.verdict === "held";
      const again: Delivered = { ...toDeliver(signal, isHeld), resent: { from, place: at } };
      return [1, 2].map((): Delivery => ({ signal: again, queue: "signals", at: 0 }));
    },
  );
}

const RECORDED = /^(INSERT INTO|UPDATE) (people|heads|signals_facts|event_groups|timelines)\b/;

/**
 * Makes a write of a recording fail, once. The object restarts then, which removes the fault. @returns a function
 * that prevents the failure.
 */
async function breakRecording(workspaceId: string, at: number): Promise<() => void> {
  let isArmed = true;
  await runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), (_, { storage: { sql } }) => {
    const exec = sql.exec.bind(sql);
    let writes = 0;
    sql.exec = ((query: string, ...bindings: unknown[]) => {
      if (isArmed && RECORDED.test(query) && writes++ === at) throw new Error("broken");
      return exec(query, ...bindings);
    }) as typeof sql.exec;
  });
  return () => (isArmed = false);
}

/** An interrupted call may still hold the object: then eviction fails or never ends. */
const EVICTION_MS = 2_000;

/** Evicts the store, or kills it if eviction fails. */
async function restart(workspaceId: string): Promise<void> {
  const stub = env.SIGNAL_STORE.getByName(workspaceId);
  const evicted = evictDurableObject(stub).then(
    () => true,
    () => false,
  );
  const isLate = new Promise<boolean>((resolve) => setTimeout(resolve, EVICTION_MS, false));
  if (await Promise.race([evicted, isLate])) return;
  await runInDurableObject(stub, (_, ctx) => ctx.abort("killed")).catch(() => {});
}

/** An action during which the object may restart. */
async function unlessBroken(act: () => Promise<unknown>): Promise<void> {
  await act().catch((error: unknown) => expect(String(error)).toMatch(/could not be recorded|broken|: 503 /));
}

/** Resends the messages until they are acknowledged. */
async function consumeUntilDone(workspaceId: string, deliveries: readonly Delivery[], faults: Faults): Promise<void> {
  for (const queue of ["signals", "signals-dlq"] as const) {
    const signals = deliveries.filter((delivery) => delivery.queue === queue).map((delivery) => delivery.signal);
    if (signals.length === 0) continue;
    const bodies = [messageOf(workspaceId, signals)];
    const bindings = faults.forConsumer();
    while ((await consumeMessages(bodies, { queue, bindings })).retryMessages.length > 0);
  }
}

/** Other work of the store, which must not change the result of the history. */
async function meanwhileDo(action: string, { workspaceId, ids }: Rules): Promise<void> {
  if (action === "alarm") await unlessBroken(() => ring(workspaceId));
  else if (action === "apply") {
    for (const ruleId of ids) {
      await unlessBroken(() => operator("POST", `/workspaces/${workspaceId}/rules/${ruleId}/apply`));
    }
    await unlessBroken(() => ring(workspaceId));
  } else if (action === "delete a stranger") {
    await unlessBroken(() =>
      signalStore(env, workspaceId).deletePerson(`del_${crypto.randomUUID()}`, "stranger@example.com"),
    );
  }
}

test("§8, invariants 1 and 5: any order, repetition and split, by concurrent consumers with crashes at every await, gives the people, links, scores, groups and totals of the history", async () => {
  expectLogged();
  let fromCold = 0;
  await assertForSoLong(
    fc.asyncProperty(history, plan, fc.boolean(), async (received, { places, waves }, withEmailRule) => {
      const signals = inOrder(received, START);
      const deliveries = signals
        .flatMap((signal, index) => deliveriesOf(signal, nth(places, index)))
        .sort((a, b) => a.at - b.at);
      const rules = await workspaceWithRules(withEmailRule);
      const { workspaceId } = rules;
      for (let number = 0; deliveries.length > 0; number++) {
        const { sizes, faults: made, meanwhile, brokenAt } = nth(waves, number);
        const faults = new Faults(made);
        await withBindings(workspaceId);
        if (meanwhile === "restart") await restart(workspaceId);
        if (number % 3 === 2) deliveries.push(...(await resend(workspaceId, signals)));
        await withBindings(workspaceId, faults.forStore());
        const repair = brokenAt === null ? null : await breakRecording(workspaceId, brokenAt);
        await Promise.all([
          ...sizes.map((size) => consumeUntilDone(workspaceId, deliveries.splice(0, size), faults)),
          meanwhileDo(meanwhile, rules),
        ]);
        // The reads of the test itself update rows, too.
        repair?.();
      }
      fromCold += (await coldState(workspaceId)).cold.length;
      await withBindings(workspaceId);
      await restart(workspaceId);
      for (let left = await resend(workspaceId, signals); left.length > 0;) {
        await consumeUntilDone(workspaceId, left, new Faults([]));
        left = await resend(workspaceId, signals);
      }
      await ringUntilQuiet(workspaceId);
      expect(await actual(workspaceId, signals)).toEqual(expected(signals, withEmailRule));
      await expectToAddUp(workspaceId);
      await expectDaysToAddUp(workspaceId);
      // The alarm must have work whenever it rings.
      await ring(workspaceId, { setNext: true });
      const alarmMs = await runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), (_, { storage }) =>
        storage.getAlarm(),
      );
      expect(alarmMs ?? Number.POSITIVE_INFINITY).toBeGreaterThan(Date.now() + MINUTE);
      const { keys, objects } = await coldState(workspaceId);
      expect(keys).toEqual(objects.map(({ key }) => `cold/${workspaceId}/${key}`));
    }),
    { numRuns: 60, limitMs: 25_000, isSeen: () => fromCold > 0 },
  );
  expect(fromCold).toBeGreaterThan(0);
}, 90_000);

test("§8: one signal after the other, in order and once, gives the people, links, scores, groups and totals of the history", async () => {
  await assertForSoLong(
    fc.asyncProperty(history, fc.boolean(), async (received, withEmailRule) => {
      const signals = inOrder(received, START);
      const { workspaceId } = await workspaceWithRules(withEmailRule);
      for (const signal of signals) await deliver(workspaceId, [toDeliver(signal)]);
      for (const { signal: again } of await resend(workspaceId, signals)) await deliver(workspaceId, [again]);
      await ringUntilQuiet(workspaceId);
      expect(await actual(workspaceId, signals)).toEqual(expected(signals, withEmailRule));
    }),
    { numRuns: 20, limitMs: 10_000 },
  );
});

test("§11.5: twins in any order and split leave at least one original per window and at most one per receipt, and the books balance", async () => {
  const twins = fc.array(fc.nat(60), { minLength: 1, maxLength: 12 });
  const order = fc.array(fc.nat(1_000), { minLength: 12, maxLength: 12 });
  await assertForSoLong(
    fc.asyncProperty(twins, order, fc.integer({ min: 1, max: 4 }), async (minutes, places, size) => {
      const { workspaceId } = await workspaceWithRules(false);
      const signals = minutes
        .toSorted((a, b) => a - b)
        .map((minute, index): Delivered => {
          const payload = { type: "track", userId: "user-1", event: "clicked", properties: { value: 0 } };
          return { id: `sig_${index}`, at: START + minute * MINUTE, ordinal: index + 1, payload, periodStart: START };
        });
      const shuffled = signals.toSorted((a, b) => nth(places, a.ordinal ?? 0) - nth(places, b.ordinal ?? 0));
      for (let at = 0; at < shuffled.length; at += size) await deliver(workspaceId, shuffled.slice(at, at + size));
      const store = signalStore(env, workspaceId);
      const traces = await Promise.all(signals.map(({ id: sought }) => store.signal(sought)));
      const originals = traces.filter((trace) => trace?.status === "anonymous");
      for (const trace of traces) {
        const original = originals.find((signal) => signal?.id === (trace?.duplicateOf ?? trace?.id));
        // Every duplicate is within the window of an original, so that its content is not lost.
        expect(Math.abs((original?.receivedAtMs ?? 0) - (trace?.receivedAtMs ?? 0))).toBeLessThanOrEqual(10 * MINUTE);
      }
      const times = originals.map((signal) => signal?.receivedAtMs ?? 0).sort((a, b) => a - b);
      for (const [index, time] of times.slice(1).entries())
        expect(time - (times[index] ?? 0)).toBeGreaterThan(10 * MINUTE);
      await expectToAddUp(workspaceId);
    }),
    { numRuns: 40, limitMs: 10_000 },
  );
});

test("§11.5: signals of an id with two emails go to the claim in force in received order, however they are split into bodies and batches", async () => {
  const call = fc.oneof(
    fc.constantFrom<string[]>("a@example.com", "b@example.com", "c@example.com"),
    fc.constant(null),
    fc.constant(null),
  );
  await assertForSoLong(
    fc.asyncProperty(
      fc.array(call, { minLength: 1, maxLength: 16 }),
      fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 8 }),
      fc.boolean(),
      async (calls, sizes, oneCommit) => {
        const { workspaceId } = await workspaceWithRules(false);
        const signals = calls.map((email, index): Delivered => {
          const payload =
            email === null
              ? {
                  type: "track",
                  event: "clicked",
                  anonymousId: "visitor-1",
                  messageId: `m${index}`,
                  properties: { value: 0 },
                }
              : { type: "identify", anonymousId: "visitor-1", traits: { email }, messageId: `m${index}` };
          return {
            id: `sig_${index}`,
            payload,
            at: START + (oneCommit ? 0 : index),
            ordinal: index + 1,
            periodStart: START,
          };
        });
        for (let at = 0, number = 0; at < signals.length; number++) {
          const size = nth(sizes, number);
          await deliver(workspaceId, signals.slice(at, at + size));
          at += size;
        }
        await ringUntilQuiet(workspaceId);
        const scores = new Map<string, number>();
        const firstEmail = calls.find((email) => email !== null) ?? null;
        let inForce = firstEmail;
        for (const email of calls) {
          if (email !== null) {
            inForce = email;
            scores.set(email, scores.get(email) ?? 0);
          } else if (inForce !== null) {
            // A person's first signal scores by the rule that scores once ever.
            const before = scores.get(inForce) ?? 0;
            scores.set(inForce, before + (before === 0 ? 100_007 : 7));
          }
        }
        const { items } = await signalStore(env, workspaceId).people({}, { cursor: null, limit: 10 });
        expect(Object.fromEntries(items.map(({ email, score }) => [email, score]))).toEqual(Object.fromEntries(scores));
        await expectToAddUp(workspaceId);
      },
    ),
    { numRuns: 40, limitMs: 10_000 },
  );
});
