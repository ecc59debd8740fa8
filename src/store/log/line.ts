/**
 * A line of the log is one signal: its facts, which change, and its payload, kept verbatim. The functions below decide what a deletion,
 * a purge and retention leave of a line, and convert facts to stored cells.
 */
import { ADMITTED_VERDICTS } from "../../domain/quota/quota.ts";
import { OCCURRED_FROM, type Occurred } from "../../domain/signal/occurred-at.ts";
import {
  ENDPOINT_TYPES,
  LINE_STATUSES,
  SIGNAL_KINDS,
  type LineStatus,
  type SignalKind,
} from "../../domain/signal/signal.ts";
import { PERSON_FIELDS, type Traits } from "../../domain/signal/traits.ts";
import type { Admission } from "../../wire/admission.ts";
import type { NamedBy } from "../protocol/stored-signals.ts";
import type { Cell } from "./packing.ts";

export type ListingId = Exclude<NamedBy, "email">;

export interface LinePerson {
  personId: number;
  by: NamedBy;
}

/** Times are milliseconds since 1970. */
export interface Facts {
  admission: Admission;
  recordedAtMs: number;
  occurred: Occurred;
  kind: SignalKind;
  /** `released`: a held signal that is recorded elsewhere now, or a line that retention dropped, which has no id. */
  status: LineStatus;
  event: string | null;
  source: string | null;
  /** Names as the signal itself has them, normalised. */
  email: string | null;
  userId: string | null;
  anonymousId: string | null;
  traits: Traits;
  person: LinePerson | null;
  /** The ids whose timelines (people/timelines.ts) list the line. The timeline of its person always lists it. */
  listedBy: readonly ListingId[];
  linkedAtMs: number | null;
  duplicateOf: string | null;
  rulesTried: number;
  outcomes: readonly number[];
  /** When the person was deleted. The facts then identify no person. */
  deletedAtMs: number | null;
}

export interface Line {
  facts: Facts;
  /** The unchanged payload; null: not kept. */
  payload: string | null;
}

export function keepsPayload({ status, deletedAtMs }: Facts): boolean {
  return deletedAtMs === null && (status === "processed" || status === "anonymous" || status === "held");
}

/** Whether other signals can be duplicates of this signal. */
export function isOriginal({ status, deletedAtMs }: Facts): boolean {
  return deletedAtMs === null && (status === "processed" || status === "anonymous");
}

/** A deletion keeps the signal's id, its event and its place in the books. */
export function afterDeletion(facts: Facts, nowMs: number): Facts {
  const status = facts.status === "anonymous" ? "processed" : facts.status === "held" ? "purged" : facts.status;
  return { ...withoutPerson(facts), status, deletedAtMs: nowMs };
}

export function afterPurge(facts: Facts): Facts {
  return { ...withoutPerson(facts), status: "purged" };
}

/** Retention keeps the place of the line while its segment has other lines. */
export function afterRetention(facts: Facts): Facts {
  const left = withoutPerson(facts);
  return {
    ...left,
    admission: { ...left.admission, id: "", keyId: "" },
    status: "released",
    event: null,
    deletedAtMs: null,
  };
}

export function isDropped({ admission }: Facts): boolean {
  return admission.id === "";
}

/** Lists every field, so that a new field needs a decision here. The source goes too: the sender chooses it and may put a name in it. */
function withoutPerson({ admission, recordedAtMs, kind, status, event, deletedAtMs }: Facts): Facts {
  const { id, keyId, endpoint, verdict, ordinal, signalLimit, receivedAtMs, periodStartMs, periodEndMs } = admission;
  return {
    admission: { id, keyId, endpoint, verdict, ordinal, signalLimit, receivedAtMs, periodStartMs, periodEndMs },
    recordedAtMs,
    occurred: { ms: receivedAtMs, from: "received" },
    kind,
    status,
    event,
    source: null,
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
    deletedAtMs,
  };
}

// A line as cells, one for each column.

const NAMED_BY: readonly NamedBy[] = ["email", "user_id", "anonymous_id"];
/** By the number that the column holds. */
const LISTED_BY: readonly (readonly ListingId[])[] = [[], ["user_id"], ["anonymous_id"], ["user_id", "anonymous_id"]];

export interface Column {
  name: string;
  is: "number" | "text";
  write(facts: Facts): Cell;
}

