/**
 * The traffic of the store bench. Of sixty signals, thirty are from unknown visitors and twenty-one from known people.
 * Six are identify calls, and three repeat the content of an earlier signal. Two of three known people send their
 * email, the rest a user id. Each sender comes again only after all others, so that a batch rarely contains a sender
 * twice: one row per signal, the worst case. One in ten identify calls identifies a visitor with about four earlier
 * signals over four days; in the traffic `unlinked` none does. Ids are UUIDs, as CDPs send them. Signal `n` is always
 * the same.
 */
import type { FillOrder } from "./fill-order.ts";
import { EVENTS, SOURCES, chance, emailOf, receivedAtMs } from "./growth-traffic.ts";
import type { BenchRule } from "./rules.ts";

export interface Group {
  event: string;
  source: string;
}

/** Signals a day: a million in five days. */
export const SIGNALS_A_DAY = 200_000;
/** A person whose signals are spread evenly over the filled traffic. */
export const HEAVY_PERSON = { email: "heavy@example.com", signals: 1_000 };
/** An unknown visitor with the same spread: of a million signals, each in a separate segment. */
export const SPREAD_VISITOR = { id: "5b0d4a3e-9f63-4a51-8c1e-2f4f1f1b7a01", signals: 2_000 };

const CYCLE = 60;
/** Slots in a cycle: the first slots belong to them, in this order. */
const BY_EMAIL = 14;
const KNOWN = 21;
const ANONYMOUS = 30;
const IDENTIFY = 6;
/** Coprime with CYCLE, so that neighbours are of different kinds. */
const STRIDE = 7;
const STRIDE_INVERSE = 43;
/** Signals of an anonymous visitor. */
const VISITOR_SIGNALS = 4;
const VISITORS_PER_PERSON = 1.25;
/** One in this many identify calls identifies a visitor; the others repeat known facts. */
const NEWLY_KNOWN_EVERY = 10;
/** A repetition comes within about five minutes. */
const REPEATED_WITHIN = 300;
/**
 * Cumulative frequency of the events by Zipf's law: the first event is a quarter of the traffic, the first ten are
 * two thirds.
 */
const SHARES = EVENTS.map((_, rank) => (rank + 1) ** -1.2);
for (let rank = 1; rank < SHARES.length; rank++) SHARES[rank] = (SHARES[rank] ?? 0) + (SHARES[rank - 1] ?? 0);
/** Each rule requires one of these values, so that a third of all signals match one of twenty rules. */
const STAGES = 60;

/** As sent. */
export function mixedPayloadOf(n: number, order: FillOrder): string {
  const spread = spreadOf(n, order);
  if (spread === HEAVY_PERSON) return byEmail(n, HEAVY_PERSON.email, 0);
  if (spread === SPREAD_VISITOR) return track(n, order, { anonymousId: SPREAD_VISITOR.id });

  const { people } = order.size;
  const cycle = Math.floor(n / CYCLE);
  let slot = slotOf(n);
  if (slot < BY_EMAIL) {
    const person = scattered(cycle * BY_EMAIL + slot, people);
    return byEmail(n, emailOf(person), person);
  }
  if (slot < KNOWN) {
    const person = scattered(cycle * (KNOWN - BY_EMAIL) + slot - BY_EMAIL, people);
    return track(n, order, { anonymousId: uuidOf(person, 11), userId: uuidOf(person, 12) });
  }
  slot -= KNOWN;
  if (slot < ANONYMOUS) return track(n, order, { anonymousId: visitorOf(cycle * ANONYMOUS + slot, people).id });
  slot -= ANONYMOUS;
  if (slot < IDENTIFY) return identify(n, cycle * IDENTIFY + slot, order);
  return mixedPayloadOf(repeatedBy(n), order);
}

/** Numbers of the signals of the spread person or visitor. */
export function spreadNumbers(whose: typeof HEAVY_PERSON | typeof SPREAD_VISITOR, order: FillOrder): number[] {
  const filled = Array.from({ length: order.size.signals }, (_, n) => n);
  return filled.filter((n) => spreadOf(n, order) === whose);
}

/** An event and a source that people name. */
export function mixedGroup(index: number): Group {
  const n = ((index % BY_EMAIL) * STRIDE_INVERSE) % CYCLE;
  return groupOf(n + CYCLE * Math.floor(index / BY_EMAIL));
}

/** Each rule reads all signals; one of them matches a third. */
export function mixedRules(count: number): BenchRule[] {
  return Array.from({ length: count }, (_, index) => ({
    name: `Stage ${index}`,
    event: "*",
    match: "all",
    conditions: [{ path: "properties.stage", operator: "equals", value: `stage ${index}` }],
    scoring_signal: `Reached stage ${index}`,
    points: index + 1,
  }));
}

/** Points per signal from twenty such rules. */
export function pointsOf(payload: string): number {
  const stage = Number(/"stage":"stage (\d+)"/.exec(payload)?.[1] ?? STAGES);
  return stage < 20 ? stage + 1 : 0;
}

