/**
 * The catalogue of outgoing notifications. For a new type the compiler lists what else needs an entry. A notification keeps
 * its id in every repetition, so that a receiver can drop duplicates.
 */
import { NO_VERDICTS, verdictWords } from "../quota/quota.ts";
import { MISFIT_NOTICE_DAYS } from "../../limits.ts";
import { emailAsStored } from "../signal/identity.ts";
import { counted, grouped } from "../text.ts";
import type { NotificationData } from "./notification-data.ts";

export type AnyNotificationType = keyof NotificationData;

interface NotificationSentence {
  text: string;
  /** Path of the page with the details, behind `/w/{workspace}/`. */
  page: string;
}

/** Formats a text that a user or sender chose. */
type FormatName = (text: string) => string;

type IsDeleted = (email: string) => boolean;

/** `Data` has the field names of the JSON that is sent. */
interface CatalogueEntry<Data> {
  label: string;
  when: string;
  example: Data;
  /** Scores whose thresholds raise the notification. Without such a threshold, the notification is never raised. */
  thresholdsOf?: keyof ScoreThresholds;
  sentence: (data: Data, formatName: FormatName) => NotificationSentence;
  /** The data without deleted people; null: nothing is left. Required, so that no new type keeps their data by mistake. */
  withoutPeople: (data: Data, isDeleted: IsDeleted) => Data | null;
}

/** For types that hold no data of a person. */
function keepAll<Data>(data: Data): Data {
  return data;
}

/** Some senders group by email address: then the account's id or name is a person's address. */
function withoutPersonalAccount(data: AccountThresholdPassed, isDeleted: IsDeleted): AccountThresholdPassed | null {
  const { external_id, name } = data;
  return [external_id, name ?? ""].some((text) => isDeleted(emailAsStored(text))) ? null : data;
}

export type ScoringSignalMade = NotificationData["person.scored"]["scoring_signals"][number];

/** Scores that raise a notification when they are reached or no longer reached: at most THRESHOLDS_MAX each, ascending. */
export interface ScoreThresholds {
  people: number[];
  accounts: number[];
}

/** A score that passed a threshold, upwards or downwards. */
type ThresholdPassed = Pick<NotificationData["person.score_fell"], "threshold" | "score" | "score_before">;
type AccountThresholdPassed = NotificationData["account.score_fell"];

/** Number of scores that rose to a threshold or above it, and of scores that fell below it. */
export type Crossings = NotificationData["people.rescored"]["thresholds"][number];

const KEY = { key_id: "key_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d6f", key_name: "Website" };
const SIGNAL_ID = "sig_01a1f923-8ec2-7c4d-b975-0dae84bdd1d4";
const RULE_ID = "rule_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d70";
const PERIOD = { period_start: "2026-11-01T00:00:00.000Z", period_end: "2026-12-01T00:00:00.000Z" };
const ACCOUNT = { external_id: "acme-42", name: "Acme" };
const NOTIFICATIONS_PAGE = "settings/notifications";

