/** A line's facts as they are kept: cells, numbers and texts, the same columns for every line. */
import { VERDICTS, type EndpointType, type Traits } from "../../domain/signal/signal.ts";
import type { Admission } from "../../wire/admission.ts";
import type { NamedBy } from "../protocol.ts";
import type { Facts, LineKind, LineStatus } from "./line.ts";

const STATUSES: readonly LineStatus[] = ["processed", "anonymous", "duplicate", "purged", "held", "released"];
const KINDS: readonly LineKind[] = ["signal", "identify", "account"];
const ENDPOINTS: readonly EndpointType[] = ["signal_staging", "product_org"];
const NAMED_BY: readonly NamedBy[] = ["email", "user_id", "anonymous_id"];

/** Names that stand in the payload too. As long as that is kept they never become other ones. */
export type PayloadNames = Pick<Facts, "userId" | "anonymousId">;

/** What a line keeps in one column; 0 where there is nothing. */
export type Cell = number | string;

/** The columns of a line, in this order; what most lines have not comes last. */
export const COLUMNS = [
  { name: "id", is: "text" },
  { name: "status", is: "number" },
  { name: "kind", is: "number" },
  { name: "event", is: "text" },
  { name: "source", is: "text" },
  { name: "keyId", is: "text" },
  { name: "endpoint", is: "number" },
  { name: "verdict", is: "number" },
  { name: "signalLimit", is: "number" },
  { name: "periodStart", is: "number" },
  { name: "periodEnd", is: "number" },
  { name: "ordinal", is: "number" },
  { name: "receivedAt", is: "number" },
  { name: "recordedAfter", is: "number" },
  { name: "email", is: "text" },
  { name: "userId", is: "text" },
  { name: "anonymousId", is: "text" },
  { name: "personId", is: "number" },
  { name: "namedBy", is: "number" },
  { name: "rulesTried", is: "number" },
  { name: "verdicts", is: "text" },
  { name: "linkedAfter", is: "number" },
  { name: "duplicateOf", is: "text" },
  { name: "name", is: "text" },
  { name: "company", is: "text" },
  { name: "title", is: "text" },
  { name: "erasedAfter", is: "number" },
  { name: "pathSource", is: "text" },
  { name: "idempotencyKey", is: "text" },
] as const satisfies readonly { name: string; is: "number" | "text" }[];

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
    facts.verdicts.length === 0 ? 0 : facts.verdicts.join(),
    after(facts.linkedAtMs, receivedAtMs),
    facts.duplicateOf ?? 0,
    traits.name ?? 0,
    traits.company ?? 0,
    traits.title ?? 0,
    after(facts.erasedAtMs, receivedAtMs),
    admission.pathSource ?? 0,
    admission.idempotencyKey ?? 0,
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
  const traits: Traits = {};
  for (const trait of ["name", "company", "title"] as const) {
    const value = text(trait);
    if (value !== null) traits[trait] = value;
  }
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
    traits,
    owner: personId === 0 ? null : { personId, by: NAMED_BY[number("namedBy")] ?? "email" },
    linkedAtMs: timeAfter(number("linkedAfter"), receivedAtMs),
    duplicateOf: text("duplicateOf"),
    rulesTried: number("rulesTried"),
    verdicts: verdictsOf(cell("verdicts")),
    erasedAtMs: timeAfter(number("erasedAfter"), receivedAtMs),
  };
}

export function textOf(cell: Cell): string | null {
  return typeof cell === "string" ? cell : null;
}

export function kindOf(cell: Cell): LineKind {
  return KINDS[Number(cell)] ?? "signal";
}

export function statusOf(cell: Cell): LineStatus {
  return STATUSES[Number(cell)] ?? "processed";
}

export function verdictsOf(cell: Cell): number[] {
  return typeof cell === "string" ? cell.split(",").map(Number) : [];
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
