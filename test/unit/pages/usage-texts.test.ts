/** Spec §8.2–§8.6 in words: the limit, the extra room, held signals, the effect of a change; and the storage. */
import { html } from "hono/html";
import { describe, expect, test } from "vitest";
import { roomLevel, type RoomLevel } from "../../../src/domain/health/alarm.ts";
import type { OveragePrice } from "../../../src/domain/quota/billing.ts";
import { NO_BUDGETS } from "../../../src/domain/quota/key-budget.ts";
import { NO_VERDICTS } from "../../../src/domain/quota/quota.ts";
import { duplicatesText, storedText } from "../../../src/pages/usage/usage.tsx";
import { changeText, costText, extraRoomText, heldOnTheWay, heldText } from "../../../src/pages/usage/plan.tsx";
import {
  storageNotice,
  usageNotice,
  usageNoticeState,
  UsageTabs,
  waitingText,
} from "../../../src/pages/usage-notices.tsx";
import type { Usage } from "../../../src/quota/protocol.ts";
import type { Room } from "../../../src/use-cases/read-health.ts";
import { readHtml } from "../../support/html.ts";

function usage(more: Partial<Usage> = {}): Usage {
  return {
    ...NO_VERDICTS,
    periodStartMs: Date.UTC(2031, 2, 1),
    periodEndMs: Date.UTC(2031, 3, 1),
    signalLimit: 100,
    paid: true,
    overages: false,
    overage: 0,
    streak: 0,
    extraRoomRemoved: false,
    configVersion: 1,
    history: [],
    ...NO_BUDGETS,
    ...more,
  };
}

const removed = { extraRoomRemoved: true };
const on = { overages: true };
const REJECTED = "You've reached your signal limit: signals are rejected.";
const like = (text: string | RegExp) => (text instanceof RegExp ? expect.stringMatching(text) : text);