export const NOTIFICATION_CATALOGUE: { [Type in AnyNotificationType]: CatalogueEntry<NotificationData[Type]> } = {
  "person.score_crossed": {
    label: "A person's score crosses a threshold",
    when: "Once per threshold, until the score falls below it again.",
    example: { email: "jane@example.com", threshold: 50, score: 55, score_before: 35, signal_id: SIGNAL_ID },
    thresholdsOf: "people",
    sentence: (data, formatName) => ({
      text: crossedText(formatName(data.email), data),
      page: personPage(data.email),
    }),
    withoutPeople: (data, isDeleted) => (isDeleted(data.email) ? null : data),
  },
  "person.score_fell": {
    label: "A person's score falls below a threshold",
    when: "Once per threshold, until the score reaches it again.",
    example: { email: "jane@example.com", threshold: 50, score: 35, score_before: 55 },
    thresholdsOf: "people",
    sentence: (data, formatName) => ({ text: fellText(formatName(data.email), data), page: personPage(data.email) }),
    withoutPeople: (data, isDeleted) => (isDeleted(data.email) ? null : data),
  },
  "account.score_crossed": {
    label: "An account's score crosses a threshold",
    when: "Once per threshold, until the score falls below it again.",
    example: { ...ACCOUNT, threshold: 200, score: 215, score_before: 195 },
    thresholdsOf: "accounts",
    sentence: (data, formatName) => ({
      text: crossedText(accountText(data, formatName), data),
      page: accountPage(data.external_id),
    }),
    withoutPeople: withoutPersonalAccount,
  },
  "account.score_fell": {
    label: "An account's score falls below a threshold",
    when: "Once per threshold, until the score reaches it again.",
    example: { ...ACCOUNT, threshold: 200, score: 195, score_before: 215 },
    thresholdsOf: "accounts",
    sentence: (data, formatName) => ({
      text: fellText(accountText(data, formatName), data),
      page: accountPage(data.external_id),
    }),
    withoutPeople: withoutPersonalAccount,
  },
  "person.scored": {
    label: "Scoring signals are created",
    when: "Combined: at most one delivery a second.",
    example: {
      scoring_signals: [
        {
          email: "jane@example.com",
          scoring_signal: "demo_requested",
          points: 20,
          score: 55,
          rule_id: RULE_ID,
          signal_id: SIGNAL_ID,
          event: "Filled Out Form",
          received_at: "2026-11-20T13:26:59.523Z",
        },
      ],
    },
    sentence: scoredSentence,
    withoutPeople(data, isDeleted) {
      const scoring_signals = data.scoring_signals.filter(({ email }) => !isDeleted(email));
      if (scoring_signals.length === data.scoring_signals.length) return data;
      return scoring_signals.length === 0 ? null : { scoring_signals };
    },
  },
  "people.rescored": {
    label: "Many scores change",
    when: "A summary after a rule or the exclusions are applied to past signals, a visitor becomes known or many points lapse.",
    example: {
      cause: "rule_applied",
      rule_id: RULE_ID,
      email: null,
      added: 1_240,
      changed: 0,
      removed: 0,
      points: 24_800,
      thresholds: [{ threshold: 50, risen: 31, fallen: 0 }],
    },
    sentence: rescoredSentence,
    withoutPeople: (data, isDeleted) => (data.email !== null && isDeleted(data.email) ? null : data),
  },
  "usage.level": {
    label: "Usage reaches 80, 100 or 200%",
    when: "Also at the first rejected signal. Once per billing period each.",
    example: { level: "80", used: 400_000, signal_limit: 500_000, overages: false, ...PERIOD },
    sentence({ level, used, signal_limit, period_end }) {
      const counts = `${grouped(used)} of ${counted(signal_limit, "signal")}`;
      const text =
        level === "first_rejection"
          ? `A signal was rejected because of the signal limit (${counts}).`
          : `Usage has reached ${level}% of the signal limit: ${counts}.`;
      return { text: `${text} The billing period ends on ${minuteOf(period_end)}.`, page: "usage" };
    },
    withoutPeople: keepAll,
  },
  "period.closed": {
    label: "A billing period ends",
    when: "With its counts.",
    example: {
      ...PERIOD,
      signal_limit: 500_000,
      overages: false,
      ...NO_VERDICTS,
      accepted: 500_000,
      held: 12_000,
      overage: 0,
      streak: 1,
      extra_room_removed: false,
    },
    sentence({ signal_limit, streak, extra_room_removed, ...counts }) {
      const over = streak === 0 ? "" : ` It is the ${ordinal(streak)} period in a row over the limit.`;
      const removed = extra_room_removed ? " The extra room beyond the limit has been removed." : "";
      const limit = counted(signal_limit, "signal");
      const text = `A billing period has ended: ${verdictWords(counts).join(", ")}, with a limit of ${limit}.${over}${removed}`;
      return { text, page: "usage" };
    },
    withoutPeople: keepAll,
  },
  "key.expiring": {
    label: "An API key expires soon",
    when: "30 days, 7 days and 1 day before.",
    example: {
      ...KEY,
      expires_at: "2026-11-27T00:00:00.000Z",
      days: 7,
      successor_id: null,
      last_used_at: "2026-11-20T13:26:59.523Z",
    },
    sentence({ key_id, key_name, expires_at, days, successor_id }, formatName) {
      const rotated = successor_id === null ? "" : " It was rotated and is still in use.";
      const text = `The API key “${formatName(key_name)}” expires in ${counted(days, "day")} or less, on ${minuteOf(expires_at)}.${rotated}`;
      return { text, page: keyPage(key_id) };
    },
    withoutPeople: keepAll,
  },
  "key.silent": {
    label: "An API key is inactive",
    when: "No call for the number of days set on the key's page.",
    example: { ...KEY, days: 3, last_used_at: "2026-11-17T08:00:00.000Z" },
    sentence({ key_id, key_name, days, last_used_at }, formatName) {
      const since = last_used_at === null ? "never" : `last ${minuteOf(last_used_at)}`;
      const text = `No calls have arrived with the API key “${formatName(key_name)}” for ${counted(days, "day")} (${since}).`;
      return { text, page: keyPage(key_id) };
    },
    withoutPeople: keepAll,
  },
  "key.usage_level": {
    label: "A key reaches 80 or 100% of its signal limit",
    when: "Once per billing period each, for keys with a limit.",
    example: { key_id: KEY.key_id, level: "80", used: 8_000, signal_limit: 10_000, ...PERIOD },
    sentence({ key_id, level, used, signal_limit, period_end }) {
      const counts = `${grouped(used)} of ${counted(signal_limit, "signal")}`;
      const more = level === "100" ? " Further signals with it are rejected." : "";
      const text = `An API key has reached ${level}% of its signal limit: ${counts}.${more} The billing period ends on ${minuteOf(period_end)}.`;
      return { text, page: keyPage(key_id) };
    },
    withoutPeople: keepAll,
  },
  "key.public": {
    label: "A key is used from a browser",
    when: "Once for a key, with its first call from a browser.",
    example: { key_id: KEY.key_id, origin: "https://www.example.com" },
    sentence({ key_id, origin }, formatName) {
      const text = `An API key was used from a browser (${formatName(origin)}). Whoever opens the page can read it. Send from a server, and rotate the key.`;
      return { text, page: keyPage(key_id) };
    },
    withoutPeople: keepAll,
  },
  "rejections.burst": {
    label: "Many calls are rejected",
    when: "More than a tenth of a key's calls within five minutes, and at least 20.",
    example: {
      key_id: KEY.key_id,
      from: "2026-11-20T13:20:00.000Z",
      to: "2026-11-20T13:25:00.000Z",
      calls: 400,
      rejected: 62,
      codes: { body_not_json: 60, event_missing: 2 },
    },
    sentence: ({ key_id, calls, rejected, codes }) => ({
      text: `${grouped(rejected)} of ${counted(calls, "call")} of an API key were rejected within minutes: ${countsInWords(codes)}.`,
      page: keyPage(key_id),
    }),
    withoutPeople: keepAll,
  },
  "dead_letters.added": {
    label: "Signals could not be processed",
    when: "They are kept as dead letters.",
    example: { signals: 3, reasons: { rules_too_slow: 3 } },
    sentence: ({ signals, reasons }) => ({
      text: `${counted(signals, "signal")} could not be processed: ${countsInWords(reasons)}.`,
      page: "signals/dead-letters",
    }),
    withoutPeople: keepAll,
  },
  "misfits.expiring": {
    label: "Misfits are purged soon",
    when: `${MISFIT_NOTICE_DAYS} days before signals that no template fits are purged.`,
    example: { signals: 12, purged_from: "2026-11-27T13:12:00.000Z" },
    sentence: ({ signals, purged_from }) => ({
      text: `${counted(signals, "signal")} that the template of the key does not fit will be purged from ${minuteOf(purged_from)} on. Correct the template and replay them.`,
      page: "signals/dead-letters",
    }),
    withoutPeople: keepAll,
  },
  "processing.late": {
    label: "Processing is late",
    when: "The oldest waiting signal is more than ten minutes old.",
    example: { oldest_at: "2026-11-20T13:12:00.000Z", signals: 1_200 },
    sentence: ({ oldest_at, signals }) => ({
      text: `${counted(signals, "signal")} still to be processed, the oldest since ${minuteOf(oldest_at)}.`,
      page: "signals",
    }),
    withoutPeople: keepAll,
  },
  "destination.disabled": {
    label: "Another destination was switched off",
    when: "Sent to all other destinations.",
    example: {
      destination_id: "dst_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d71",
      destination_name: "CRM",
      reason: "failing",
    },
    sentence({ destination_name, reason }, formatName) {
      const why = reason === "gone" ? "it answered 410 Gone" : "no delivery has succeeded for five days";
      const text = `The destination “${formatName(destination_name)}” was switched off: ${why}.`;
      return { text, page: NOTIFICATIONS_PAGE };
    },
    withoutPeople: keepAll,
  },
  "destination.test": {
    label: "Test",
    when: "Sent once, only to the tested destination.",
    example: { message: "A test of the destination “CRM”." },
    sentence: ({ message }, formatName) => ({ text: formatName(message), page: NOTIFICATIONS_PAGE }),
    withoutPeople: keepAll,
  },
};

