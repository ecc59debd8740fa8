/**
 * Invariants 1 and 5: whatever the order, repetition and split of the delivery, whoever crashes where, and whenever
 * signals are moved to cold storage, the store says the same.
 */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { signalStore } from "../../src/workspace/objects.ts";
import { coldState, ring, ringUntilQuiet, withBindings } from "./cold.ts";
import { expectDaysToAddUp } from "./days.ts";
import { DAY, MINUTE, consumeMessages, deliver, messageOf } from "./deliver.ts";
import type { Delivered } from "./deliver.ts";
import { Faults } from "./faults.ts";
import type { Fault } from "./faults.ts";
import { expectTimelinesOf, spillTimelines } from "./timelines.ts";
import { newWorkspace } from "./workspace.ts";

const START = Date.UTC(2026, 0, 10);
const PEOPLE = 3;
const emailOf = (person: number) => `person${person}@example.com`;

/** What a sender sent. Ids belong to one person each, but a signal may carry those of several. */
interface Content {
  kind: "identify" | "signal";
  person: number | null;
  userId: number | null;
  anonymousId: number | null;
  event: string;
  value: number;
  name: string | null;
  /** An id of its own: its duplicates are looked for over days. */
  messageId: string | null;
}

interface Received extends Content {
  minute: number;
  held: boolean;
  /** Held at first, and then released. */
  released: boolean;
}

const id = fc.option(fc.nat(PEOPLE - 1));
const common = {
  value: fc.nat(1),
  name: fc.option(fc.constantFrom("Ann", "Bob")),
  messageId: fc.option(fc.constantFrom("m1", "m2"), { freq: 2 }),
};
const signal: fc.Arbitrary<Content> = fc.record({
  ...common,
  kind: fc.constant("signal"),
  person: fc.option(fc.nat(PEOPLE - 1), { freq: 2 }),
  userId: id,
  anonymousId: id,
  event: fc.constantFrom("opened", "clicked"),
});
const identify: fc.Arbitrary<Content> = fc
  .record({
    ...common,
    who: fc.nat(PEOPLE - 1),
    withEmail: fc.nat(4),
    ids: fc.constantFrom("user", "anonymous", "both"),
  })
  .map(({ who, withEmail, ids, ...rest }) => ({
    ...rest,
    kind: "identify",
    person: withEmail === 0 ? null : who,
    userId: ids === "anonymous" ? null : who,
    anonymousId: ids === "user" ? null : who,
    event: "identify",
  }));
/** Times at and around the ends of both windows. */
const minute = fc.oneof(
  { weight: 6, arbitrary: fc.nat(45) },
  { weight: 2, arbitrary: fc.constantFrom(0, 5, 10, 20, 30) },
  { weight: 1, arbitrary: fc.constantFrom(7 * 24 * 60, 7 * 24 * 60 + 1, 14 * 24 * 60) },
);
/** Beyond the limit some are held; here all of one content lie within its window. */
const beyond: fc.Arbitrary<Received> = fc.record({
  ...common,
  kind: fc.constant("signal"),
  minute: fc.nat(10),
  person: fc.option(fc.nat(PEOPLE - 1)),
  userId: fc.constant(null),
  anonymousId: fc.constant(0),
  event: fc.constant("beyond"),
  held: fc.boolean(),
  released: fc.constant(false),
});
/** Which of two alike was there first when one is released is up to the admin: so these are like no other. */
const released: fc.Arbitrary<Received> = fc
  .record({ ...common, minute, anonymousId: id, event: fc.constantFrom("opened", "clicked") })
  .map((made) => ({ ...made, kind: "signal", person: null, userId: null, held: false, released: true }));
/** Few contents, each received several times. */
const history: fc.Arbitrary<Received[]> = fc
  .record({
    contents: fc.array(fc.oneof({ weight: 5, arbitrary: signal }, { weight: 3, arbitrary: identify }), {
      minLength: 1,
      maxLength: 8,
    }),
    receipts: fc.array(fc.record({ which: fc.nat(7), minute }), { minLength: 1, maxLength: 20 }),
    beyond: fc.array(beyond, { maxLength: 4 }),
    released: fc.array(released, { maxLength: 3 }),
  })
  .map((made) => [
    ...made.receipts.flatMap(({ which, minute: at }) => {
      const content = made.contents[which % made.contents.length];
      return content === undefined ? [] : [{ ...content, minute: at, held: false, released: false }];
    }),
    ...made.beyond,
    ...made.released.map((one, index) => ({ ...one, messageId: `released-${index}` })),
  ]);
