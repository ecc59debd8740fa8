/** What the Usage page says of a workspace's usage, in words: functions of data, checked against what they describe. */
import { overageCost, type OveragePrice } from "../../domain/quota/billing.ts";
import { ordinalsTaken, quotaBounds, roomToRelease } from "../../domain/quota/quota.ts";
import { usageLevel, type UsageLevel } from "../../domain/quota/usage-news.ts";
import { OVERAGE_STREAK_LIMIT } from "../../limits.ts";
import type { Usage } from "../../quota/protocol.ts";
import type { Tone } from "../copy.ts";
import { counted, day, grouped, money } from "../kit/format.ts";

export interface NoticeCopy {
  tone: Tone;
  title: string;
  text: string;
}

const WAYS_OUT = "Switch overages on or change to a larger plan";

/** How beyond the limit signals are dealt with (spec §8.3–§8.6). */
type Beyond = "overages" | "extra_room" | "no_extra_room";

function beyond({ overages, extraRoomRemoved }: Usage): Beyond {
  if (overages) return "overages";
  return extraRoomRemoved ? "no_extra_room" : "extra_room";
}

const NOTICES: Record<UsageLevel, Record<Beyond, (usage: Usage) => NoticeCopy>> = {
  80: {
    overages: (usage) => ({
      tone: "info",
      title: percentUsed(usage),
      text: "Overages are on: signals beyond the limit are accepted, and billed as overages.",
    }),
    extra_room: (usage) => ({
      tone: "warn",
      title: percentUsed(usage),
      text: `Up to and including the limit, signals are processed normally; those beyond it are held. ${WAYS_OUT} to have them processed.`,
    }),
    no_extra_room: (usage) => ({
      tone: "warn",
      title: percentUsed(usage),
      text: `This workspace has no extra room any more: signals beyond the limit are refused. ${WAYS_OUT} to avoid that.`,
    }),
  },
  100: {
    overages: ({ overage }) => ({
      tone: "info",
      title: "The signal limit is used up; signals are accepted all the same.",
      text: `Overages are on: ${counted(overage, "signal")} beyond the limit so far in this period.`,
    }),
    extra_room: ({ held, periodEndMs }) =>
      held === 0
        ? {
            tone: "warn",
            title: "The signal limit is reached.",
            text: `Every signal so far was processed normally; the next ones are held. ${WAYS_OUT} to have them processed.`,
          }
        : {
            tone: "warn",
            title: `The signal limit is passed: ${counted(held, "signal was", "signals were")} held.`,
            text: `Held signals update no scores, and are deleted on ${day(periodEndMs)}. ${WAYS_OUT}, then release them.`,
          },
    no_extra_room: ({ rejected, periodEndMs }) => ({
      tone: "bad",
      title: "The signal limit is reached: signals are refused.",
      text: `The extra room has ended, so that every further signal gets a 429 until ${day(periodEndMs)}${refusedSoFar(rejected)}. ${WAYS_OUT} to accept signals again.`,
    }),
  },
  200: {
    overages: ({ overage }) => ({
      tone: "warn",
      title: "Twice the signal limit is used; signals are accepted all the same.",
      text: `Overages are on: ${counted(overage, "signal")} beyond the limit so far in this period. A larger plan may cost less.`,
    }),
    extra_room: ({ rejected, periodEndMs }) => ({
      tone: "bad",
      title: "Twice the signal limit is reached: signals are refused.",
      text: `Every further signal gets a 429 until ${day(periodEndMs)}${refusedSoFar(rejected)}. ${WAYS_OUT} to accept signals again.`,
    }),
    no_extra_room: (usage) => NOTICES[100].no_extra_room(usage),
  },
};

function percentUsed(usage: Usage): string {
  return `${Math.floor((100 * ordinalsTaken(usage)) / usage.signalLimit)} % of the signal limit is used.`;
}

function refusedSoFar(rejected: number): string {
  return rejected === 0 ? "" : ` (${counted(rejected, "signal")} so far)`;
}

/** What is said of usage at 80, 100 and 200 % of the limit; null below. */
export function usageNotice(usage: Usage): NoticeCopy | null {
  const level = usageLevel(ordinalsTaken(usage), usage.signalLimit);
  return level === null ? null : NOTICES[level][beyond(usage)](usage);
}

/** Names the notice that somebody dismisses: the next level, refusal or period makes another one. */
export function usageNoticeName(usage: Usage): string | null {
  const level = usageLevel(ordinalsTaken(usage), usage.signalLimit);
  if (level === null) return null;
  return `${usage.periodStartMs}-${level}${usage.rejected > 0 ? "-refused" : ""}`;
}

