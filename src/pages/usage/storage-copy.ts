/** What the pages say of how full a workspace is, in words: functions of data, checked against what they describe. */
import { DAY_MS } from "../../domain/duration.ts";
import type { RoomLevel } from "../../domain/health/alarm.ts";
import { DUPLICATE_WINDOW_WITH_ID_MS } from "../../limits.ts";
import type { Room } from "../../workspace/read-health.ts";
import type { NoticeCopy } from "../views/usage-copy.ts";
import { ago, counted } from "../kit/format.ts";

const HOUR_MS = 3_600_000;
const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const BYTE_UNITS = ["KB", "MB", "GB"] as const;
const WAYS_OUT =
  "To make room, change to a plan that keeps signals for a shorter time, delete people who have very many signals, or ask the operator of this service.";

const NOTICES: Record<Exclude<RoomLevel, "ok">, (health: Room, nowMs: number) => NoticeCopy> = {
  filling: ({ store }) => ({
    tone: "warn",
    title: `${percentFull(store)} of the storage is used.`,
    text: `Once it is full, signals are still accepted, but none is processed until there is room again. ${WAYS_OUT}`,
  }),
  full: (health, nowMs) => ({
    tone: "bad",
    title: "The storage is full: signals are accepted, but none is processed.",
    text: `${waitingSaid(health, nowMs)} None is lost: each is processed as soon as there is room again. ${WAYS_OUT}`,
  }),
  refusing: (health, nowMs) => ({
    tone: "bad",
    title: "As many signals wait to be processed as there is room for: calls are refused with a 503.",
    text:
      health.store.bytes >= health.store.maxBytes
        ? `The storage is full. ${waitingSaid(health, nowMs)} None of them is lost: each is processed as soon as there is room again. ${WAYS_OUT}`
        : `${waitingSaid(health, nowMs)} The storage has room: if they do not get fewer, ask the operator of this service.`,
  }),
};

/** What is said of a store that is STORE_NOTICE_PERCENT full or more; null below. */
export function storageNotice(health: Room, nowMs: number): NoticeCopy | null {
  return health.level === "ok" ? null : NOTICES[health.level](health, nowMs);
}

/** How many signals wait, such as `12 signals wait, the oldest since 3 minutes ago.` */
export function waitingSaid({ waiting, waitingSinceMs }: Room, nowMs: number): string {
  if (waiting === 0 || waitingSinceMs === null) return "No signal waits.";
  return `${counted(waiting, "signal waits", "signals wait")}; the oldest came ${ago(waitingSinceMs, nowMs)}.`;
}

/** How full the store is, such as `1.2 MB of 9 GB, 0.1 %`. */
export function storedSaid({ store }: Room): string {
  return `${byteSize(store.bytes)} of ${byteSize(store.maxBytes)}, ${percentFull(store)}`;
}

/** How far back duplicates are looked for (design §8.2). */
export function duplicatesSaid({ duplicatesCoveredMs: coveredMs }: Room): string {
  if (coveredMs >= DUPLICATE_WINDOW_WITH_ID_MS) return `${counted(DUPLICATE_WINDOW_WITH_ID_MS / DAY_MS, "day")} back.`;
  const back =
    coveredMs < DAY_MS
      ? counted(Math.floor(coveredMs / HOUR_MS), "hour")
      : counted(Math.floor(coveredMs / DAY_MS), "day");
  return `${back} back, instead of ${DUPLICATE_WINDOW_WITH_ID_MS / DAY_MS}: so many signals come that memory holds no more. What a sender repeats later than that counts once more.`;
}

/** A size such as `412 bytes`, `1.2 MB` or `9 GB`; a MB is a million bytes. */
function byteSize(bytes: number): string {
  const power = Math.min(BYTE_UNITS.length, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  const unit = BYTE_UNITS[power - 1];
  return unit === undefined ? counted(bytes, "byte") : `${NUMBER.format(bytes / 1_000 ** power)} ${unit}`;
}

function percentFull({ bytes, maxBytes }: Room["store"]): string {
  const percent = (100 * bytes) / maxBytes;
  return `${percent < 10 ? percent.toFixed(1) : Math.floor(percent)} %`;
}
