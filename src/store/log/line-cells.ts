/** A line's facts as they are kept: cells, numbers and texts, the same columns for every line. */
import { VERDICTS, type EndpointType } from "../../domain/signal/signal.ts";
import { TRAIT_NAMES } from "../../domain/signal/traits.ts";
import type { Traits } from "../../domain/signal/traits.ts";
import type { Admission } from "../../wire/admission.ts";
import type { NamedBy } from "../protocol/recorded-signals.ts";
import type { Facts, LineKind, LineStatus, ListingId } from "./line.ts";

const STATUSES: readonly LineStatus[] = ["processed", "anonymous", "duplicate", "purged", "held", "released"];
const KINDS: readonly LineKind[] = ["signal", "identify", "account"];
const ENDPOINTS: readonly EndpointType[] = ["signal_staging", "product_org"];
const NAMED_BY: readonly NamedBy[] = ["email", "user_id", "anonymous_id"];
/** Which ids list a line, by the number that stands for them. */
const LISTED_BY: readonly (readonly ListingId[])[] = [[], ["user_id"], ["anonymous_id"], ["user_id", "anonymous_id"]];

/** Names that stand in the payload too. As long as that is kept they never become other ones. */
export type PayloadNames = Pick<Facts, "userId" | "anonymousId">;

/** What a line keeps in one column; 0 where there is nothing. */
export type Cell = number | string;

/**
 * The columns of a line, in this order; what most lines have not comes last. What is `ofPerson` may say whose the signal is,
 * or what it did for them: a deletion takes it, and so does the end of a held signal's period. The source is, because whoever
 * sends a signal writes it, and may write a name there.
 */
export const COLUMNS = [
  { name: "id", is: "text", ofPerson: false },
  { name: "status", is: "number", ofPerson: false },
  { name: "kind", is: "number", ofPerson: false },
  { name: "event", is: "text", ofPerson: false },
  { name: "source", is: "text", ofPerson: true },
  { name: "keyId", is: "text", ofPerson: false },
  { name: "endpoint", is: "number", ofPerson: false },
  { name: "verdict", is: "number", ofPerson: false },
  { name: "signalLimit", is: "number", ofPerson: false },
  { name: "periodStart", is: "number", ofPerson: false },
  { name: "periodEnd", is: "number", ofPerson: false },
  { name: "ordinal", is: "number", ofPerson: false },
  { name: "receivedAt", is: "number", ofPerson: false },
  { name: "recordedAfter", is: "number", ofPerson: false },
  { name: "email", is: "text", ofPerson: true },
  { name: "userId", is: "text", ofPerson: true },
  { name: "anonymousId", is: "text", ofPerson: true },
  { name: "personId", is: "number", ofPerson: true },
  { name: "namedBy", is: "number", ofPerson: true },
  { name: "rulesTried", is: "number", ofPerson: true },
  { name: "outcomes", is: "text", ofPerson: true },
  { name: "linkedAfter", is: "number", ofPerson: true },
  { name: "duplicateOf", is: "text", ofPerson: true },
  { name: "traits", is: "text", ofPerson: true },
  { name: "deletedAfter", is: "number", ofPerson: false },
  { name: "pathSource", is: "text", ofPerson: true },
  { name: "idempotencyKey", is: "text", ofPerson: true },
  { name: "listedBy", is: "number", ofPerson: true },
] as const satisfies readonly { name: string; is: "number" | "text"; ofPerson: boolean }[];

export type ColumnName = (typeof COLUMNS)[number]["name"];

/** A line's cells, in the order of COLUMNS. */
export function encodeFacts(facts: Facts): Cell[] {
  const { admission, owner, traits } = facts;
  const { receivedAtMs } = admission;
  return [
    admission.id,
    STATUSES.indexOf(facts.status),
    KINDS.indexOf(facts.kind),
    facts.event ?? 0,
    facts.source ?? 0,
    admission.keyId,
    ENDPOINTS.indexOf(admission.endpoint),
    VERDICTS.indexOf(admission.verdict),
    admission.signalLimit,
    admission.periodStartMs,
    admission.periodEndMs,
    admission.ordinal,
    receivedAtMs,
    facts.recordedAtMs - receivedAtMs,
    facts.email ?? 0,
    facts.userId ?? 0,
    facts.anonymousId ?? 0,
    owner?.personId ?? 0,
    owner === null ? 0 : NAMED_BY.indexOf(owner.by),
    facts.rulesTried,
    facts.outcomes.length === 0 ? 0 : facts.outcomes.join(),
    after(facts.linkedAtMs, receivedAtMs),
    facts.duplicateOf ?? 0,
    writeTraits(traits),
    after(facts.deletedAtMs, receivedAtMs),
    admission.pathSource ?? 0,
    admission.idempotencyKey ?? 0,
    (facts.listedBy.includes("user_id") ? 1 : 0) + (facts.listedBy.includes("anonymous_id") ? 2 : 0),
  ];
}