/** Spec §8.5 in plain words: how far the workspace is from losing the extra room, and what to do about it. */
export function streakSaid(usage: Usage): NoticeCopy {
  const { paid, overages, streak, extraRoomRemoved, signalLimit } = usage;
  const used = ordinalsTaken(usage);
  if (extraRoomRemoved) {
    return {
      tone: "bad",
      title: "The extra room has ended for good.",
      text: overages
        ? "Three periods in a row ended over the limit. While overages are on nothing is refused; without them, signals past the limit are refused at once."
        : `Three periods in a row ended over the limit. Signals past the limit are refused at once. ${WAYS_OUT} to have more accepted.`,
    };
  }
  if (!paid) {
    return {
      tone: "good",
      title: "The extra room cannot be lost on this plan.",
      text: "Only on paid plans do periods that end over the limit count towards losing it.",
    };
  }
  if (overages) {
    return {
      tone: "good",
      title: "Overages are on: the extra room is safe.",
      text:
        streak === 0
          ? "Periods with overages on never count towards losing the extra room."
          : `${endedOver(streak)} If overages are still on when this period ends, the count starts again from none.`,
    };
  }
  const left = OVERAGE_STREAK_LIMIT - streak;
  const over = used > signalLimit;
  const now = over ? "This one is over it already. " : "";
  const out = over
    ? `To prevent that, switch overages on or change to a plan of at least ${grouped(used)} signals before the period ends.`
    : "A period that ends within the limit starts the count again from none.";
  if (left === 1) {
    return {
      tone: over ? "bad" : "warn",
      title: over ? "The extra room ends with this period." : "One more period over the limit ends the extra room.",
      text: `${endedOver(streak)} ${now}If this one does too, the extra room ends for good. ${out}`,
    };
  }
  return {
    tone: over || streak > 0 ? "warn" : "good",
    title: streak === 0 ? "No period in a row has ended over the limit." : endedOver(streak),
    text: over
      ? `${now}If it ends so, that makes ${streak + 1} of the ${OVERAGE_STREAK_LIMIT} in a row that end the extra room for good. ${out}`
      : `${OVERAGE_STREAK_LIMIT} in a row end the extra room for good: ${left} more would. ${out}`,
  };
}

function endedOver(streak: number): string {
  return streak === 1
    ? "The last period ended over the limit."
    : `Each of the last ${streak} periods ended over the limit.`;
}

/**
 * How many signals are held in this period, how many of them could be released now, and how many that were released are
 * on their way.
 *
 * @param stored held signals as the store has them: less than were counted where some turned out to be duplicates, more
 * for as long as released ones have not come through the queue.
 */
export function heldSaid(usage: Usage, stored: number): { fit: number; title: string; text: string } {
  const held = Math.min(Math.max(0, stored), usage.held);
  const released = Math.max(0, stored - usage.held);
  const fit = Math.min(held, roomToRelease(usage));
  const fits =
    held === 0
      ? "."
      : fit > 0
        ? `; ${grouped(fit)} of them fit now.`
        : "; none fits: it takes a larger plan or overages to release them.";
  const onTheWay =
    released > 0 ? ` ${counted(released, "released signal is", "released signals are")} being processed.` : "";
  return { fit, title: counted(held, "held signal"), text: ` in this period${fits}${onTheWay}` };
}

/** ` at €0.40 per 1,000`; nothing where no price is configured. */
export function atPrice(price: OveragePrice | null): string {
  return price === null ? "" : ` at ${money(price.perThousand, price.currency)} per 1,000`;
}

/** `, about €2.60`; nothing where no price is configured. */
export function thatCost(overages: number, price: OveragePrice | null): string {
  return price === null ? "" : `, about ${money(overageCost(overages, price), price.currency)}`;
}

interface UsageChange {
  signalLimit: number;
  paid: boolean;
  overages: boolean;
  overagePrice: OveragePrice | null;
}

/** What becomes of signals, and of what is held, once this plan and these overages hold. */
export function changeSaid(usage: Usage, to: UsageChange): string {
  const after = { ...usage, ...to };
  const used = ordinalsTaken(usage);
  const left = to.signalLimit - used;
  const room = roomToRelease(after);
  const bounds = quotaBounds(after);
  const then = usage.extraRoomRemoved
    ? "signals past it are refused at once"
    : `as many again are held, and beyond ${grouped(bounds.hold)} they are refused`;
  const next = to.overages
    ? `Every signal is accepted; those beyond ${grouped(to.signalLimit)} in a period are billed as overages${atPrice(to.overagePrice)}.`
    : left > 0
      ? `${counted(left, "more signal is", "more signals are")} accepted in this period; then ${then}.`
      : used >= bounds.hold
        ? "The limit is used up in this period: the next signals are refused."
        : "The limit is used up in this period: the next signals are held.";
  const held =
    usage.held > 0 && room > 0
      ? ` Signals already held stay held until you release them: ${grouped(room)} fit then.`
      : "";
  return `It takes effect with the next signal. ${next}${held}`;
}