/** Types that every destination receives without subscribing. */
export const destinationNotificationTypes = ["destination.disabled", "destination.test"] as const;
export type NotificationType = Exclude<AnyNotificationType, (typeof destinationNotificationTypes)[number]>;

export const notificationTypes = (Object.keys(NOTIFICATION_CATALOGUE) as AnyNotificationType[]).filter(
  (type): type is NotificationType => !destinationNotificationTypes.some((sent) => sent === type),
);

type NotificationId = `ntf_${string}`;

/** A notification of one of these types, each with its data. */
export type NotificationOf<Type extends AnyNotificationType> = {
  [T in Type]: { id: NotificationId; type: T; time: number; data: NotificationData[T] };
}[Type];

export type Notification = NotificationOf<NotificationType>;

export type AnyNotification = NotificationOf<AnyNotificationType>;

/** The compiler does not see that the entry fits the notification's data. */
function entryOf({ type }: Pick<AnyNotification, "type">): CatalogueEntry<unknown> {
  return NOTIFICATION_CATALOGUE[type] as CatalogueEntry<unknown>;
}

/** What the notification is about, in a few words: `jane@example.com, 35 → 55`. Null: its sentence says it. */
export function subjectOf(notification: AnyNotification): string | null {
  switch (notification.type) {
    case "person.score_crossed":
    case "person.score_fell": {
      const { email, score_before, score } = notification.data;
      return `${email}, ${grouped(score_before)} → ${grouped(score)}`;
    }
    case "account.score_crossed":
    case "account.score_fell": {
      const { name, external_id, score_before, score } = notification.data;
      return `${name ?? external_id}, ${grouped(score_before)} → ${grouped(score)}`;
    }
    case "person.scored": {
      const [first, ...others] = notification.data.scoring_signals;
      if (first === undefined) return null;
      const more = others.length === 0 ? "" : ` and ${grouped(others.length)} more`;
      return `${first.email}, ${first.scoring_signal}${more}`;
    }
    default:
      return null;
  }
}