/** Whether a signal belongs to the spread person or visitor; null: to neither. */
function spreadOf(n: number, { size }: FillOrder): typeof HEAVY_PERSON | typeof SPREAD_VISITOR | null {
  if (n >= size.signals) return null;
  const visitorEvery = Math.floor(size.signals / SPREAD_VISITOR.signals);
  const personEvery = visitorEvery * (SPREAD_VISITOR.signals / HEAVY_PERSON.signals);
  if (n % personEvery === 0) return HEAVY_PERSON;
  return n % visitorEvery === 1 ? SPREAD_VISITOR : null;
}

function byEmail(n: number, email: string, person: number): string {
  const names = { first_name: `Jane ${person}`, company: `Customer ${person % 200}`, title: "Head of Sales" };
  const form = { form_name: `Form ${n % 9}`, form_id: `f-${n % 9}` };
  return JSON.stringify({ email, ...groupOf(n), properties: { ...names, ...propertiesOf(n), ...form } });
}

function track(n: number, order: FillOrder, ids: { anonymousId: string; userId?: string }): string {
  const { event } = groupOf(n);
  const properties = propertiesOf(n);
  return JSON.stringify({ type: "track", ...deliveryOf(n, order), ...ids, event, properties });
}

function identify(n: number, index: number, order: FillOrder): string {
  const { people } = order.size;
  const person = scattered(index, people);
  const isNew = index % NEWLY_KNOWN_EVERY === 0;
  const visitor = isNew && order.traffic === "mixed" ? { anonymousId: lastVisitor(n, people) } : {};
  const device = isNew ? visitor : { anonymousId: uuidOf(person, 11) };
  const company = { name: `Jane ${person}`, company: `Customer ${person % 200}`, title: "Head of Sales" };
  const traits = { email: emailOf(person), ...company, plan: ["free", "team", "business"][person % 3] };
  const ids = { ...device, userId: uuidOf(person, 12) };
  return JSON.stringify({ type: "identify", ...deliveryOf(n, order), ...ids, traits });
}

function deliveryOf(n: number, order: FillOrder): object {
  const timestamp = new Date(receivedAtMs(n, order) - 500 - (n % 400)).toISOString();
  return { messageId: uuidOf(n, 13), timestamp, context: { library: { name: "analytics.js", version: "2.1.0" } } };
}

function propertiesOf(n: number): object {
  const { event } = groupOf(n);
  return {
    stage: `stage ${Math.floor(chance(n, 4) * STAGES)}`,
    page_url: `https://www.example.com/${event.toLowerCase().replaceAll(" ", "-")}?n=${n}`,
    seconds_on_page: n % 300,
    campaign: { name: `Campaign ${n % 40}`, step: n % 7 },
  };
}

function groupOf(n: number): Group {
  const at = chance(n, 1) * (SHARES.at(-1) ?? 0);
  const rank = SHARES.findIndex((upTo) => at < upTo);
  return { event: EVENTS[rank] ?? "", source: SOURCES[rank % SOURCES.length] ?? "" };
}

/** The visitor of an anonymous signal, and whether it is the visitor's last. */
function visitorOf(index: number, people: number): { id: string; isLast: boolean } {
  const visitors = Math.ceil(people * VISITORS_PER_PERSON);
  const place = scattered(index, visitors);
  // In every pass over all visitors a quarter of them is replaced by new ones.
  const age = Math.floor(index / visitors) + (place % VISITOR_SIGNALS);
  const id = uuidOf(place + visitors * Math.floor(age / VISITOR_SIGNALS), 14);
  return { id, isLast: age % VISITOR_SIGNALS === VISITOR_SIGNALS - 1 };
}

/** The latest visitor before signal `n` who does not come again. */
function lastVisitor(n: number, people: number): string | undefined {
  for (let index = Math.floor(n / CYCLE) * ANONYMOUS - 1; index >= 0; index--) {
    const { id, isLast } = visitorOf(index, people);
    if (isLast) return id;
  }
  return undefined;
}

/** The signal whose content this signal repeats, never itself a repetition. */
function repeatedBy(n: number): number {
  let before = n - CYCLE - Math.floor(chance(n, 6) * (REPEATED_WITHIN - CYCLE));
  while (before > 0 && slotOf(before) >= CYCLE - 3) before--;
  return Math.max(0, before);
}

function slotOf(n: number): number {
  return (n * STRIDE) % CYCLE;
}

/** A permutation of the numbers below `count`. */
function scattered(index: number, count: number): number {
  return (index * 7_919 + 17) % count;
}

function uuidOf(n: number, salt: number): string {
  const hex = [0, 1, 2, 3].map((part) => Math.floor(chance(n, salt * 8 + part) * 0x1_0000_0000).toString(16));
  const all = hex.map((word) => word.padStart(8, "0")).join("");
  return [all.slice(0, 8), all.slice(8, 12), `4${all.slice(13, 16)}`, `8${all.slice(17, 20)}`, all.slice(20)].join("-");
}