const PLACES = fc.nat(1_000);
/** What a consumer is given at once, what becomes of the calls that are made meanwhile, and what else goes on. */
const wave = fc.record({
  sizes: fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 3 }),
  faults: fc.array(fc.constantFrom<Fault[]>("none", "none", "none", "none", "before", "after"), { maxLength: 12 }),
  meanwhile: fc.constantFrom("nothing", "alarm", "restart"),
  /** At which of its writes the store's recording breaks down. */
  brokenAt: fc.option(fc.nat(15), { freq: 2 }),
});
/**
 * Where in the sequence a signal is delivered, and maybe buried as a dead letter; and how all is delivered. What is too
 * short for a history begins anew.
 */
const plan = fc.record({
  places: fc.array(
    fc.record({ at: fc.array(PLACES, { minLength: 1, maxLength: 2 }), buriedAt: fc.option(PLACES, { freq: 2 }) }),
    { minLength: 1, maxLength: 27 },
  ),
  waves: fc.array(wave, { minLength: 1, maxLength: 9 }),
});

function payloadOf(one: Received): Record<string, unknown> {
  const traits = one.name === null ? {} : { name: one.name };
  const email = one.person === null ? {} : { email: emailOf(one.person) };
  return {
    type: one.kind === "identify" ? "identify" : "track",
    ...(one.messageId === null ? {} : { messageId: one.messageId }),
    ...(one.userId === null ? {} : { userId: `user-${one.userId}` }),
    ...(one.anonymousId === null ? {} : { anonymousId: `anonymous-${one.anonymousId}` }),
    ...(one.kind === "identify"
      ? { traits: { ...traits, ...email } }
      : { event: one.event, ...email, properties: { value: one.value }, context: { traits } }),
  };
}

interface Placed extends Received {
  id: string;
  ordinal: number;
  at: number;
}

/** In order of receipt; several have the same time, as those of one commit do. */
function place(received: readonly Received[]): Placed[] {
  return received
    .toSorted((a, b) => a.minute - b.minute)
    .map((one, index) => ({ ...one, id: `sig_${index}`, ordinal: index + 1, at: START + one.minute * MINUTE }));
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
];
/** With it, no signal is judged before its owner is known. */
const EMAIL_RULE = {
  name: "first",
  event: "opened",
  conditions: [{ path: "email", operator: "starts_with", value: "person0" }],
  scoring_signal: "first",
  points: 100,
};

function pointsOf(one: Placed, owner: string, withEmailRule: boolean): number {
  let points = 0;
  if (one.event === "clicked") points += 7;
  if (one.kind === "signal" && one.value === 1) points -= 2;
  if (withEmailRule && one.event === "opened" && owner === emailOf(0)) points += 100;
  return points;
}

