/** The top of the usage pages: tabs, and a notice if the signal limit or the storage needs an action. */
import { ordinalsTaken, quotaBounds } from "../domain/quota/quota.ts";
import { usageLevel } from "../domain/quota/usage-news.ts";
import type { Usage } from "../quota/protocol.ts";
import type { Room } from "../workspace/read-health.ts";
import type { Tone } from "./copy.ts";
import { ago, counted, day } from "./kit/format.ts";
import { Notice, PageHead, Tabs } from "./kit/parts.tsx";

export interface NoticeCopy {
  tone: Tone;
  title: string;
  text: string;
}

const TABS = { "": "Usage", "/plan": "Plan", "/ledger": "Ledger" } as const;

/** @param props.error what is wrong with a form that was sent. */
export function UsageHead({
  base,
  current,
  usage,
  room,
  nowMs,
  error,
}: {
  base: string;
  current: keyof typeof TABS;
  usage: Usage;
  room?: Room;
  nowMs: number;
  error?: string | undefined;
}) {
  const failed: NoticeCopy | null = error === undefined ? null : { tone: "bad", title: "Nothing changed", text: error };
  const notices = [failed, usageNotice(usage), room === undefined ? null : storageNotice(room, nowMs)];
  return (
    <>
      <PageHead title="Usage">
        Billing period {day(usage.periodStartMs)} to {day(usage.periodEndMs)}
      </PageHead>
      <Tabs
        label="Usage"
        tabs={Object.entries(TABS).map(([path, text]) => ({
          href: `${base}/usage${path}`,
          text,
          current: path === current,
        }))}
      />
      {notices.map(
        (notice) =>
          notice !== null && (
            <Notice tone={notice.tone} title={notice.title}>
              <p>{notice.text}</p>
            </Notice>
          ),
      )}
    </>
  );
}

/** The notice at 80, 100 and 200 % of the signal limit (spec §8.2 to §8.6); null below. */
export function usageNotice(usage: Usage): NoticeCopy | null {
  const { overages, overage, held, rejected, signalLimit, periodEndMs } = usage;
  const used = ordinalsTaken(usage);
  const level = usageLevel(used, signalLimit);
  if (level === null) return null;
  const percent = `${Math.floor((100 * used) / signalLimit)} % of your`;
  if (overages) {
    if (level === 80) {
      const text = "Overages are on: signals beyond the limit are accepted and billed.";
      return { tone: "info", title: `You've used ${percent} signal limit.`, text };
    }
    return {
      tone: level === 200 ? "warn" : "info",
      title: `You're at ${percent} limit. Overages are on, so signals are still accepted.`,
      text: `${counted(overage, "overage")} in this period.${level === 200 ? " A larger plan may cost less." : ""}`,
    };
  }
  const { hold } = quotaBounds(usage);
  const isTwice = hold > signalLimit;
  if (used >= hold) {
    const refused = rejected === 0 ? "" : ` (${counted(rejected, "signal")} so far)`;
    return {
      tone: "bad",
      title: `You've reached ${isTwice ? "twice your" : "your"} signal limit: signals are refused.`,
      text: `Senders get a 429 until ${day(periodEndMs)}${refused}. Upgrade or enable overages to accept signals.`,
    };
  }
  if (level === 80) {
    const text = isTwice
      ? "Signals beyond the limit are held. Upgrade or enable overages to process them."
      : "You have no extra room: signals beyond the limit are refused. Upgrade or enable overages to accept them.";
    return { tone: "warn", title: `You've used ${percent} signal limit.`, text };
  }
  if (held === 0) {
    const text =
      "All signals so far were processed. The next ones are held. Upgrade or enable overages to process them.";
    return { tone: "warn", title: "You've reached your signal limit.", text };
  }
  return {
    tone: "warn",
    title: `You're over your signal limit: ${counted(held, "signal is", "signals are")} held.`,
    text: `Held signals do not update scores and are deleted on ${day(periodEndMs)}. Upgrade or enable overages to release them.`,
  };
}

/** Names the notice for its dismissal. The next level, the first refusal and the next period have other names. */
export function usageNoticeName(usage: Usage): string | null {
  const level = usageLevel(ordinalsTaken(usage), usage.signalLimit);
  if (level === null) return null;
  return `${usage.periodStartMs}-${level}${usage.rejected > 0 ? "-refused" : ""}`;
}

const MAKE_ROOM =
  "To make room, choose a plan with a shorter retention, delete people with many signals, or ask the operator.";

/** The notice about a store that is nearly full, or about too many waiting signals; null if all is well. */
export function storageNotice(room: Room, nowMs: number): NoticeCopy | null {
  const { level, store } = room;
  const waiting = `${waitingText(room, nowMs)} None is lost: they are processed once there is room.`;
  switch (level) {
    case "ok":
      return null;
    case "filling": {
      const text = `Once it is full, signals are accepted but not processed. ${MAKE_ROOM}`;
      return { tone: "warn", title: `Storage is ${percentFull(store)} full.`, text };
    }
    case "full": {
      const title = "Storage is full: signals are accepted but not processed.";
      return { tone: "bad", title, text: `${waiting} ${MAKE_ROOM}` };
    }
    case "refusing": {
      const text =
        store.bytes >= store.maxBytes
          ? `Storage is full. ${waiting} ${MAKE_ROOM}`
          : `${waitingText(room, nowMs)} Storage has room: ask the operator if the number does not fall.`;
      return { tone: "bad", title: "Too many signals are waiting: calls are refused with a 503.", text };
    }
  }
}

export function waitingText({ waiting, waitingSinceMs }: Room, nowMs: number): string {
  if (waiting === 0 || waitingSinceMs === null) return "No signals are waiting.";
  return `${counted(waiting, "signal is", "signals are")} waiting; the oldest arrived ${ago(waitingSinceMs, nowMs)}.`;
}

export function percentFull({ bytes, maxBytes }: Room["store"]): string {
  const percent = (100 * bytes) / maxBytes;
  return `${percent < 10 ? percent.toFixed(1) : Math.floor(percent)} %`;
}