/** In stored order: new columns are added at the end, since stored lines name columns by position. */
export const COLUMNS = [
  { name: "id", is: "text", write: ({ admission }) => admission.id },
  { name: "status", is: "number", write: ({ status }) => LINE_STATUSES.indexOf(status) },
  { name: "kind", is: "number", write: ({ kind }) => SIGNAL_KINDS.indexOf(kind) },
  { name: "event", is: "text", write: ({ event }) => event ?? 0 },
  { name: "source", is: "text", write: ({ source }) => source ?? 0 },
  { name: "keyId", is: "text", write: ({ admission }) => admission.keyId },
  { name: "endpoint", is: "number", write: ({ admission }) => ENDPOINT_TYPES.indexOf(admission.endpoint) },
  { name: "verdict", is: "number", write: ({ admission }) => ADMITTED_VERDICTS.indexOf(admission.verdict) },
  { name: "signalLimit", is: "number", write: ({ admission }) => admission.signalLimit },
  { name: "periodStart", is: "number", write: ({ admission }) => admission.periodStartMs },
  { name: "periodEnd", is: "number", write: ({ admission }) => admission.periodEndMs },
  { name: "ordinal", is: "number", write: ({ admission }) => admission.ordinal },
  { name: "receivedAt", is: "number", write: ({ admission }) => admission.receivedAtMs },
  { name: "recordedAfter", is: "number", write: (facts) => facts.recordedAtMs - facts.admission.receivedAtMs },
  { name: "email", is: "text", write: ({ email }) => email ?? 0 },
  { name: "userId", is: "text", write: ({ userId }) => userId ?? 0 },
  { name: "anonymousId", is: "text", write: ({ anonymousId }) => anonymousId ?? 0 },
  { name: "personId", is: "number", write: ({ person }) => person?.personId ?? 0 },
  { name: "namedBy", is: "number", write: ({ person }) => (person === null ? 0 : NAMED_BY.indexOf(person.by)) },
  { name: "rulesTried", is: "number", write: ({ rulesTried }) => rulesTried },
  { name: "outcomes", is: "text", write: ({ outcomes }) => (outcomes.length === 0 ? 0 : outcomes.join()) },
  { name: "linkedAfter", is: "number", write: (facts) => writeTime(facts.linkedAtMs, facts.admission.receivedAtMs) },
  { name: "duplicateOf", is: "text", write: ({ duplicateOf }) => duplicateOf ?? 0 },
  { name: "traits", is: "text", write: ({ traits }) => writeTraits(traits) },
  { name: "deletedAfter", is: "number", write: (facts) => writeTime(facts.deletedAtMs, facts.admission.receivedAtMs) },
  { name: "pathSource", is: "text", write: ({ admission }) => admission.pathSource ?? 0 },
  { name: "idempotencyKey", is: "text", write: ({ admission }) => admission.idempotencyKey ?? 0 },
  { name: "listedBy", is: "number", write: ({ listedBy }) => listedByCode(listedBy) },
  { name: "occurredBefore", is: "number", write: ({ admission, occurred }) => admission.receivedAtMs - occurred.ms },
  { name: "occurredFrom", is: "number", write: ({ occurred }) => OCCURRED_FROM.indexOf(occurred.from) },
] as const satisfies readonly Column[];

export type ColumnName = (typeof COLUMNS)[number]["name"];

export function encodeFacts(facts: Facts): Cell[] {
  return COLUMNS.map(({ write }) => write(facts));
}

export function decodeFacts(cell: (name: ColumnName) => Cell): Facts {
  const number = (name: ColumnName): number => Number(cell(name));
  const text = (name: ColumnName): string | null => textOf(cell(name));
  const receivedAtMs = number("receivedAt");
  const admission: Admission = {
    id: text("id") ?? "",
    keyId: text("keyId") ?? "",
    endpoint: ENDPOINT_TYPES[number("endpoint")] ?? "signal_staging",
    verdict: ADMITTED_VERDICTS[number("verdict")] ?? "accepted",
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
    occurred: {
      ms: receivedAtMs - number("occurredBefore"),
      from: OCCURRED_FROM[number("occurredFrom")] ?? "received",
    },
    kind: SIGNAL_KINDS[number("kind")] ?? "signal",
    status: statusOf(cell("status")),
    event: text("event"),
    source: text("source"),
    email: text("email"),
    userId: text("userId"),
    anonymousId: text("anonymousId"),
    traits: readTraits(cell("traits")),
    person: personId === 0 ? null : { personId, by: NAMED_BY[number("namedBy")] ?? "email" },
    listedBy: LISTED_BY[number("listedBy")] ?? [],
    linkedAtMs: readTime(number("linkedAfter"), receivedAtMs),
    duplicateOf: text("duplicateOf"),
    rulesTried: number("rulesTried"),
    outcomes: outcomesOf(cell("outcomes")),
    deletedAtMs: readTime(number("deletedAfter"), receivedAtMs),
  };
}

const PLACES = new Map<ColumnName, number>(COLUMNS.map(({ name }, place) => [name, place]));

export function placeOf(name: ColumnName): number {
  return PLACES.get(name) ?? 0;
}

export function textOf(cell: Cell): string | null {
  return typeof cell === "string" ? cell : null;
}

export function statusOf(cell: Cell): LineStatus {
  return LINE_STATUSES[Number(cell)] ?? "processed";
}

export function outcomesOf(cell: Cell): number[] {
  return typeof cell === "string" ? cell.split(",").map(Number) : [];
}

function listedByCode(ids: readonly ListingId[]): number {
  return (ids.includes("user_id") ? 1 : 0) + (ids.includes("anonymous_id") ? 2 : 0);
}

/** Traits are one JSON text, so that a new trait needs no migration of stored lines. */
function writeTraits(traits: Traits): Cell {
  return PERSON_FIELDS.some((field) => traits[field] !== undefined) ? JSON.stringify(traits) : 0;
}

function readTraits(cell: Cell): Traits {
  return typeof cell === "string" ? (JSON.parse(cell) as Traits) : {};
}

/** Writes a time as its distance from another time, in milliseconds; 0: absent. */
function writeTime(ms: number | null, sinceMs: number): number {
  if (ms === null) return 0;
  return ms >= sinceMs ? ms - sinceMs + 1 : ms - sinceMs;
}

function readTime(distance: number, sinceMs: number): number | null {
  if (distance === 0) return null;
  return distance > 0 ? sinceMs + distance - 1 : sinceMs + distance;
}

const LETTERS = "padghr";

export function statusLetter(status: LineStatus): string {
  return LETTERS[LINE_STATUSES.indexOf(status)] ?? "p";
}