/** The facts that a line's cells say. @param cell of the line in that column. */
export function decodeFacts(cell: (name: ColumnName) => Cell): Facts {
  const number = (name: ColumnName): number => Number(cell(name));
  const text = (name: ColumnName): string | null => textOf(cell(name));
  const receivedAtMs = number("receivedAt");
  const admission: Admission = {
    id: text("id") ?? "",
    keyId: text("keyId") ?? "",
    endpoint: ENDPOINTS[number("endpoint")] ?? "signal_staging",
    verdict: VERDICTS[number("verdict")] ?? "accepted",
    ordinal: number("ordinal"),
    signalLimit: number("signalLimit"),
    receivedAtMs,
    periodStartMs: number("periodStart"),
    periodEndMs: number("periodEnd"),
  };
  const [pathSource, idempotencyKey] = [text("pathSource"), text("idempotencyKey")];
  if (pathSource !== null) admission.pathSource = pathSource;
  if (idempotencyKey !== null) admission.idempotencyKey = idempotencyKey;
  const personId = number("personId");
  return {
    admission,
    recordedAtMs: receivedAtMs + number("recordedAfter"),
    kind: kindOf(cell("kind")),
    status: statusOf(cell("status")),
    event: text("event"),
    source: text("source"),
    email: text("email"),
    userId: text("userId"),
    anonymousId: text("anonymousId"),
    traits: readTraits(cell("traits")),
    owner: personId === 0 ? null : { personId, by: NAMED_BY[number("namedBy")] ?? "email" },
    listedBy: LISTED_BY[number("listedBy")] ?? [],
    linkedAtMs: timeAfter(number("linkedAfter"), receivedAtMs),
    duplicateOf: text("duplicateOf"),
    rulesTried: number("rulesTried"),
    outcomes: outcomesOf(cell("outcomes")),
    deletedAtMs: timeAfter(number("deletedAfter"), receivedAtMs),
  };
}

const OF_PERSON: ReadonlySet<ColumnName> = new Set(COLUMNS.filter(({ ofPerson }) => ofPerson).map(({ name }) => name));
const PLACES = new Map<ColumnName, number>(COLUMNS.map(({ name }, place) => [name, place]));

/** The place of a column among the cells of a line. */
export function placeOf(name: ColumnName): number {
  return PLACES.get(name) ?? 0;
}

/** Facts that say nothing of a person: the columns that are theirs are empty. */
export function withoutPerson(facts: Facts): Facts {
  const cells = encodeFacts(facts);
  return decodeFacts((name) => (OF_PERSON.has(name) ? 0 : (cells[placeOf(name)] ?? 0)));
}

export function textOf(cell: Cell): string | null {
  return typeof cell === "string" ? cell : null;
}

function kindOf(cell: Cell): LineKind {
  return KINDS[Number(cell)] ?? "signal";
}

export function statusOf(cell: Cell): LineStatus {
  return STATUSES[Number(cell)] ?? "processed";
}

export function outcomesOf(cell: Cell): number[] {
  return typeof cell === "string" ? cell.split(",").map(Number) : [];
}

/** Traits are one text, so that lines that were stored before a trait came to be need not be stored anew. */
function writeTraits(traits: Traits): Cell {
  return TRAIT_NAMES.some((trait) => traits[trait] !== undefined) ? JSON.stringify(traits) : 0;
}

function readTraits(cell: Cell): Traits {
  return typeof cell === "string" ? (JSON.parse(cell) as Traits) : {};
}

/** The time between two, in milliseconds; 0 where there is none. */
function after(ms: number | null, sinceMs: number): number {
  if (ms === null) return 0;
  return ms >= sinceMs ? ms - sinceMs + 1 : ms - sinceMs;
}

function timeAfter(distance: number, sinceMs: number): number | null {
  if (distance === 0) return null;
  return distance > 0 ? sinceMs + distance - 1 : sinceMs + distance;
}

const LETTERS = "padghr";

/** A letter for each status, as a segment lists which of them it has. */
export function statusLetter(status: LineStatus): string {
  return LETTERS[STATUSES.indexOf(status)] ?? "p";
}
