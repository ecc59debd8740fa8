/** Texts that several pages share. The compiler checks them against the unions that they describe. */
import type { Role } from "../domain/keys/role.ts";
import type { UnauthorizedCause } from "../domain/keys/rejection.ts";
import { eachVerdict, verdictWords, type Verdict, type VerdictCounts } from "../domain/quota/quota.ts";
import { counted } from "../domain/text.ts";
import type { EndpointType, TraceStatus } from "../domain/signal/signal.ts";
import type { ComparatorName } from "../domain/rules/comparators.ts";
import type { SignalTarget } from "../domain/template/signal-template.ts";
import type { RuleFrequency } from "../domain/rules/mapping-rule.ts";
import type { RuleContent } from "../domain/rules/rule-content.ts";
import type { ExportedRecords, ExportFormat } from "../store/protocol/store-operations.ts";
import type { NamedBy, SignalSummary } from "../store/protocol/stored-signals.ts";

export const ROLE_LABEL = { owner: "Owner", admin: "Admin", member: "Member" } as const satisfies Record<Role, string>;

export const ENDPOINT_LABEL = {
  signal_staging: "Signal Staging",
  product_org: "Product Org Updates",
} as const satisfies Record<EndpointType, string>;

export const COMPARATOR_LABEL = {
  equals: "is",
  not_equals: "is not",
  contains: "contains",
  not_contains: "does not contain",
  contains_any: "contains one of",
  starts_with: "starts with",
  ends_with: "ends with",
  in: "is one of",
  greater_than: "is greater than",
  greater_or_equal: "is at least",
  less_than: "is less than",
  less_or_equal: "is at most",
  exists: "exists",
  not_exists: "does not exist",
  is_true: "is true",
  is_false: "is false",
} as const satisfies Record<ComparatorName, string>;

export const RULE_FIELD_LABEL = {
  name: "Name",
  event: "Event",
  match: "Match",
  conditions: "Conditions",
  scoringSignal: "Scoring signal",
  points: "Points",
  frequency: "How often",
  pointsLastDays: "Points count",
  enabled: "Enabled",
} as const satisfies Record<keyof RuleContent, string>;

export const MATCH_LABEL = {
  all: "all conditions",
  any: "any condition",
} as const satisfies Record<RuleContent["match"], string>;

/** How often a mapping rule scores: in its form, and within a sentence. */
export const FREQUENCY_LABEL = {
  every_time: { option: "each time", phrase: "each time" },
  once_per_day: { option: "once a day (UTC)", phrase: "at most once a day (UTC)" },
  once_ever: { option: "once ever", phrase: "at most once" },
} as const satisfies Record<RuleFrequency, { option: string; phrase: string }>;

/** Such as `for 90 days`. */
export function pointsDurationText(lastDays: number | null): string {
  return lastDays === null ? "always" : `for ${lastDays} days`;
}

/** Why a rule that matched has scored nothing. */
export const ALREADY_SCORED = {
  once_per_day: "already scored that day",
  once_ever: "already scored",
} as const satisfies Record<Exclude<RuleFrequency, "every_time">, string>;

export const NAMED_BY_LABEL = {
  email: "email",
  user_id: "user id",
  anonymous_id: "anonymous id",
} as const satisfies Record<NamedBy, string>;

export type Tone = "good" | "warn" | "bad" | "info" | "quiet";

export const STATUS_COPY = {
  processed: { label: "Processed", tone: "good", meaning: "Recorded and processed." },
  held: {
    label: "Held",
    tone: "warn",
    meaning: "Received beyond the signal limit. It updates no score and is deleted at period end.",
  },
  anonymous: {
    label: "Anonymous",
    tone: "info",
    meaning: "The visitor is not known yet. The signal waits in cold storage.",
  },
  duplicate: {
    label: "Duplicate",
    tone: "quiet",
    meaning: "Same content or same id as an earlier signal. Only the first one scores.",
  },
  purged: {
    label: "Purged",
    tone: "quiet",
    meaning: "Held until the billing period ended, or kept without a template that fits it, then deleted.",
  },
  dead: { label: "Dead letter", tone: "bad", meaning: "The signal could not be processed. It can be replayed." },
  in_flight: { label: "In flight", tone: "info", meaning: "Accepted, on its way to the Signal Store." },
  rejected: { label: "Rejected", tone: "bad", meaning: "The call was rejected. Nothing of it was kept." },
} as const satisfies Record<TraceStatus | "rejected", { label: string; tone: Tone; meaning: string }>;

/** @param any label of the option "". */
export function optionsOf<Key extends string>(
  any: string,
  of: Record<Key, { label: string }>,
): Record<Key | "", string> {
  const labels = Object.entries<{ label: string }>(of).map(([key, { label }]) => [key, label]);
  return Object.fromEntries([["", any], ...labels]) as Record<Key | "", string>;
}

/** The label of a verdict, and the tone of its bars in charts. */
export const VERDICT_DISPLAY = {
  accepted: { label: "Accepted", tone: "" },
  held: { label: "Held", tone: "warn" },
  rejected: { label: "Rejected", tone: "bad" },
} as const satisfies Record<Verdict, { label: string; tone: "" | "warn" | "bad" }>;

export const VERDICT_LABELS = eachVerdict((verdict) => VERDICT_DISPLAY[verdict].label);