export function exampleNotification(type: AnyNotificationType): AnyNotification {
  const id = "ntf_01a1f923-9a10-7d3e-8c41-5b2f6e7a8c90";
  return {
    id,
    type,
    time: Date.parse("2026-11-20T13:27:00.000Z"),
    data: NOTIFICATION_CATALOGUE[type].example,
  } as AnyNotification;
}

export function notificationSentence(
  notification: AnyNotification,
  formatName: FormatName = (text) => text,
): NotificationSentence {
  return entryOf(notification).sentence(notification.data, formatName);
}

export function thresholdsOf(type: AnyNotificationType): keyof ScoreThresholds | null {
  return entryOf({ type }).thresholdsOf ?? null;
}

export function withoutPerson<T extends AnyNotification>(notification: T, isDeleted: IsDeleted): T | null {
  const data = entryOf(notification).withoutPeople(notification.data, isDeleted);
  if (data === null) return null;
  return data === notification.data ? notification : ({ ...notification, data } as T);
}

const NAMES_MAX = 3;

function scoredSentence(
  { scoring_signals }: NotificationData["person.scored"],
  formatName: FormatName,
): NotificationSentence {
  const emails = [...new Set(scoring_signals.map(({ email }) => email))];
  const unnamed = emails.length - NAMES_MAX;
  const names = emails.slice(0, NAMES_MAX).map(formatName);
  if (unnamed > 0) names.push(`${grouped(unnamed)} more`);
  const points = scoring_signals.reduce((sum, signal) => sum + signal.points, 0);
  const text = `${counted(scoring_signals.length, "scoring signal")}, ${signed(points)} points: ${names.join(", ")}.`;
  const [email] = emails;
  return { text, page: email !== undefined && emails.length === 1 ? personPage(email) : "people" };
}

