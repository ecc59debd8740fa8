/**
 * Notices about the signal limit (spec §8.2 to §8.6) and the storage. The usage bar at the top of every page can be dismissed;
 * a cookie remembers that for each workspace and browser.
 */
import { getCookie, setCookie } from "hono/cookie";
import { ordinalsTaken, quotaBounds } from "../domain/quota/quota.ts";
import { usageLevel } from "../domain/quota/usage-levels.ts";
import { errorText, logEvent } from "../platform/log.ts";
import type { Usage } from "../quota/protocol.ts";
import { usageOf } from "../use-cases/configure-workspace.ts";
import type { Room } from "../use-cases/read-health.ts";
import type { Tone } from "./copy.ts";
import { PostButton } from "./kit/forms.tsx";
import { ago, counted, day } from "./kit/format.ts";
import { sectionPath, type Section } from "./kit/layout.tsx";
import { Notice, Tabs } from "./kit/parts.tsx";
import { ADDRESS_MAX_LENGTH, formText, pages, workspacePath, type Ctx, withQuery } from "./pages-env.ts";
import { safeTarget } from "./safe-target.ts";

/**
 * Reads the usage for the bar in parallel with the page's reads. Not for rows of the Live page and suggestions; not for Overview and
 * Usage, which show the usage themselves.
 */
export const askUsage = pages.createMiddleware(async (c, next) => {
  const { path } = c.req;
  const home = workspacePath(c);
  const isPage = !path.startsWith(`${home}/live/`) && path !== `${home}/search/suggestions`;
  const showsUsage = [home, `${home}/`, `${home}/usage`].includes(path) || path.startsWith(`${home}/usage/`);
  if (isPage && !showsUsage) c.set("usage", usageOrNull(c));
  await next();
});

/** Empty below 80 %, after it was dismissed, and if the usage cannot be read. */
export async function usageBar(c: Ctx, section: Section | null) {
  const usage = await (c.get("usage") ?? usageOrNull(c));
  if (usage === null) return <></>;
  const [notice, state] = [usageNotice(usage), usageNoticeState(usage)];
  if (notice === null || state === null || isDismissed(c, "usage", state)) return <></>;
  const home = workspacePath(c);
  return (
    <section class={`notice bar ${notice.tone}`} aria-label="Usage">
      <span>
        <strong>{notice.title}</strong> <a href={`${home}/usage`}>View usage</a>
      </span>
      <Dismiss home={home} what="usage" state={state} back={pageToReturnTo(c, section)} label="Dismiss usage notice" />
    </section>
  );
}

/** A list keeps its filters, without `?done=`. A POST has no page to return to, so the section's first page replaces it. */
function pageToReturnTo(c: Ctx, section: Section | null): string {
  if (c.req.method !== "GET" || section === null) return sectionPath(c, section ?? "signals");
  const { pathname, searchParams } = new URL(c.req.url);
  searchParams.delete("done");
  return withQuery(pathname, searchParams);
}

/** A failed read hides the bar, not the page. */
async function usageOrNull(c: Ctx): Promise<Usage | null> {
  try {
    return await usageOf(c.env, c.get("db"), c.get("workspace"));
  } catch (error) {
    logEvent("error", { request_id: c.get("requestId"), error: errorText(error) });
    return null;
  }
}

const DISMISSIBLE = ["usage", "first-steps"] as const;
type Dismissible = (typeof DISMISSIBLE)[number];

/** A billing period and a little more. */
const REMEMBERED_S = 32 * 24 * 3_600;

/** @param state of the notice. In another state it is shown again. */
export function isDismissed(c: Ctx, what: Dismissible, state: string): boolean {
  return getCookie(c, `dismissed-${what}`) === state;
}

interface DismissProps {
  home: string;
  what: Dismissible;
  state: string;
  back: string;
  label: string;
}

export function Dismiss({ home, label, ...fields }: DismissProps) {
  return <PostButton action={`${home}/dismiss`} look="link" fields={fields} label={label} text="Dismiss" />;
}

export function dismissNotice(c: Ctx): Response {
  const form = c.get("form");
  const [name, state] = [formText(form, "what"), formText(form, "state")];
  const home = workspacePath(c);
  if (DISMISSIBLE.some((notice) => notice === name) && /^[\w-]{1,60}$/.test(state)) {
    const secure = new URL(c.req.url).protocol === "https:";
    setCookie(c, `dismissed-${name}`, state, {
      path: home,
      httpOnly: true,
      sameSite: "Lax",
      secure,
      maxAge: REMEMBERED_S,
    });
  }
  const target = safeTarget(formText(form, "back", ADDRESS_MAX_LENGTH));
  return c.redirect(target.startsWith(`${home}/`) ? target : `${home}/signals`, 303);
}

