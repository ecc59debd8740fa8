/** An event as a sentence for people, and the page of the workspace that shows more of it. */
import { cut } from "../cut.ts";
import { grouped } from "../grouped.ts";
import type { AnyEvent, EventData } from "./workspace-event.ts";

export interface EventSentence {
  text: string;
  /** Path of the page, behind `/w/{workspace}/`. */
  page: string;
}

/** @param name how a text that somebody has chosen, such as an email or a name, is written. */
export function eventSentence(event: AnyEvent, name: Name = (text) => text): EventSentence {
  switch (event.type) {
    case "person.score_crossed": {
      const { email, threshold, score, score_before } = event.data;
      const text = `${name(email)} has crossed ${grouped(threshold)} points: ${grouped(score_before)} → ${grouped(score)}.`;
      return { text, page: personPage(email) };
    }
    case "person.scored":
      return scored(event.data, name);
    case "people.rescored":
      return rescored(event.data, name);
    case "usage.level":
      return { text: usageText(event.data), page: "usage" };
    case "period.closed":
      return { text: periodText(event.data), page: "usage" };
    case "key.expiring": {
      const { key_id, key_name, expires_at, days, successor_id } = event.data;
      const still = successor_id === null ? "" : " It was rotated and is still in use.";
      const text = `The API key “${name(key_name)}” ends in ${counted(days, "day")} or less, on ${minute(expires_at)}.${still}`;
      return { text, page: keyPage(key_id) };
    }
    case "key.silent": {
      const { key_id, key_name, days, last_used_at } = event.data;
      const since = last_used_at === null ? "never" : `last ${minute(last_used_at)}`;
      const text = `Nothing has come with the API key “${name(key_name)}” for ${counted(days, "day")} (${since}).`;
      return { text, page: keyPage(key_id) };
    }
    case "refusals.burst": {
      const { key_id, calls, refused, codes } = event.data;
      const text = `${grouped(refused)} of ${counted(calls, "call")} of an API key were refused within minutes: ${list(codes)}.`;
      return { text, page: keyPage(key_id) };
    }
    case "dead_letters.added": {
      const { signals, reasons } = event.data;
      const text = `${counted(signals, "signal")} could not be processed: ${list(reasons)}.`;
      return { text, page: "signals/dead-letters" };
    }
    case "processing.late": {
      const { oldest_at, signals } = event.data;
      const text = `${counted(signals, "signal")} still to be processed, the oldest since ${minute(oldest_at)}.`;
      return { text, page: "signals" };
    }
    case "destination.disabled": {
      const { destination_name, reason } = event.data;
      const why = reason === "gone" ? "it answered 410 Gone" : "nothing has reached it for five days";
      return { text: `The destination “${name(destination_name)}” was switched off: ${why}.`, page: NOTIFICATIONS };
    }
    case "destination.test":
      return { text: name(event.data.message), page: NOTIFICATIONS };
  }
}

/**
 * What a Slack-compatible incoming webhook takes. `&`, `<` and `>` have a meaning there, and whatever looks like an address
 * becomes a link: what somebody has chosen is written as code, so that no sender can place a link.
 */
export function slackBody(event: AnyEvent, pagesUrl: string): { text: string } {
  const { text, page } = eventSentence(event, (chosen) => `\`${chosen.replaceAll(/[`\r\n]/g, " ")}\``);
  const plain = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return { text: `${plain} <${pagesUrl}/${page}|Show>` };
}

export function emailText(event: AnyEvent, pagesUrl: string): { subject: string; text: string } {
  const { text, page } = eventSentence(event);
  // A line's end in a subject would begin another header.
  const subject = cut(text, SUBJECT_MAX);
  return { subject: subject.replaceAll(/[\r\n]+/g, " "), text: `${text}\n\n${pagesUrl}/${page}\n` };
}

/** Mailers show so many characters of a subject. */
const SUBJECT_MAX = 120;
const NOTIFICATIONS = "settings/notifications";
/** How many people a sentence names. */
const NAMED = 3;

type Name = (text: string) => string;

function scored({ scoring_signals }: EventData["person.scored"], name: Name): EventSentence {
  const emails = [...new Set(scoring_signals.map(({ email }) => email))];
  const others = emails.length - NAMED;
  const names = [...emails.slice(0, NAMED).map(name), ...(others > 0 ? [`${grouped(others)} more`] : [])].join(", ");
  const points = scoring_signals.reduce((sum, one) => sum + one.points, 0);
  const text = `${counted(scoring_signals.length, "scoring signal")}, ${signed(points)} points: ${names}.`;
  const [only] = emails;
  return { text, page: only !== undefined && emails.length === 1 ? personPage(only) : "people" };
}

function rescored(data: EventData["people.rescored"], name: Name): EventSentence {
  const { rule_id, email, added, changed, removed, points, thresholds } = data;
  const counts = Object.entries({ added, changed, removed }).filter(([, count]) => count > 0);
  const what = counts.map(([change, count]) => `${grouped(count)} ${change}`).join(", ");
  const sum = `${what} (${signed(points)} points).`;
  if (email !== null) {
    return {
      text: `Earlier signals have become those of ${name(email)}. Scoring signals: ${sum}`,
      page: personPage(email),
    };
  }
  const risen = thresholds.filter((one) => one.risen > 0);
  const crossed = risen.map(({ threshold, risen: times }) => `${grouped(threshold)} (${counted(times, "time")})`);
  const over = crossed.length === 0 ? "" : ` Scores have crossed ${crossed.join(", ")}.`;
  const text = `A mapping rule was applied to the past. Scoring signals: ${sum}${over}`;
  return { text, page: rule_id === null ? "people" : `rules/${rule_id}` };
}

function usageText({ level, used, signal_limit, period_end }: EventData["usage.level"]): string {
  const counts = `${grouped(used)} of ${counted(signal_limit, "signal")}`;
  const until = `The billing period ends on ${minute(period_end)}.`;
  if (level === "first_refusal") return `A signal was refused for the signal limit (${counts}). ${until}`;
  return `${level} % of the signal limit are reached: ${counts}. ${until}`;
}

function periodText(period: EventData["period.closed"]): string {
  const { accepted, held, rejected, signal_limit, streak, extra_room_removed } = period;
  const counts = `${grouped(accepted)} accepted, ${grouped(held)} held, ${grouped(rejected)} refused`;
  const over = streak === 0 ? "" : ` It is the ${ordinal(streak)} period in a row over the limit.`;
  const removed = extra_room_removed ? " There is no extra room beyond the limit any more." : "";
  return `A billing period has ended: ${counts}, with a limit of ${counted(signal_limit, "signal")}.${over}${removed}`;
}

function personPage(email: string): string {
  return `people/${encodeURIComponent(email)}`;
}

function keyPage(keyId: string): string {
  return `settings/api-keys/${keyId}`;
}

function counted(count: number, noun: string): string {
  return `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
}

function signed(points: number): string {
  return points < 0 ? `−${grouped(-points)}` : `+${grouped(points)}`;
}

function list(counts: Record<string, number>): string {
  const largestFirst = Object.entries(counts).toSorted(([, a], [, b]) => b - a);
  return largestFirst.map(([name, count]) => `${name} (${grouped(count)})`).join(", ");
}

/** The minute of an ISO time, such as `2026-11-22 05:10 UTC`. */
function minute(iso: string): string {
  return `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`;
}

function ordinal(n: number): string {
  return ["first", "second", "third"][n - 1] ?? `${n}th`;
}
