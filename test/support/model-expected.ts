/** The expected content of files and lists, from the model's signals and people, once every message has arrived. */
import { DAY_MS } from "../../src/domain/duration.ts";
import { isTheirs, knownIds, type Model, type ModelSignal, type Name, type Place, type Rule } from "./model.ts";
import type { AccountChange } from "./workspace.ts";

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
  "misfit, purged": "purged",
};

/** @param place where the signal is; of twins, the one that was recorded first has taken the effect. */
export function lineOf(model: Model, signal: ModelSignal, place: Place): Line {
  const { kind, person, names } = signal;
  const isDead = place === "dead" || place === "dead, deleted" || place === "misfit, purged";
  // Of a held misfit nothing is read until its release.
  const isUnread = !model.fits(signal, signal.template) && /^(held|purged)/.test(place);
  const isKept = place === "accepted" || place === "held";
  const known = knownIds(person, model.effective());
  const isSomebodys = !isUnread && isTheirs(signal, place === "held" ? new Set() : known);
  const nameOf = (name: Name) => (isKept && !isUnread && names.includes(name) ? idOf(name, person) : "");
  const isAnonymous = place === "accepted" && (kind === "signal" || kind === "alias") && !isSomebodys;
  return {
    id: signal.id,
    status: isAnonymous ? "anonymous" : (STATUS[place] ?? ""),
    kind: isDead ? "unknown" : kind === "alias" ? "signal" : kind,
    event: isDead || isUnread || kind === "account" ? "" : signal.event,
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
interface PersonLine {
  email: string;
  anonymousIds: string[];
  userIds: string[];
}

/** An alias makes its second id a user id as well as an anonymous id. */
export function personLine(model: Model, person: number): PersonLine {
  const personSignals = model.effective().filter((signal) => signal.person === person);
  const known = knownIds(person, personSignals);
  const hasAlias = known.has("user") && personSignals.some(({ kind, isPairGone }) => kind === "alias" && !isPairGone);
  const anonymous = idOf("anonymous", person);
  return {
    email: emailOf(person),
    anonymousIds: known.has("anonymous") ? [anonymous] : [],
    userIds: [...(hasAlias ? [anonymous] : []), ...(known.has("user") ? [idOf("user", person)] : [])],
  };
}

/** An account of the model: each field has its last received value, and one change for each new value. */
interface ModelAccount {
  external_id: string;
  user_count: number;
  plan: string | null;
  first_seen: string;
  last_seen: string;
  /**
   * Changes by field, the latest first. Null if a value was sent more than twice, because the result then depends on
   * the order of delivery.
   */
  changes: Record<"user_count" | "plan", AccountChange[] | null>;
}

export const accountId = (account: number): string => `acme-${account}`;

export function accountsOf(model: Model): ModelAccount[] {
  const updates = model.effective().filter(({ kind }) => kind === "account");
  return [...Map.groupBy(updates, ({ person }) => person)].map(([account, own]) => {
    const plans = own.filter(({ event }) => event !== "");
    const times = own.map(({ atMs }) => new Date(atMs).toISOString());
    return {
      external_id: accountId(account),
      user_count: own.at(-1)?.n ?? 0,
      plan: plans.at(-1)?.event ?? null,
      first_seen: times[0] ?? "",
      last_seen: times.at(-1) ?? "",
      changes: {
        user_count: changesOf(
          "user_count",
          own.map(({ n, ...update }) => ({ ...update, value: n })),
        ),
        plan: changesOf(
          "plan",
          plans.map(({ event, ...update }) => ({ ...update, value: event })),
        ),
      },
    };
  });
}

function changesOf(
  field: string,
  values: readonly { value: unknown; atMs: number; id: string }[],
): AccountChange[] | null {
  const counts = Map.groupBy(values, ({ value }) => value);
  if ([...counts.values()].some(({ length }) => length > 2)) return null;
  let before: unknown = null;
  const changes: AccountChange[] = [];
  for (const { value, atMs, id } of values) {
    const at = new Date(atMs).toISOString();
    if (value !== before) changes.unshift({ field, before, after: value, at, signal_id: id });
    before = value;
  }
  return changes;
}

export interface RuleDraft extends Omit<Rule, "enabled"> {
  /** An event, with `*` for any text. */
  event: string;
  /** The preview covers this many past days. */
  days: number;
}

/** The model's preview of a mapping rule on stored signals. */
export interface ModelPreview {
  matches: number;
  people: number;
  scoring_signals: number;
  points: number;
  complete: boolean;
}

/** @returns what is answered, and the numbers of the contents that match. */
export function previewOf(model: Model, draft: RuleDraft, nowMs: number): { answer: ModelPreview; contents: number[] } {
  const pattern = new RegExp(`^${draft.event.replaceAll("*", ".*")}$`);
  const signals = model.effective();
  const matching = signals.filter(
    ({ kind, event, person, atMs, isDropped, ...rest }) =>
      (kind === "signal" || kind === "alias") &&
      pattern.test(event) &&
      !isDropped &&
      !model.isExcluded({ person, event }) &&
      atMs >= nowMs - draft.days * DAY_MS &&
      (draft.of === null || draft.of === person) &&
      isTheirs({ kind, event, person, ...rest }, knownIds(person, signals)),
  );
  const people = new Set(matching.map(({ person }) => person)).size;
  const personDays = new Set(matching.map(({ person, day }) => `${person} ${day}`)).size;
  const scoring = { every_time: matching.length, once_per_day: personDays, once_ever: people }[draft.frequency];
  const counts = { matches: matching.length, people, scoring_signals: scoring, points: scoring * draft.points + 0 };
  return { answer: { ...counts, complete: true }, contents: matching.map(({ n }) => n) };
}
