/** What the Signal Store's callers send and get: plain data, all times in milliseconds since 1970. */
import type { AccountField, AccountRecord } from "../domain/payload-template.ts";
import type { MappingRule } from "../domain/mapping-rule.ts";
import type { EndpointType, NormalisedSignal, Verdict } from "../domain/signal.ts";

/** A mapping rule that matched, as it stood when it was evaluated. */
export interface RuleMatch {
  ruleId: string;
  ruleVersion: number;
  scoringSignal: string;
  points: number;
}

/** What the mapping rules said of a signal. */
export interface Evaluation {
  rulesTried: number;
  matches: RuleMatch[];
}

/** How a signal was admitted; comes with it through the queue. */
export interface Admission {
  /** `sig_` + UUIDv7. */
  id: string;
  keyId: string;
  endpoint: EndpointType;
  verdict: Verdict;
  /** Ordinal in its billing period, and the plan's limit at that moment. */
  ordinal: number;
  signalLimit: number;
  receivedAtMs: number;
  periodStartMs: number;
  /** Held signals are deleted then. */
  periodEndMs: number;
  /** The `{source}` of the path, and the request's `Idempotency-Key` with the index in its body. */
  pathSource?: string;
  idempotencyKey?: string;
}

/** A held signal or a dead letter as it was admitted, to be sent through the queue once more. */
export interface StoredSignal {
  admission: Admission;
  payload: string;
  /** Where the next page begins. */
  cursor: number;
}

/** One signal as the consumer hands it to the store. */
export interface SignalToRecord {
  admission: Admission;
  /** The JSON text as it was sent. */
  payload: string;
  work:
    | {
        kind: "signal" | "identify";
        /** The properties stay with the consumer, which has run them through the rules. */
        normalised: Omit<NormalisedSignal, "properties">;
        /** SHA-256 of the canonical form, base64url; null where the signal can be no duplicate. */
        contentHash: string | null;
        duplicateWindowMs: number;
        /** Null when a rule asks for the owner's email and the signal does not carry it: scored once it is linked. */
        evaluation: Evaluation | null;
      }
    /** An account update, mapped by the payload template of its key. */
    | { kind: "account"; account: AccountRecord }
    /** What the consumer could not process. */
    | { kind: "dead"; reason: string };
}

/** What says whose a signal is, the strongest first (design §8.3). */
export type NamedBy = "email" | "user_id" | "anonymous_id";

/** Where a signal ended up (design §9). `in_flight` is known by the Quota Counter only. */
export type SignalStatus = "processed" | "held" | "anonymous" | "duplicate" | "purged" | "dead";

export interface Page {
  cursor: string | null;
  limit: number;
}

export interface PageOf<T> {
  items: T[];
  next: string | null;
}

export interface EventGroup {
  event: string;
  source: string;
  count: number;
  held: number;
  anonymous: number;
  firstSeenMs: number;
  lastSeenMs: number;
  /** The latest signal of the group: its id, and its payload, null while cold storage does not answer. */
  sample: { id: string; payload: unknown };
}

export interface SignalSummary {
  id: string;
  status: SignalStatus;
  kind: "signal" | "identify" | "account" | "unknown";
  event: string | null;
  source: string | null;
  email: string | null;
  receivedAtMs: number;
}

/** The whole way of one signal. */
export interface SignalTrace extends SignalSummary {
  endpoint: EndpointType;
  keyId: string;
  verdict: Verdict;
  ordinal: number;
  signalLimit: number;
  recordedAtMs: number;
  duplicateOf: string | null;
  heldUntilMs: number | null;
  deadReason: string | null;
  anonymousId: string | null;
  userId: string | null;
  /** Whose it is, and what named them. */
  person: { email: string; by: NamedBy; linkedAtMs: number | null } | null;
  rulesTried: number;
  rulesMatched: { ruleId: string; ruleVersion: number; scoringSignal: string; points: number }[];
  points: number;
  /** When its person was deleted, and all that was theirs with it. */
  erasedAtMs: number | null;
  /** As it was sent; null when it is not kept, and while cold storage does not answer. */
  payload: unknown;
  inColdStorage: boolean;
}

export interface Identity {
  kind: "anonymous_id" | "user_id";
  value: string;
  linkedAtMs: number;
}

export interface ScoringSignal {
  scoringSignal: string;
  points: number;
  ruleId: string;
  ruleVersion: number;
  signalId: string;
  atMs: number;
}

export interface Person {
  email: string;
  name: string | null;
  company: string | null;
  title: string | null;
  score: number;
  firstSeenMs: number;
  lastSeenMs: number;
  identities: Identity[];
  /** Newest first, at most 100. */
  scoringSignals: ScoringSignal[];
}

/** Workspace or account data (design §8.7). A value is whatever JSON the payload templates make; null: never sent. */
export interface Account extends Record<AccountField, unknown> {
  externalId: string;
  attributes: Record<string, unknown>;
  firstSeenMs: number;
  lastSeenMs: number;
  /** Newest first, at most ACCOUNT_HISTORY_SHOWN. */
  history: AccountChange[];
}

export interface AccountChange {
  field: AccountField;
  /** Null where the field was not known before. */
  before: unknown;
  after: unknown;
  /** Receipt of the update that changed it, and its signal. */
  atMs: number;
  signalId: string;
}

/** What the list of people is asked for: an order, or the beginning of an email or a name; those come in their order. */
export type PeopleQuery = { sort: PeopleSort } | { by: "email" | "name"; prefix: string };

export type PeopleSort = "newest" | "last_seen" | "score" | "email";

export type PersonSummary = Omit<Person, "identities" | "scoringSignals">;