export interface NoticeCopy {
  tone: Tone;
  title: string;
  text: string;
}

const TABS = { "": "Usage", "/plan": "Plan", "/ledger": "Ledger" } as const;

export function usageHead({ periodStartMs, periodEndMs }: Usage) {
  const intro = `Billing period ${day(periodStartMs)} to ${day(periodEndMs)}`;
  return { section: "usage", heading: "Usage", intro } as const;
}

interface UsageTabsProps {
  base: string;
  current: keyof typeof TABS;
  usage: Usage;
  room?: Room;
  error?: string | undefined;
}

export function UsageTabs({ base, current, usage, room, error }: UsageTabsProps) {
  const tabs = Object.entries(TABS).map(([path, text]) => ({
    href: `${base}/usage${path}`,
    text,
    current: path === current,
  }));
  const notices = [usageNotice(usage), room === undefined ? null : storageNotice(room, Date.now())];
  return (
    <>
      <Tabs label="Usage" tabs={tabs} />
      {error !== undefined && <Notice tone="bad" title="Nothing was changed" text={error} />}
      {notices.map((notice) => notice !== null && <Notice {...notice} />)}
    </>
  );
}

/** Null below 80 % of the signal limit. */
export function usageNotice(usage: Usage): NoticeCopy | null {
  const { overages, overage, held, rejected, signalLimit, periodEndMs } = usage;
  const used = ordinalsTaken(usage);
  const level = usageLevel(used, signalLimit);
  if (level === null) return null;
  const percent = `${Math.floor((100 * used) / signalLimit)}% of your`;
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
    const soFar = rejected === 0 ? "" : ` (${counted(rejected, "signal")} so far)`;
    return {
      tone: "bad",
      title: `You've reached ${isTwice ? "twice your" : "your"} signal limit: signals are rejected.`,
      text: `Senders get a 429 until ${day(periodEndMs)}${soFar}. Upgrade or enable overages to accept signals.`,
    };
  }
  if (level === 80) {
    const text = isTwice
      ? "Signals beyond the limit are held. Upgrade or enable overages to process them."
      : "You have no extra room: signals beyond the limit are rejected. Upgrade or enable overages to accept them.";
    return { tone: "warn", title: `You've used ${percent} signal limit.`, text };
  }
  if (held === 0) {
    const text =
      "All signals so far were processed. The next ones are held. Upgrade or enable overages to process them.";
    return { tone: "warn", title: "You've reached your signal limit.", text };
  }
  return {
    tone: "warn",
    // Without a number: the counter's also has signals whose person was deleted, and held duplicates.
    title: "You're over your signal limit: new signals are held.",
    text: `Held signals do not update scores and are deleted on ${day(periodEndMs)}. Upgrade or enable overages to release them.`,
  };
}

/** Another level, rejection or period is another state, so a dismissed notice is shown again. */
export function usageNoticeState(usage: Usage): string | null {
  const level = usageLevel(ordinalsTaken(usage), usage.signalLimit);
  if (level === null) return null;
  return `${usage.periodStartMs}-${level}${usage.rejected > 0 ? "-rejected" : ""}`;
}

const MAKE_ROOM =
  "To make room, choose a plan with a shorter retention, delete people with many signals, or ask the operator.";

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
    case "rejecting": {
      const text =
        store.bytes >= store.maxBytes
          ? `Storage is full. ${waiting} ${MAKE_ROOM}`
          : `${waitingText(room, nowMs)} Storage has room: ask the operator if the number does not fall.`;
      return { tone: "bad", title: "Too many signals are waiting: calls are rejected with a 503.", text };
    }
  }
}

export function waitingText({ waiting, waitingSinceMs }: Room, nowMs: number): string {
  if (waiting === 0 || waitingSinceMs === null) return "No signals are waiting.";
  return `${counted(waiting, "signal is", "signals are")} waiting; the oldest arrived ${ago(waitingSinceMs, nowMs)}.`;
}

export function percentFull({ bytes, maxBytes }: Room["store"]): string {
  const percent = (100 * bytes) / maxBytes;
  return `${percent < 10 ? percent.toFixed(1) : Math.floor(percent)}%`;
}