/** The whole history at once, with nothing incremental. */
function expected(signals: readonly Placed[], withEmailRule: boolean) {
  const accepted = signals.filter((one) => !one.held);
  const contentOf = (one: Placed) => JSON.stringify(payloadOf(one));
  const originals: Placed[] = [];
  const originalOf = new Map<Placed, Placed>();
  for (const one of accepted) {
    const named = one.person !== null || one.userId !== null || one.anonymousId !== null;
    const window = one.messageId === null ? 10 * MINUTE : 7 * DAY;
    const before = originals.find((other) => contentOf(other) === contentOf(one) && one.at - other.at <= window);
    if (before === undefined || (!named && one.messageId === null)) originals.push(one);
    else originalOf.set(one, before);
  }
  const held = new Map<string, Placed>();
  for (const one of signals.filter((other) => other.held)) {
    if (accepted.some((other) => contentOf(other) === contentOf(one))) continue;
    if (!held.has(contentOf(one))) held.set(contentOf(one), one);
  }

  const links = new Map<string, number>();
  for (const one of originals) {
    if (one.kind !== "identify" || one.person === null) continue;
    if (one.userId !== null) links.set(`user-${one.userId}`, one.person);
    if (one.anonymousId !== null) links.set(`anonymous-${one.anonymousId}`, one.person);
  }
  const ownerOf = (one: Placed): number | null =>
    one.person ??
    (one.kind === "identify"
      ? null
      : (links.get(`user-${one.userId}`) ?? links.get(`anonymous-${one.anonymousId}`) ?? null));
  const named = (one: Placed) => one.person !== null || one.userId !== null || one.anonymousId !== null;
  const isAnonymous = (one: Placed) => one.kind === "signal" && named(one) && ownerOf(one) === null;

  const people = [];
  for (let person = 0; person < PEOPLE; person++) {
    const own = originals.filter((one) => ownerOf(one) === person);
    if (own.length === 0) continue;
    people.push({
      email: emailOf(person),
      name: own.findLast((one) => one.name !== null)?.name ?? null,
      score: own.reduce((sum, one) => sum + pointsOf(one, emailOf(person), withEmailRule), 0),
      firstSeenMs: own[0]?.at,
      lastSeenMs: own.at(-1)?.at,
      identities: [...links]
        .filter(([, owner]) => owner === person)
        .map(([value]) => value)
        .sort(),
    });
  }
  const shown = signals.filter((one) => one.kind === "signal");
  const groups = [...new Set(shown.map((one) => one.event))].sort().map((event) => {
    const all = shown.filter((one) => one.event === event);
    const kept = originals.filter((one) => one.kind === "signal" && one.event === event);
    const keptHeld = [...held.values()].filter((one) => one.event === event);
    return {
      event,
      count: kept.length + keptHeld.length,
      held: keptHeld.length,
      anonymous: kept.filter(isAnonymous).length,
      firstSeenMs: all[0]?.at,
      lastSeenMs: all.at(-1)?.at,
      sample: payloadOf(all.at(-1) ?? all[0] ?? raise()),
    };
  });
  return {
    people,
    groups,
    totals: {
      processed: originals.length,
      duplicates: signals.length - originals.length - held.size,
      held: held.size,
      purged: 0,
      deadLettered: 0,
    },
    signals: accepted.map((one) => ({
      id: one.id,
      status: originalOf.has(one) ? "duplicate" : isAnonymous(one) ? "anonymous" : "processed",
      duplicateOf: originalOf.get(one)?.id ?? null,
      points:
        ownerOf(one) === null || originalOf.has(one) ? 0 : pointsOf(one, emailOf(ownerOf(one) ?? 0), withEmailRule),
    })),
  };
}

async function actual(workspaceId: string, signals: readonly Placed[]) {
  const store = signalStore(env, workspaceId);
  const page = { cursor: null, limit: 100 };
  const people = (await store.people({}, page)).items;
  const groups = (await store.events(page)).items;
  const traces = await Promise.all(signals.filter((one) => !one.held).map((one) => store.signal(one.id)));
  return {
    people: people
      .map(({ email, name, score, firstSeenMs, lastSeenMs, identities }) => {
        return { email, name, score, firstSeenMs, lastSeenMs, identities: identities.map(({ value }) => value).sort() };
      })
      .sort((a, b) => a.email.localeCompare(b.email)),
    groups: groups
      .map(({ event, count, held, anonymous, firstSeenMs, lastSeenMs, sample }) => {
        return { event, count, held, anonymous, firstSeenMs, lastSeenMs, sample: sample.payload };
      })
      .sort((a, b) => a.event.localeCompare(b.event)),
    totals: await store.totals(),
    signals: traces.map((trace) => ({
      id: trace?.id,
      status: trace?.status,
      duplicateOf: trace?.duplicateOf,
      points: trace?.points,
    })),
  };
}

async function workspaceWithRules(withEmailRule: boolean): Promise<string> {
  const workspace = await newWorkspace();
  for (const rule of withEmailRule ? [...RULES, EMAIL_RULE] : RULES) {
    await workspace.operator("POST", "/rules", { match: "all", ...rule });
  }
  return workspace.id;
}

function toDeliver(one: Placed): Delivered {
  return {
    id: one.id,
    at: one.at,
    ordinal: one.ordinal,
    verdict: one.held ? "held" : "accepted",
    payload: payloadOf(one),
    periodStart: START,
    periodEnd: Date.now() + DAY,
    envelope: { source: "site" },
  };
}

function raise(): never {
  throw new Error("a group without signals");
}

function nth<T>(list: readonly T[], index: number): T {
  return list[index % list.length] ?? raise();
}

/** A delivery of one signal by the queue; or by the dead-letter queue, from where it is replayed. */
interface Delivery {
  signal: Delivered;
  queue: "signals" | "signals-dlq";
  at: number;
}

