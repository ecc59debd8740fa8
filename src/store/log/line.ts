/**
 * A line of the log: one signal, in two texts. What the store knows of it is its facts, which change; its payload stands
 * beside them, verbatim. Facts are a JSON array, without names and without what is absent at its end, because a segment
 * holds hundreds of them.
 */
import type { EndpointType, Traits, Verdict } from "../../domain/signal.ts";
import type { Admission, NamedBy } from "../protocol.ts";

export type LineKind = "signal" | "identify" | "account";

/**
 * `released`: no signal is here any more. A held one has gone through the queue again, and is recorded elsewhere; or
 * retention has deleted it, and then it has no id.
 */
export type LineStatus = "processed" | "anonymous" | "duplicate" | "purged" | "held" | "released";

export interface Owner {
  personId: number;
  /** What named them. */
  by: NamedBy;
}

/** Times are milliseconds since 1970; null where there is none. */
export interface Facts {
  admission: Admission;
  recordedAtMs: number;
  kind: LineKind;
  status: LineStatus;
  event: string | null;
  source: string | null;
  /** As the signal itself names them, normalised. */
  email: string | null;
  userId: string | null;
  anonymousId: string | null;
  traits: Traits;
  owner: Owner | null;
  /** When an anonymous signal became a person's. */
  linkedAtMs: number | null;
  duplicateOf: string | null;
  rulesTried: number;
  /** What the rules made of it, see rules/verdicts.ts. */
  verdicts: readonly number[];
  /** When its person was deleted: then nothing here names anybody. */
  erasedAtMs: number | null;
}

export interface Line {
  facts: Facts;
  /** As it was sent; null where it is not kept. */
  payload: string | null;
}

const STATUSES: readonly LineStatus[] = ["processed", "anonymous", "duplicate", "purged", "held", "released"];
const KINDS: readonly LineKind[] = ["signal", "identify", "account"];
const ENDPOINTS: readonly EndpointType[] = ["signal_staging", "product_org"];
const VERDICTS: readonly Verdict[] = ["accepted", "held"];
const NAMED_BY: readonly NamedBy[] = ["email", "user_id", "anonymous_id"];

const LETTERS = "padghr";

/** A letter for each status, as a segment lists which of them it has. */
export function statusLetter(status: LineStatus): string {
  return LETTERS[STATUSES.indexOf(status)] ?? "p";
}

/** Those of these lines, each once. */
export function statusLetters(texts: readonly string[]): string {
  // The status is what follows the id, in which there is no comma.
  const statuses = new Set(texts.map((text) => text.charAt(text.indexOf(",") + 1)));
  return [...statuses]
    .map((status) => LETTERS[Number(status)] ?? "p")
    .sort()
    .join("");
}

type Encoded = [
  id: string,
  status: number,
  kind: number,
  event: string | null,
  source: string | null,
  keyId: string,
  endpoint: number,
  verdict: number,
  signalLimit: number,
  periodStart: number,
  periodEnd: number,
  ordinal: number,
  receivedAt: number,
  recordedAfter: number,
  email: string | 0,
  userId: string | 0,
  anonymousId: string | 0,
  personId: number,
  namedBy: number,
  rulesTried: number,
  verdicts: readonly number[] | 0,
  linkedAt: number,
  duplicateOf: string | 0,
  traits: Traits | 0,
  erasedAt: number,
  pathSource: string | 0,
  idempotencyKey: string | 0,
];

/** Fields from here on are left out where all that follow are absent too. */
const FIRST_OPTIONAL = 14;

export function encodeFacts(facts: Facts): string {
  const { admission, owner } = facts;
  const fields: Encoded = [
    admission.id,
    STATUSES.indexOf(facts.status),
    KINDS.indexOf(facts.kind),
    facts.event,
    facts.source,
    admission.keyId,
    ENDPOINTS.indexOf(admission.endpoint),
    VERDICTS.indexOf(admission.verdict),
    admission.signalLimit,
    admission.periodStartMs,
    admission.periodEndMs,
    admission.ordinal,
    admission.receivedAtMs,
    facts.recordedAtMs - admission.receivedAtMs,
    facts.email ?? 0,
    facts.userId ?? 0,
    facts.anonymousId ?? 0,
    owner?.personId ?? 0,
    owner === null ? 0 : NAMED_BY.indexOf(owner.by),
    facts.rulesTried,
    facts.verdicts.length === 0 ? 0 : facts.verdicts,
    facts.linkedAtMs ?? 0,
    facts.duplicateOf ?? 0,
    hasTraits(facts.traits) ? facts.traits : 0,
    facts.erasedAtMs ?? 0,
    admission.pathSource ?? 0,
    admission.idempotencyKey ?? 0,
  ];
  let length = fields.length;
  while (length > FIRST_OPTIONAL && fields[length - 1] === 0) length--;
  return JSON.stringify(length === fields.length ? fields : fields.slice(0, length));
}

