/**
 * The traffic of the growth bench: signals as a CDP and a marketing platform send them. There are 300 event names and
 * four sources; a few of them make up most of the traffic. The senders are people, known visitors and unknown visitors.
 * Signal `n` is always the same, so that the filler and the queries agree.
 */
import { uuidv7 } from "../../src/platform/ids.ts";
import type { FillOrder } from "./fill-order.ts";
import type { BenchRule } from "./rules.ts";

const VERBS = [
  "Viewed",
  "Clicked",
  "Opened",
  "Filled Out",
  "Started",
  "Finished",
  "Shared",
  "Asked For",
  "Left",
  "Tried",
];
const THINGS = Array.from(
  { length: 30 },
  (_, index) => `${["Form", "Page", "Email", "Trial", "Report"][index % 5]} ${index}`,
);
export const EVENTS = VERBS.flatMap((verb) => THINGS.map((thing) => `${verb} ${thing}`));
/** The first three have ten signals each, later ones fewer and fewer. */
export const SOURCES = ["marketing-automation", "website", "product", "crm"];
/** A tenth of all signals has each stage: the rules check it. */
const STAGES = 10;
/** One signal in a hundred is held. */
export const HELD_EVERY = 100;

/** Signals come in visits: consecutive signals of one person or visitor. */
const VISIT = 4;

/** The payload sent at that time. The first signals introduce the people, one each. */
export function payloadOf(n: number, people: number, atMs: number): string {
  const event = EVENTS[Math.floor(EVENTS.length * chance(n, 1) ** 3)] ?? "";
  const visit = Math.floor(n / VISIT);
  const person = n < people ? n : Math.floor(chance(visit, 2) * people);
  const kind = n < people ? 0 : chance(visit, 3);
  const properties = {
    lead_id: n,
    stage: `stage ${Math.floor(chance(n, 4) * STAGES)}`,
    page_url: `https://www.example.com/${event.toLowerCase().replaceAll(" ", "-")}?n=${n}`,
    seconds_on_page: n % 300,
    campaign: { name: `Campaign ${n % 40}`, step: n % 7 },
  };
  if (kind < 0.7) {
    const source = SOURCES[Math.floor(SOURCES.length * chance(n, 5) ** 2)];
    const company = { first_name: `Jane ${person}`, company: `Customer ${person % 200}`, title: "Head of Sales" };
    return JSON.stringify({ email: emailOf(person), event, source, properties: { ...company, ...properties } });
  }
  const delivery = { messageId: `message-${people}-${n}`, timestamp: new Date(atMs).toISOString() };
  if (kind < 0.9) {
    const anonymousId = `stranger-${Math.floor(chance(visit, 6) * 2 * people)}`;
    return JSON.stringify({ type: "track", ...delivery, anonymousId, event, properties });
  }
  const anonymousId = `visitor-${person}`;
  if (kind < 0.98 || n % VISIT > 0)
    return JSON.stringify({ type: "track", ...delivery, anonymousId, event, properties });
  const traits = { email: emailOf(person), name: `Jane ${person}`, company: `Customer ${person % 200}` };
  return JSON.stringify({ type: "identify", ...delivery, anonymousId, traits });
}

export function emailOf(person: number): string {
  return `person.${person}@customer-${person % 200}.example.com`;
}

export function isHeld(n: number): boolean {
  return n % HELD_EVERY === HELD_EVERY - 1;
}

/** A hundred signals share their time, like those of one commit. */
export function receivedAtMs(
  n: number,
  { size, startMs, endMs }: Pick<FillOrder, "size" | "startMs" | "endMs">,
): number {
  return Math.floor(startMs + ((n - (n % 100)) / Math.max(1, size.signals)) * (endMs - startMs));
}

/** As random as the edge's ids, which do not compress. */
export function signalIdOf(n: number, order: FillOrder): string {
  const random = new Uint8Array(10);
  const view = new DataView(random.buffer);
  view.setUint32(0, chance(n, 7) * 0x1_0000_0000);
  view.setUint32(4, chance(n, 8) * 0x1_0000_0000);
  view.setUint16(8, n & 0xffff);
  return `sig_${uuidv7(receivedAtMs(n, order), random)}`;
}

/**
 * Rules that score every other signal with an email, for any number of rules: few that check every event, or many
 * that check one each, with a wildcard among a hundred.
 */
export function rulesOf(count: number): BenchRule[] {
  return Array.from({ length: count }, (_, index): BenchRule => {
    const few = count < STAGES;
    const wildcard = few ? "*" : `* ${THINGS[index % THINGS.length] ?? ""}`;
    const again = index >= EVENTS.length;
    const stages = (few ? [index] : again ? [3, 4] : [0, 1, 2]).map((stage) => `stage ${stage}`);
    const isWildcard = few || index % 100 === 0;
    return {
      name: `Rule ${index}`,
      event: isWildcard ? wildcard : (EVENTS[index % EVENTS.length] ?? ""),
      match: "all",
      conditions: [{ path: "properties.stage", operator: "in", value: stages }],
      scoring_signal: `Signal ${index}`,
      points: (index % 20) - 4,
    };
  });
}

/** Evenly distributed over 0 to 1, and always the same. */
export function chance(n: number, salt: number): number {
  let hash = Math.imul(n ^ Math.imul(salt, 0x9e3779b1), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  hash = Math.imul(hash ^ (hash >>> 16), 0x27d4eb2f);
  return ((hash ^ (hash >>> 15)) >>> 0) / 0x1_0000_0000;
}
