/** The expected content of files and lists, from the model's signals and people, once every message has arrived. */
import type { Model, ModelSignal, Place } from "./model.ts";
import { isTheirs, knownIds } from "./model-people.ts";
import type { Name } from "./model-people.ts";

export const emailOf = (person: number): string => `p${person}@example.com`;

export function idOf(name: Name, person: number): string {
  return `${name}-${person}`;
}

/** A signal as a line of a file. Empty means that the field has no value. */
export interface Line {
  id: string;
  status: string;
  kind: string;
  event: string;
  email: string;
  user_id: string;
  anonymous_id: string;
  endpoint: string;
  key_id: string;
  verdict: string;
  ordinal: string;
  received_at: string;
  isDeleted: boolean;
  hasPayload: boolean;
}

const STATUS: Partial<Record<Place, string>> = {
  accepted: "processed",
  duplicate: "duplicate",
  held: "held",
  purged: "purged",
  deleted: "processed",
  dead: "dead",
  "held, deleted": "purged",
  "dead, deleted": "purged",
};

/** @param place where the signal is; of twins, the one that was recorded first has taken the effect. */
export function lineOf(model: Model, signal: ModelSignal, place: Place): Line {
  const { kind, person, names } = signal;
  const isDead = place === "dead" || place === "dead, deleted";
  const isKept = place === "accepted" || place === "held";
  const known = knownIds(person, model.effective());
  const isSomebodys = isTheirs(signal, place === "held" ? new Set() : known);
  const nameOf = (name: Name) => (isKept && names.includes(name) ? idOf(name, person) : "");
  const isAnonymous = place === "accepted" && (kind === "signal" || kind === "alias") && !isSomebodys;
  return {
    id: signal.id,
    status: isAnonymous ? "anonymous" : (STATUS[place] ?? ""),
    kind: isDead ? "unknown" : kind === "alias" ? "signal" : kind,
    event: isDead || kind === "account" ? "" : signal.event,
    email: isKept && isSomebodys ? emailOf(person) : "",
    user_id: nameOf("user"),
    anonymous_id: nameOf("anonymous"),
    endpoint: kind === "account" ? "product_org" : "signal_staging",
    key_id: signal.key,
    verdict: signal.verdict,
    ordinal: String(signal.ordinal),
    received_at: new Date(signal.atMs).toISOString(),
    isDeleted: place === "deleted" || place.endsWith(", deleted"),
    hasPayload: isKept || place === "dead",
  };
}

/** A person as lists show them. */
export interface PersonLine {
  email: string;
  anonymousIds: string[];
  userIds: string[];
}

/** An alias makes its second id a user id as well as an anonymous id. */
export function personLine(model: Model, person: number): PersonLine {
  const personSignals = model.effective().filter((signal) => signal.person === person);
  const known = knownIds(person, personSignals);
  const hasAlias =
    known.has("user") && personSignals.some(({ kind, pairsLeft }) => kind === "alias" && !pairsLeft.has("user"));
  const anonymous = idOf("anonymous", person);
  return {
    email: emailOf(person),
    anonymousIds: known.has("anonymous") ? [anonymous] : [],
    userIds: [...(hasAlias ? [anonymous] : []), ...(known.has("user") ? [idOf("user", person)] : [])],
  };
}