function deliveriesOf(one: Placed, { at: places, buriedAt }: { at: number[]; buriedAt: number | null }): Delivery[] {
  const delivered = toDeliver(one);
  const normal = places.map((at): Delivery => ({ signal: delivered, queue: "signals", at }));
  // Held, and maybe delivered so once more, late, when it has long been released.
  const asHeld = { ...delivered, verdict: "held" as const };
  const held = places.map((at): Delivery => ({ signal: asHeld, queue: "signals", at: 999 - at }));
  const buried: Delivery[] = buriedAt === null ? [] : [{ signal: delivered, queue: "signals-dlq", at: buriedAt }];
  return [...normal, ...(one.released ? held : []), ...buried];
}

const RECORDED = /^INSERT INTO (signals|event_groups|totals)\b/;

/** A write of a recording fails, once: the object ends there, and with it what makes it fail. */
async function breakRecording(workspaceId: string, at: number): Promise<void> {
  await runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), (_, { storage: { sql } }) => {
    const exec = sql.exec.bind(sql);
    let writes = 0;
    sql.exec = ((query: string, ...bindings: unknown[]) => {
      if (RECORDED.test(query) && writes++ === at) throw new Error("broken");
      return exec(query, ...bindings);
    }) as typeof sql.exec;
  });
}

/** Rings the alarm, in the middle of which the object may end. */
async function ringUnlessBroken(workspaceId: string): Promise<void> {
  await ring(workspaceId).catch((error: unknown) => expect(String(error)).toContain("could not be recorded"));
}

/** Delivered again and again until it is acknowledged. */
async function consumeUntilDone(workspaceId: string, deliveries: readonly Delivery[], faults: Faults): Promise<void> {
  for (const queue of ["signals", "signals-dlq"] as const) {
    const signals = deliveries.filter((one) => one.queue === queue).map((one) => one.signal);
    if (signals.length === 0) continue;
    const bodies = [messageOf(workspaceId, signals)];
    const bindings = faults.forConsumer();
    while ((await consumeMessages(bodies, { queue, bindings })).retryMessages.length > 0);
  }
}

test("§8, invariants 1 and 5: any order, repetition and split, by concurrent consumers with crashes at every await, gives the people, links, scores, groups and totals of the history", async () => {
  let fromCold = 0;
  await fc.assert(
    fc.asyncProperty(history, plan, fc.boolean(), async (received, { places, waves }, withEmailRule) => {
      const signals = place(received);
      const deliveries = signals
        .flatMap((one, index) => deliveriesOf(one, nth(places, index)))
        .sort((a, b) => a.at - b.at);
      const workspaceId = await workspaceWithRules(withEmailRule);
      for (let number = 0; deliveries.length > 0; number++) {
        const { sizes, faults: made, meanwhile, brokenAt } = nth(waves, number);
        const faults = new Faults(made);
        await withBindings(workspaceId);
        if (meanwhile === "restart") {
          await spillTimelines(workspaceId);
          await evictDurableObject(env.SIGNAL_STORE.getByName(workspaceId));
        }
        await withBindings(workspaceId, faults.forStore());
        if (brokenAt !== null) await breakRecording(workspaceId, brokenAt);
        await Promise.all([
          ...sizes.map((size) => consumeUntilDone(workspaceId, deliveries.splice(0, size), faults)),
          meanwhile === "alarm" ? ringUnlessBroken(workspaceId) : null,
        ]);
      }
      fromCold += (await coldState(workspaceId)).cold.length;
      await withBindings(workspaceId);
      await evictDurableObject(env.SIGNAL_STORE.getByName(workspaceId));
      await ringUntilQuiet(workspaceId);
      expect(await actual(workspaceId, signals)).toEqual(expected(signals, withEmailRule));
      await expectDaysToAddUp(workspaceId);
      await expectTimelinesOf(workspaceId);
      const { keys, objects } = await coldState(workspaceId);
      expect(keys).toEqual(objects.map((object) => `cold/${workspaceId}/${object.id}`));
    }),
    { numRuns: 60, interruptAfterTimeLimit: 20_000, markInterruptAsFailure: false },
  );
  expect(fromCold).toBeGreaterThan(0);
}, 60_000);

test("§8: one signal after the other, in order and once, gives the same", async () => {
  await fc.assert(
    fc.asyncProperty(history, fc.boolean(), async (received, withEmailRule) => {
      const signals = place(received);
      const workspaceId = await workspaceWithRules(withEmailRule);
      for (const one of signals) await deliver(workspaceId, [toDeliver(one)]);
      expect(await actual(workspaceId, signals)).toEqual(expected(signals, withEmailRule));
    }),
    { numRuns: 20, interruptAfterTimeLimit: 10_000, markInterruptAsFailure: false },
  );
}, 60_000);