export function decodeFacts(text: string): Facts {
  const fields = JSON.parse(text) as Encoded;
  const admission: Admission = {
    id: fields[0],
    keyId: fields[5],
    endpoint: ENDPOINTS[fields[6]] ?? "signal_staging",
    verdict: VERDICTS[fields[7]] ?? "accepted",
    ordinal: fields[11],
    signalLimit: fields[8],
    receivedAtMs: fields[12],
    periodStartMs: fields[9],
    periodEndMs: fields[10],
  };
  const text0 = (value: string | 0 | undefined): string | null => (value === undefined || value === 0 ? null : value);
  const time = (value: number | undefined): number | null => (value === undefined || value === 0 ? null : value);
  const pathSource = text0(fields[25]);
  if (pathSource !== null) admission.pathSource = pathSource;
  const idempotencyKey = text0(fields[26]);
  if (idempotencyKey !== null) admission.idempotencyKey = idempotencyKey;
  const personId = fields[17] ?? 0;
  return {
    admission,
    recordedAtMs: fields[12] + fields[13],
    kind: KINDS[fields[2]] ?? "signal",
    status: STATUSES[fields[1]] ?? "processed",
    event: fields[3],
    source: fields[4],
    email: text0(fields[14]),
    userId: text0(fields[15]),
    anonymousId: text0(fields[16]),
    traits: fields[23] === undefined || fields[23] === 0 ? {} : fields[23],
    owner: personId === 0 ? null : { personId, by: NAMED_BY[fields[18] ?? 0] ?? "email" },
    linkedAtMs: time(fields[21]),
    duplicateOf: text0(fields[22]),
    rulesTried: fields[19] ?? 0,
    verdicts: fields[20] === undefined || fields[20] === 0 ? [] : fields[20],
    erasedAtMs: time(fields[24]),
  };
}

/** What a line begins with whose signal has this id. */
export function beginningOf(id: string): string {
  return `[${JSON.stringify(id)},`;
}

/** A part of the text of each line that is about this event. */
export function eventText(event: string): string {
  return `,${JSON.stringify(event)},`;
}

/** What the text of each line fits that has one of these verdicts; few others do. Of at least one verdict. */
export function verdictsPattern(ids: Iterable<number>): RegExp {
  return new RegExp(String.raw`,\[(?:\d+,)*(?:${[...ids].join("|")})[,\]]`);
}

function hasTraits(traits: Traits): boolean {
  return traits.name !== undefined || traits.company !== undefined || traits.title !== undefined;
}

/** Whether what was sent is kept. */
export function keepsPayload({ status, erasedAtMs }: Facts): boolean {
  return erasedAtMs === null && (status === "processed" || status === "anonymous" || status === "held");
}

/** What is left of a signal whose person is deleted: id, event and its place in the books. */
export function erased(facts: Facts, nowMs: number): Facts {
  const { pathSource: _source, idempotencyKey: _key, ...admission } = facts.admission;
  const status = facts.status === "anonymous" ? "processed" : facts.status === "held" ? "purged" : facts.status;
  return { ...nameless(facts), admission, status, duplicateOf: null, erasedAtMs: nowMs };
}

/** What is left of a held signal whose period is over. */
export function purged(facts: Facts): Facts {
  const { pathSource: _source, idempotencyKey: _key, ...admission } = facts.admission;
  return { ...nameless(facts), admission, status: "purged" };
}

/** What is left of a line that has been kept long enough, while others of its segment are kept: its place. */
export function emptied(facts: Facts): Facts {
  const { pathSource: _source, idempotencyKey: _key, ...admission } = facts.admission;
  return {
    ...nameless(facts),
    admission: { ...admission, id: "", keyId: "" },
    status: "released",
    event: null,
    source: null,
    duplicateOf: null,
    erasedAtMs: null,
  };
}

/** Whether retention has deleted the signal. */
export function isEmptied({ admission }: Facts): boolean {
  return admission.id === "";
}

function nameless(facts: Facts): Facts {
  return {
    ...facts,
    email: null,
    userId: null,
    anonymousId: null,
    traits: {},
    owner: null,
    linkedAtMs: null,
    rulesTried: 0,
    verdicts: [],
  };
}