/** All of a person's signals, or only what they have scored. */
export type PersonTimeline = "all" | "scores";

export interface PersonPage {
  person: PersonSummary;
  /** At most PERSON_IDENTITIES_SHOWN. */
  identities: Identity[];
  moreIdentities: boolean;
  curve: ScoreCurve;
  timeline: PageOf<TimelineEntry>;
  /** Receipt of the latest signal that was deleted for its age; 0: none was. */
  deletedUntilMs: number;
}

export interface ScoreCurve {
  /** Before the first point. */
  fromScore: number;
  /** The score from then on, by the times of the signals. */
  points: { atMs: number; score: number }[];
  /** Scoring signals in it. */
  signals: number;
  /** False: the person may have more, and these are the latest. */
  complete: boolean;
}

export interface TimelineEntry {
  /** Null: not kept any more; what it scored is. */
  signal: TimelineSignal | null;
  scores: ScoringSignal[];
}

export interface TimelineSignal extends Omit<SignalSummary, "email"> {
  namedBy: NamedBy | null;
  /** When it became the person's, if it was anonymous before. */
  linkedAtMs: number | null;
}

/** As PeopleQuery. */
export type AccountsQuery = { sort: AccountsSort } | { prefix: string };

export type AccountsSort = "newest" | "last_seen";

/** A value is the beginning of its JSON text, one character longer than ACCOUNT_LIST_CHARACTERS where it goes on. */
export interface AccountSummary {
  externalId: string;
  name: string | null;
  plan: string | null;
  userCount: string | null;
  recurringRevenue: string | null;
  trialStatus: string | null;
  firstSeenMs: number;
  lastSeenMs: number;
}

export interface AccountPage {
  externalId: string;
  /** Null: never sent. */
  values: Record<AccountField, unknown>;
  attributes: Record<string, unknown>;
  /** By target, such as `plan` or `attributes.region`: the update that carried the value; its key while it is kept. */
  origins: Record<string, { atMs: number; signalId: string; keyId: string | null }>;
  firstSeenMs: number;
  lastSeenMs: number;
  changes: PageOf<ShownChange>;
}

/** Before and after as in AccountSummary, with ACCOUNT_CHANGE_CHARACTERS. */
export interface ShownChange extends Omit<AccountChange, "before" | "after"> {
  before: string | null;
  after: string | null;
}

export interface DeadLetter {
  id: string;
  reason: string;
  receivedAtMs: number;
  deadAtMs: number;
  payload: unknown;
}

/** What the deletion of a person has taken away so far. */
export interface ErasureReceipt {
  /** `del_` + UUIDv7. */
  id: string;
  requestedAtMs: number;
  /** When nothing was left, in cold storage neither; null: it is under way. */
  finishedAtMs: number | null;
  people: number;
  identities: number;
  /** The person's, linked ones included. */
  signals: number;
  /** Of the person's user ids and anonymous ids, not linked yet. */
  anonymous: number;
  held: number;
  duplicates: number;
  deadLetters: number;
  scoringSignals: number;
  /** Objects of cold storage that held a copy of one of these signals. */
  coldObjects: number;
}

/** The plan's terms as far as they concern the store. */
export interface StoreConfig {
  /** Days after its receipt that a signal is kept; null: for ever. */
  retentionDays: number | null;
}

/** The store's side of the books. */
export interface StoreTotals {
  processed: number;
  duplicates: number;
  held: number;
  purged: number;
  deadLettered: number;
}

export interface AccountFilter {
  externalId?: string;
}

export interface SignalFilter {
  event?: string;
  email?: string;
  status?: SignalStatus;
}

export type RuleJobStatus = "queued" | "running" | "done";

/** A rule being applied to what is stored: how far it is, and what it has done. */
export interface RuleJob {
  ruleId: string;
  /** Null: its scoring signals are removed. */
  ruleVersion: number | null;
  status: RuleJobStatus;
  /** Signals looked at, of these many as estimated at the beginning. */
  scanned: number;
  total: number;
  matched: number;
  added: number;
  changed: number;
  removed: number;
  requestedAtMs: number;
  startedAtMs: number | null;
  finishedAtMs: number | null;
}

/** What to apply. */
export interface RuleToApply {
  ruleId: string;
  /** Null: remove its scoring signals. */
  rule: MappingRule | null;
  /** The workspace's, read together with the rule. */
  rulesVersion: number;
}

/** Which stored signals a preview reads: those of these events, recorded before `beforeSeq`, received since. */
export interface PreviewRange {
  events: string[];
  beforeSeq: number;
  sinceMs: number;
  limit: number;
}

export interface PreviewPage {
  scanned: number;
  matches: number;
  /** The persons of those that match. */
  people: number[];
  /** The latest that match. */
  samples: PreviewSample[];
  /** `beforeSeq` of the next page; null when there is none. */
  next: number | null;
}

export interface PreviewSample {
  id: string;
  event: string;
  source: string;
  email: string;
  receivedAtMs: number;
  payload: unknown;
}

export type ExportedRecords = "signals" | "people" | "scoring_signals";

export type ExportFormat = "ndjson" | "csv";

/** Which page of an export. The first is asked for with `after` 0 and `until` null, each other with what came last. */
export interface ExportRange {
  records: ExportedRecords;
  format: ExportFormat;
  after: number;
  /** Fixed by the first page: what is recorded later is not part of the export. */
  until: number | null;
}

export interface ExportPage {
  /** Whole lines, each with its end; with CSV the first page begins with the header. */
  text: string;
  /** Of the next page; null when there is none. */
  next: { after: number; until: number } | null;
}