/** The counts in a sentence: `1,200 signals accepted, 3 held and 1 rejected`. */
export function verdictSentence(counts: VerdictCounts): string {
  const words = verdictWords(counts).with(0, `${counted(counts.accepted, "signal")} accepted`);
  return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

export const EXPORT_LABEL = {
  people: "People",
  signals: "Signals",
  scoring_signals: "Scoring signals",
} as const satisfies Record<ExportedRecords, string>;

export const FORMAT_LABEL = { csv: "CSV", ndjson: "NDJSON" } as const satisfies Record<ExportFormat, string>;

/** The real cause of a 401, whose answer is the same for all causes. */
export const CAUSE_COPY = {
  key_malformed: "The URL contains no API key.",
  key_unknown: "The key does not exist.",
  key_expired: "The key has expired.",
  key_deactivated: "The key is deactivated.",
  secret_missing: "The key requires a secret, but the call had no X-Api-Secret header.",
  secret_wrong: "The secret in the X-Api-Secret header is wrong.",
} as const satisfies Record<UnauthorizedCause, string>;

/** What the sender should change after a 401. */
export const CAUSE_ADVICE = {
  key_malformed: "Use the whole webhook URL that was shown with the key.",
  key_unknown: "Use the webhook URL of an active key.",
  key_expired: "Switch the sender to an active key. An expired key does not work again.",
  key_deactivated: "Switch the sender to an active key. A deactivated key does not work again.",
  secret_missing: "Add the header X-Api-Secret with the secret of the key. If the secret is lost, rotate the key.",
  secret_wrong: "Correct the secret in the header X-Api-Secret. If it is lost, rotate the key.",
} as const satisfies Record<UnauthorizedCause, string>;

/** Messages of forms that succeeded. The redirect carries the name as `?done=`. */
export const DONE = {
  saved: "Saved.",
  template_saved: "Payload template saved. Calls use it within a minute, and replays at once.",
  member_added: "Member added. They can sign in now.",
  role_changed: "Role changed.",
  member_removed: "Member removed. They no longer have access.",
  key_deactivated: "API key deactivated. Calls with it are rejected from now on.",
  token_revoked: "API token revoked. Calls with it get 401 from now on.",
  plan_changed: "Plan changed. It applies from the next signal on.",
  overages_on: "Overages enabled. All signals are accepted from now on.",
  overages_off: "Overages disabled. The signal limit applies from the next signal on.",
  changed_and_released: "Changed. The held signals are released, and processed within moments.",
  released: "Held signals released. They are processed within moments.",
  release_under_way: "Release in progress. Activity shows the number when it is done.",
  none_released: "No signals released: no held signal fits.",
  replayed: "Replayed. Signals that can be processed now appear in a moment.",
  replay_under_way: "Replay in progress. Activity shows the number when it is done.",
  nothing_to_replay: "Nothing to replay.",
  thresholds_saved: "Thresholds saved. You are notified from the next score change on.",
  destination_confirmed: "Address confirmed.",
  destination_paused: "Destination paused.",
  destination_resumed: "Destination resumed. Waiting deliveries are sent now.",
  destination_deleted: "Destination deleted.",
  delivered_again: "Failed deliveries are being sent again, oldest first.",
  nothing_delivered_again: "No failed deliveries to send again.",
  rule_created: "Rule created. It applies from the next signal on.",
  rule_saved: "Saved. The new version applies from the next signal on.",
  rule_enabled: "Rule enabled. It applies from the next signal on.",
  rule_disabled: "Rule disabled. Its scoring signals stay until you apply it to past signals.",
  rule_restored: "Version restored.",
  rules_imported: "Rules imported. They apply from the next signal on.",
  exclusions_imported:
    "Exclusions imported. They apply from the next signal on. Past signals change when you apply the exclusions to them.",
  all_imported:
    "Rules and exclusions imported. They apply from the next signal on. Past signals change when you apply each of them.",
  exclusions_saved:
    "Saved. It applies from the next signal on. Past signals change when you apply the exclusions to them.",
  exclusions_restored: "Version restored. Past signals change when you apply the exclusions to them.",
  rule_deleted: "Rule deleted. Its scoring signals stay with their points.",
} as const satisfies Record<string, string>;

export type Done = keyof typeof DONE;

/** The fields of a signal that a payload template fills. */
export const SIGNAL_TARGET_LABEL = {
  items: "List of signals",
  event: "Event",
  email: "Email",
  user_id: "User id",
  anonymous_id: "Anonymous id",
  id: "Id of the signal",
  occurred_at: "Time",
  name: "Name",
  first_name: "First name",
  last_name: "Last name",
  company: "Company",
  title: "Job title",
  account: "Account id",
  source: "Source",
} as const satisfies Record<SignalTarget, string>;

const KIND_LABEL = {
  signal: "Signal",
  identify: "Identify call",
  account: "Account update",
  // A dead letter whose event is not known, such as one that its template does not fit.
  unknown: "Unknown event",
} as const satisfies Record<SignalSummary["kind"], string>;

/** Its event; of a dead letter the event that it was sent with. */
export function signalTitle({
  kind,
  event,
  isGroupCall,
}: Pick<SignalSummary, "kind" | "event" | "isGroupCall">): string {
  if (isGroupCall) return "Group call";
  return (kind === "signal" || kind === "unknown") && event !== null ? event : KIND_LABEL[kind];
}