describe("the notice about the signal limit", () => {
  test.each([
    [{ accepted: 60, held: 20 }, "warn", "You've used 80% of your signal limit.", /are held\. Upgrade or enable/],
    [{ accepted: 90, ...removed }, "warn", "You've used 90% of your signal limit.", /no extra room.*are rejected/],
    [{ accepted: 100 }, "warn", "You've reached your signal limit.", /^All signals so far were processed\./],
    [
      { accepted: 100, held: 1 },
      "warn",
      "You're over your signal limit: new signals are held.",
      /deleted on Apr 1, 2031/,
    ],
    [{ accepted: 100, ...removed }, "bad", REJECTED, /429 until Apr 1/],
    // A workspace that lost a larger plan within the period.
    [{ accepted: 300, ...removed }, "bad", REJECTED, /429 until/],
    [
      { accepted: 100, held: 100, rejected: 3 },
      "bad",
      /^You've reached twice/,
      /until Apr 1, 2031 \(3 signals so far\)/,
    ],
    [{ accepted: 85, ...on }, "info", "You've used 85% of your signal limit.", /accepted and billed/],
    [{ accepted: 101, ...on, overage: 1 }, "info", /^You're at 101% of.* still accepted\.$/, /^1 overage in/],
    [{ accepted: 300, ...on, overage: 200 }, "warn", /^You're at 300% of your/, /^200 overages.*A larger plan/],
  ] as const)("at %j has tone %s and says: %s", (more, tone, title, text) => {
    expect(usageNotice(usage(more))).toEqual({ tone, title: like(title), text: like(text) });
  });

  test("if dismissed, returns with the next level, rejection or period; does not exist below 80%", () => {
    const state = (more: Partial<Usage>) => usageNoticeState(usage(more));
    expect([usageNotice(usage({ accepted: 79 })), state({ accepted: 79 })]).toEqual([null, null]);
    const states = [
      { accepted: 60, held: 20 },
      { accepted: 100 },
      { accepted: 100, held: 100 },
      { accepted: 100, held: 100, rejected: 1 },
      { accepted: 80, periodStartMs: Date.UTC(2031, 3, 1) },
    ].map(state);
    expect(new Set(states).size).toBe(states.length);
    expect(states).not.toContain(null);
    expect(state({ accepted: 99 })).toBe(state({ accepted: 80 }));
    expect(state({ accepted: 100, held: 100, rejected: 9 })).toBe(states[3]);
  });
});

const LOSS = "After 3 periods in a row over the limit, you permanently lose the extra room.";
const RESET = "A period within the limit resets the count.";

test.each([
  [{}, "good", "0 of 3 periods over the limit", `${LOSS} None so far.`],
  [{ streak: 1 }, "warn", "1 of 3 periods over the limit", `${LOSS} 1 so far. ${RESET}`],
  [
    { streak: 1, accepted: 100, held: 20 },
    "warn",
    /^1 of 3/,
    /over the limit\..*at least 120 signals before it ends\.$/,
  ],
  // Exactly the limit is within it.
  [{ streak: 2, accepted: 100 }, "warn", /^2 of 3/, /resets the count\.$/],
  [{ streak: 2, accepted: 100, held: 1 }, "bad", "Lost when this period ends", /at least 101 signals/],
  [{ streak: 3, ...removed }, "bad", "Permanently lost", /beyond the limit are rejected/],
  [{ streak: 3, ...removed, ...on }, "bad", "Permanently lost", /no signal is rejected/],
  [{ ...removed, paid: false }, "bad", "Permanently lost", /./],
  [{ paid: false, held: 50 }, "good", "Cannot be lost on this plan", /Only paid plans/],
  [on, "good", "Safe while overages are on", /do not count towards losing the extra room\.$/],
  [{ ...on, streak: 1 }, "good", "Safe while overages are on", /1 so far\. The count resets/],
] as const)("§8.5: with %j the extra room has tone %s, title %s", (more, tone, title, text) => {
  expect(extraRoomText(usage(more))).toEqual({ tone, title: like(title), text: like(text) });
});

test.each([
  [{ accepted: 100 }, 0, 0, "No signals are held in this period."],
  [{ accepted: 100, held: 7 }, 7, 0, "7 signals are held in this period. Upgrade or enable overages to release them."],
  [{ accepted: 100, held: 7, signalLimit: 103 }, 7, 3, "7 signals are held in this period. 3 can be released now."],
  // Released signals are on their way until the store has processed them.
  [{ accepted: 60 }, 60, 0, "No signals are held in this period. 60 released signals are being processed."],
  [{ accepted: 103, held: 4, signalLimit: 103 }, 5, 0, /^4 signals are held.* 1 released signal is being processed\.$/],
  [{ accepted: 100, held: 1 }, 1, 0, "1 signal is held in this period. Upgrade or enable overages to release it."],
  // Two of them turned out to be duplicates.
  [{ accepted: 100, held: 7, ...on }, 5, 5, "5 signals are held in this period. 5 can be released now."],
])("with %j and %i held signals in the store, %i fit: %s", (more, stored, fit, text) => {
  expect(heldText(usage(more), stored)).toEqual({ fit, text: like(text) });
});

test.each([
  [7, { held: 7, inFlight: 3 }, ""],
  [5, { held: 7, inFlight: 0 }, "2 released signals are being processed."],
  [6, { held: 7, inFlight: 9 }, "1 released signal is being processed."],
  [7, { held: 5, inFlight: 1 }, "1 more held signal is on the way."],
  [9, { held: 5, inFlight: 40 }, "4 more held signals are on the way."],
  // They were duplicates.
  [7, { held: 5, inFlight: 0 }, ""],
])("with %i held signals and %j in the store, the list says what is on the way: %s", (held, books, text) => {
  expect(heldOnTheWay({ held }, books)).toBe(text);
});

describe("the effect of a change of plan or overages", () => {
  const to = { signalLimit: 100, paid: true, overages: false, overagePrice: null };

  test.each([
    [{ accepted: 39, held: 60 }, "1 more signal is accepted in this period. Then 100 are held, and signals beyond 200"],
    [{ accepted: 40, ...removed }, "60 more signals are accepted in this period. Signals beyond that are rejected."],
    [{ accepted: 100 }, "the next signals are held"],
    [{ accepted: 200 }, "the next signals are rejected"],
    [{ accepted: 100, ...removed }, "the next signals are rejected"],
    [{ accepted: 10, held: 10 }, "You can then release 10 held signals."],
    [{ accepted: 95, held: 10 }, "You can then release 5 held signals."],
  ])("at %j says: %s", (more, text) => {
    const shown = changeText(usage(more), usage(more).held, to);
    expect(shown).toMatch(/^Takes effect with the next signal\. /);
    expect(shown).toContain(text);
  });

  test.each([
    [{ accepted: 100, held: 10 }, "10 held signals stay held and are deleted on Apr 1, 2031."],
    [{ accepted: 100, held: 1 }, "1 held signal stays held and is deleted on Apr 1, 2031."],
    [
      { accepted: 95, held: 7 },
      "You can then release 5 held signals. 2 others stay held and are deleted on Apr 1, 2031.",
    ],
    [
      { accepted: 95, held: 6 },
      "You can then release 5 held signals. 1 other stays held and is deleted on Apr 1, 2031.",
    ],
    [{ accepted: 95, held: 5 }, "You can then release 5 held signals."],
    [{ accepted: 95 }, "Then 100 are held, and signals beyond 200 are rejected."],
  ])("at %j ends with what happens to the held signals: %s", (more, text) => {
    const shown = changeText(usage(more), usage(more).held, to);
    expect(shown.slice(-text.length)).toBe(text);
  });

  test("counts no signal that is not held any more, because it was a duplicate or its person was deleted", () => {
    const now = usage({ accepted: 100, held: 10 });
    expect(changeText(now, 4, { ...to, ...on })).toContain("You can then release 4 held signals.");
    expect(changeText(now, 4, to)).toContain("4 held signals stay held");
    for (const overages of [true, false]) expect(changeText(now, 0, { ...to, overages })).not.toMatch(/release|stay/);
  });

  test("does not offer a release if no held signal fits", () => {
    expect(changeText(usage({ accepted: 100, held: 10 }), 10, to)).not.toContain("release");
  });

  test("states the price of overages if one is configured", () => {
    const textFor = (overagePrice: OveragePrice | null) =>
      changeText(usage({ accepted: 900 }), 0, { ...to, ...on, overagePrice });
    expect(textFor(null)).toContain("All signals are accepted. Those beyond 100 per period are billed.");
    expect(textFor({ perThousand: 0.4, currency: "EUR" })).toContain("billed at €0.40 per 1,000.");
    expect(textFor({ perThousand: 0.0025, currency: "USD" })).toContain("at $0.0025 per 1,000");
    expect(textFor({ perThousand: 120, currency: "JPY" })).toContain("at ¥120 per 1,000");
    expect([costText(2_500, null), costText(0, { perThousand: 0.4, currency: "EUR" })]).toEqual(["", ""]);
    expect(costText(2_500, { perThousand: 0.4, currency: "EUR" })).toBe(" (about €1.00)");
  });
});

const NOW = Date.UTC(2031, 2, 1);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

function room(more: Partial<Room> = {}): Room {
  return {
    level: "ok",
    store: { bytes: 1_250_000, maxBytes: 9_000_000_000 },
    outbox: { bytes: 20_000, maxBytes: 5_000_000_000 },
    waiting: 0,
    waitingSinceMs: null,
    duplicatesCoveredMs: 7 * DAY,
    ...more,
  };
}

describe("the storage", () => {
  test.each<[store: number, outbox: number, RoomLevel]>([
    [0, 0, "ok"],
    [799, 999, "ok"],
    [800, 0, "filling"],
    [999, 0, "filling"],
    [1_000, 999, "full"],
    [0, 1_000, "rejecting"],
    [1_000, 1_000, "rejecting"],
  ])("with %i of 1,000 bytes in the store and %i in the outbox has level %s", (store, outbox, level) => {
    const of = (bytes: number) => ({ bytes, maxBytes: 1_000 });
    expect(roomLevel({ store: of(store), outbox: of(outbox) })).toBe(level);
  });

  test.each([
    [0, 9_000_000_000, "0 bytes of 9 GB (0.0%)"],
    [999, 9_000_000_000, "999 bytes of 9 GB (0.0%)"],
    [1_250_000, 9_000_000_000, "1.3 MB of 9 GB (0.0%)"],
    [8_999_999_999, 9_000_000_000, "9 GB of 9 GB (99%)"],
    [10_000_000_000_000, 20_000_000_000_000, "10,000 GB of 20,000 GB (50%)"],
    [99_900, 1_000_000, "99.9 KB of 1 MB (10.0%)"],
  ])("shows %i of %i bytes as %s", (bytes, maxBytes, text) => {
    expect(storedText(room({ store: { bytes, maxBytes } }))).toBe(text);
  });

  const full = { bytes: 1_000, maxBytes: 1_000 };
  const filling = { bytes: 855, maxBytes: 1_000 };
  test.each<[RoomLevel, Partial<Room>, string, RegExp, RegExp]>([
    ["filling", { store: filling }, "warn", /^Storage is 85% full\.$/, /retention, delete people/],
    ["full", { store: full }, "bad", /^Storage is full/, /^12,000 signals .* 3 hours ago\. None is lost.*delete/],
    ["rejecting", { store: full }, "bad", /503/, /^Storage is full\. 12,000 signals are waiting;.*delete people/],
    ["rejecting", {}, "bad", /503/, /^(?!.*delete)12,000 signals are waiting;.*Storage has room/],
  ])("at level %s with %j has a notice with tone %s that says what to do", (level, more, tone, title, text) => {
    const notice = storageNotice(room({ level, waiting: 12_000, waitingSinceMs: NOW - 3 * HOUR, ...more }), NOW);
    expect(notice).toEqual({ tone, title: like(title), text: like(text) });
    expect(storageNotice(room(), NOW)).toBeNull();
  });

  test("counts waiting signals and names the age of the oldest", () => {
    const textFor = (waiting: number, waitingSinceMs: number | null) =>
      waitingText(room({ waiting, waitingSinceMs }), NOW);
    expect(textFor(1, NOW - 5_000)).toBe("1 signal is waiting; the oldest arrived just now.");
    expect([textFor(0, null), textFor(0, NOW), textFor(3, null)]).toEqual(Array(3).fill("No signals are waiting."));
  });

  test.each([
    [7 * DAY, "Detected within 7 days."],
    [7 * DAY - 1, /^Detected within 6 days instead of 7 days/],
    [DAY, /^Detected within 1 day instead/],
    [DAY - 1, /^Detected within 23 hours instead/],
  ])("states the period of duplicate detection if ids are kept for %i ms", (duplicatesCoveredMs, text) => {
    expect(duplicatesText(room({ duplicatesCoveredMs }))).toEqual(like(text));
  });
});

test.each([
  ["", "Usage"],
  ["/plan", "Plan"],
  ["/ledger", "Ledger"],
] as const)("the tab of %j is %s, and an error stands below the tabs", async (current, text) => {
  const tabs = readHtml(await html`${UsageTabs({ base: "/w/a", current, usage: usage(), error: "Why." })}`);
  expect(tabs.all("nav a").map(({ target }) => target)).toEqual(["/w/a/usage", "/w/a/usage/plan", "/w/a/usage/ledger"]);
  expect(tabs.all("[aria-current=page]").map((tab) => tab.text)).toEqual([text]);
  expect(tabs.all(".notice.bad").map((notice) => notice.text)).toEqual(["Nothing was changed Why."]);
});