function rescoredSentence(data: NotificationData["people.rescored"], formatName: FormatName): NotificationSentence {
  const { cause, rule_id, email, added, changed, removed, points, thresholds } = data;
  const counts = Object.entries({ added, changed, removed }).filter(([, count]) => count > 0);
  const changes = counts.map(([change, count]) => `${grouped(count)} ${change}`).join(", ");
  const sum = `${changes} (${signed(points)} points).`;
  if (email !== null) {
    const text = `Earlier signals now belong to ${formatName(email)}. Scoring signals: ${sum}`;
    return { text, page: personPage(email) };
  }
  const risen = thresholds.map(({ threshold, risen: times }) => ({ threshold, times }));
  const fallen = thresholds.map(({ threshold, fallen: times }) => ({ threshold, times }));
  const passed = passedText("crossed", risen) + passedText("fallen below", fallen);
  if (cause === "points_lapsed")
    return { text: `Points have lapsed (${signed(points)} points).${passed}`, page: "people" };
  const applied = cause === "exclusions_applied" ? "The exclusions were" : "A mapping rule was";
  const text = `${applied} applied to the past. Scoring signals: ${sum}${passed}`;
  return { text, page: rule_id === null ? "people" : `rules/${rule_id}` };
}

function passedText(verb: string, thresholds: readonly { threshold: number; times: number }[]): string {
  const passed = thresholds.filter(({ times }) => times > 0);
  if (passed.length === 0) return "";
  const list = passed.map(({ threshold, times }) => `${grouped(threshold)} (${counted(times, "time")})`).join(", ");
  return ` Scores have ${verb} ${list}.`;
}

function crossedText(scorer: string, { threshold, score, score_before }: ThresholdPassed): string {
  return `${scorer} has crossed ${counted(threshold, "point")}: ${grouped(score_before)} → ${grouped(score)}.`;
}

function fellText(scorer: string, { threshold, score, score_before }: ThresholdPassed): string {
  return `${scorer} has fallen below ${counted(threshold, "point")}: ${grouped(score_before)} → ${grouped(score)}.`;
}

function accountText({ external_id, name }: AccountThresholdPassed, formatName: FormatName): string {
  return `The account ${formatName(name ?? external_id)}`;
}

function personPage(email: string): string {
  return `people/${encodeURIComponent(email)}`;
}

function accountPage(externalId: string): string {
  return `accounts/one?external_id=${encodeURIComponent(externalId)}`;
}

function keyPage(keyId: string): string {
  return `settings/api-keys/${keyId}`;
}

function signed(points: number): string {
  return points < 0 ? `−${grouped(-points)}` : `+${grouped(points)}`;
}

function countsInWords(counts: Record<string, number>): string {
  const largestFirst = Object.entries(counts).toSorted(([, a], [, b]) => b - a);
  return largestFirst.map(([name, count]) => `${name} (${grouped(count)})`).join(", ");
}

function minuteOf(iso: string): string {
  return `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`;
}

function ordinal(n: number): string {
  return ["first", "second", "third"][n - 1] ?? `${n}th`;
}

/** Notification types that have subscribers. If there are none, the sources write no rows. */
export interface WantedNotifications {
  types: NotificationType[];
  /** Thresholds of people's scores; see ScoreThresholds. */
  thresholds: number[];
  /** Thresholds of accounts' scores. */
  accountThresholds: number[];
  /** Number of the workspace's destinations in any state. With none, their health is not checked. */
  destinations: number;
}

export function risenTo(before: number, after: number, thresholds: readonly number[]): number[] {
  return thresholds.filter((threshold) => before < threshold && threshold <= after);
}

export function fallenBelow(before: number, after: number, thresholds: readonly number[]): number[] {
  return risenTo(after, before, thresholds);
}
