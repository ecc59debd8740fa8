/** §8.2–§8.6 in words: notices at 80, 100 and 200 %, and how far the extra room is from ending. */
import { describe, expect, test } from "vitest";
import {
  changeSaid,
  heldSaid,
  streakSaid,
  thatCost,
  usageNotice,
  usageNoticeName,
} from "../../../src/pages/views/usage-copy.ts";
import type { OveragePrice } from "../../../src/domain/quota/billing.ts";
import type { Usage } from "../../../src/quota/protocol.ts";

function usage(more: Partial<Usage> = {}): Usage {
  return {
    periodStartMs: Date.UTC(2031, 2, 1),
    periodEndMs: Date.UTC(2031, 3, 1),
    signalLimit: 100,
    paid: true,
    overages: false,
    accepted: 0,
    held: 0,
    rejected: 0,
    overage: 0,
    streak: 0,
    extraRoomRemoved: false,
    configVersion: 1,
    history: [],
    ...more,
  };
}

describe("notices of usage", () => {
  test("there is none below 80 %", () => {
    expect(usageNotice(usage({ accepted: 79 }))).toBeNull();
  });

  test("at exactly the limit every signal was processed, and it says so", () => {
    expect(usageNotice(usage({ accepted: 99 }))?.title).toBe("99 % of the signal limit is used.");
    expect(usageNotice(usage({ accepted: 80 }))?.text).toContain("Up to and including the limit");
    expect(usageNotice(usage({ accepted: 100 }))).toMatchObject({
      tone: "warn",
      title: "The signal limit is reached.",
    });
    expect(usageNotice(usage({ accepted: 100, held: 1 }))?.title).toContain("1 signal was held");
  });

  test("at twice the limit signals are refused", () => {
    expect(usageNotice(usage({ accepted: 100, held: 100, rejected: 3 }))).toMatchObject({
      tone: "bad",
      title: "Twice the signal limit is reached: signals are refused.",
      text: expect.stringContaining("(3 signals so far)") as string,
    });
  });

  test("without extra room signals are refused from the limit on", () => {
    expect(usageNotice(usage({ accepted: 100, extraRoomRemoved: true }))?.title).toContain("signals are refused");
    // A workspace that lost a larger plan in mid-period.
    expect(usageNotice(usage({ accepted: 300, extraRoomRemoved: true }))?.title).toContain("signals are refused");
  });

  test("with overages on nothing is held or refused", () => {
    for (const accepted of [80, 100, 150, 200, 900]) {
      const notice = usageNotice(usage({ accepted, overages: true, overage: Math.max(0, accepted - 100) }));
      expect(notice?.text).toMatch(/^Overages are on/);
      expect(notice?.tone).not.toBe("bad");
    }
  });
});

describe("each notice says what becomes of signals, and what can be done", () => {
  const WAYS_OUT = "Switch overages on or change to a larger plan";
  test.each([
    [
      { accepted: 60, held: 20 },
      "warn",
      "80 % of the signal limit is used.",
      `Up to and including the limit, signals are processed normally; those beyond it are held. ${WAYS_OUT} to have them processed.`,
    ],
    [
      { accepted: 85, overages: true },
      "info",
      "85 % of the signal limit is used.",
      "Overages are on: signals beyond the limit are accepted, and billed as overages.",
    ],
    [
      { accepted: 90, extraRoomRemoved: true },
      "warn",
      "90 % of the signal limit is used.",
      `This workspace has no extra room any more: signals beyond the limit are refused. ${WAYS_OUT} to avoid that.`,
    ],
    [
      { accepted: 100 },
      "warn",
      "The signal limit is reached.",
      `Every signal so far was processed normally; the next ones are held. ${WAYS_OUT} to have them processed.`,
    ],
    [
      { accepted: 100, held: 2 },
      "warn",
      "The signal limit is passed: 2 signals were held.",
      `Held signals update no scores, and are deleted on Apr 1, 2031. ${WAYS_OUT}, then release them.`,
    ],
    [
      { accepted: 101, overages: true, overage: 1 },
      "info",
      "The signal limit is used up; signals are accepted all the same.",
      "Overages are on: 1 signal beyond the limit so far in this period.",
    ],
    [
      { accepted: 100, extraRoomRemoved: true },
      "bad",
      "The signal limit is reached: signals are refused.",
      `The extra room has ended, so that every further signal gets a 429 until Apr 1, 2031. ${WAYS_OUT} to accept signals again.`,
    ],
    [
      { accepted: 100, held: 100, rejected: 1 },
      "bad",
      "Twice the signal limit is reached: signals are refused.",
      `Every further signal gets a 429 until Apr 1, 2031 (1 signal so far). ${WAYS_OUT} to accept signals again.`,
    ],
    [
      { accepted: 300, overages: true, overage: 200 },
      "warn",
      "Twice the signal limit is used; signals are accepted all the same.",
      "Overages are on: 200 signals beyond the limit so far in this period. A larger plan may cost less.",
    ],
  ] as const)("%j", (more, tone, title, text) => {
    expect(usageNotice(usage(more))).toEqual({ tone, title, text });
  });

  test("a dismissed notice returns with the next level, refusal or period", () => {
    const name = (more: Partial<Usage>) => usageNoticeName(usage(more));
    expect(name({ accepted: 79 })).toBeNull();
    const names = [
      { accepted: 60, held: 20 },
      { accepted: 100 },
      { accepted: 100, held: 100 },
      { accepted: 100, held: 100, rejected: 1 },
      { accepted: 80, periodStartMs: Date.UTC(2031, 3, 1) },
    ].map(name);
    expect(new Set(names).size).toBe(names.length);
    expect(names).not.toContain(null);
    expect(name({ accepted: 99 })).toBe(name({ accepted: 80 }));
    expect(name({ accepted: 100, held: 100, rejected: 9 })).toBe(names[3]);
  });
});

describe("§8.5: the extra room", () => {
  test.each([
    [
      { streak: 3, extraRoomRemoved: true },
      "Three periods in a row ended over the limit. Signals past the limit are refused at once. Switch overages on or change to a larger plan to have more accepted.",
    ],
    [
      { streak: 3, extraRoomRemoved: true, overages: true },
      "Three periods in a row ended over the limit. While overages are on nothing is refused; without them, signals past the limit are refused at once.",
    ],
    [{ paid: false }, "Only on paid plans do periods that end over the limit count towards losing it."],
    [{ overages: true }, "Periods with overages on never count towards losing the extra room."],
    [
      { overages: true, streak: 1 },
      "The last period ended over the limit. If overages are still on when this period ends, the count starts again from none.",
    ],
    [
      {},
      "3 in a row end the extra room for good: 3 more would. A period that ends within the limit starts the count again from none.",
    ],
    [
      { streak: 1 },
      "3 in a row end the extra room for good: 2 more would. A period that ends within the limit starts the count again from none.",
    ],
    [
      { streak: 1, accepted: 100, held: 20 },
      "This one is over it already. If it ends so, that makes 2 of the 3 in a row that end the extra room for good. To prevent that, switch overages on or change to a plan of at least 120 signals before the period ends.",
    ],
    [
      { streak: 2 },
      "Each of the last 2 periods ended over the limit. If this one does too, the extra room ends for good. A period that ends within the limit starts the count again from none.",
    ],
  ] as const)("%j", (more, text) => {
    expect(streakSaid(usage(more)).text).toBe(text);
  });

  const titles = (more: Partial<Usage>) => [streakSaid(usage(more)).tone, streakSaid(usage(more)).title];

  test("each situation has its own text", () => {
    expect(titles({ streak: 0 })).toEqual(["good", "No period in a row has ended over the limit."]);
    expect(titles({ streak: 1 })).toEqual(["warn", "The last period ended over the limit."]);
    expect(titles({ streak: 2 })).toEqual(["warn", "One more period over the limit ends the extra room."]);
    expect(titles({ streak: 2, accepted: 100, held: 1 })).toEqual(["bad", "The extra room ends with this period."]);
    expect(titles({ streak: 3, extraRoomRemoved: true })).toEqual(["bad", "The extra room has ended for good."]);
    expect(titles({ streak: 2, overages: true })).toEqual(["good", "Overages are on: the extra room is safe."]);
    expect(titles({ paid: false, accepted: 100, held: 50 })).toEqual([
      "good",
      "The extra room cannot be lost on this plan.",
    ]);
  });

  test("exactly the limit is within it; one more exceeds it, and the text states the remedy and the deadline", () => {
    expect(streakSaid(usage({ streak: 2, accepted: 100 })).text).not.toContain("over it already");
    const { text } = streakSaid(usage({ streak: 2, accepted: 100, held: 5 }));
    expect(text).toBe(
      "Each of the last 2 periods ended over the limit. This one is over it already. If this one does too, the extra " +
        "room ends for good. To prevent that, switch overages on or change to a plan of at least 105 signals before " +
        "the period ends.",
    );
  });

  test("once it has ended it stays so on an unpaid plan and with overages", () => {
    for (const more of [{ paid: false }, { overages: true }]) {
      expect(streakSaid(usage({ extraRoomRemoved: true, ...more })).title).toBe("The extra room has ended for good.");
    }
  });
});

describe("held signals", () => {
  const said = (more: Partial<Usage>, stored: number) => {
    const { fit, title, text } = heldSaid(usage(more), stored);
    return [fit, title + text];
  };

  test("say how many fit", () => {
    expect(said({ accepted: 100, held: 7 }, 7)).toEqual([
      0,
      "7 held signals in this period; none fits: it takes a larger plan or overages to release them.",
    ]);
    expect(said({ accepted: 100, held: 7, signalLimit: 103 }, 7)).toEqual([
      3,
      "7 held signals in this period; 3 of them fit now.",
    ]);
    expect(said({ accepted: 100 }, 0)).toEqual([0, "0 held signals in this period."]);
  });

  test("say how many were released and are on their way, until the store has processed them", () => {
    expect(said({ accepted: 60, held: 0 }, 60)).toEqual([
      0,
      "0 held signals in this period. 60 released signals are being processed.",
    ]);
    expect(said({ accepted: 103, held: 4, signalLimit: 103 }, 5)[1]).toContain("1 released signal is being processed.");
  });

  test("that turned out to be duplicates are held no longer", () => {
    expect(said({ accepted: 100, held: 7, overages: true }, 5)).toEqual([
      5,
      "5 held signals in this period; 5 of them fit now.",
    ]);
  });
});

describe("what a change will do", () => {
  const to = { signalLimit: 100, paid: true, overages: false, overagePrice: null };

  test("says how many more are accepted, and what becomes of those beyond", () => {
    expect(changeSaid(usage({ accepted: 40 }), to)).toContain(
      "60 more signals are accepted in this period; then as many again are held",
    );
    expect(changeSaid(usage({ accepted: 40, extraRoomRemoved: true }), to)).toContain("refused at once");
    expect(changeSaid(usage({ accepted: 100 }), to)).toContain("the next signals are held");
    expect(changeSaid(usage({ accepted: 200 }), to)).toContain("the next signals are refused");
    expect(changeSaid(usage({ accepted: 100, extraRoomRemoved: true }), to)).toContain("the next signals are refused");
  });

  test("says what overages cost, where that is configured", () => {
    const said = (overagePrice: OveragePrice | null) =>
      changeSaid(usage({ accepted: 900 }), { ...to, overages: true, overagePrice });
    const accepted = "Every signal is accepted; those beyond 100 in a period are billed as overages";
    expect(said(null)).toContain(`${accepted}.`);
    expect(said({ perThousand: 0.4, currency: "EUR" })).toContain(`${accepted} at €0.40 per 1,000.`);
    expect(said({ perThousand: 0.0025, currency: "USD" })).toContain("at $0.0025 per 1,000");
    expect(said({ perThousand: 120, currency: "JPY" })).toContain("at ¥120 per 1,000");
  });

  test("is said in whole sentences: what holds from when, what comes next, and what of that which is held", () => {
    expect(changeSaid(usage({ accepted: 39, held: 60 }), { ...to, signalLimit: 100 })).toBe(
      "It takes effect with the next signal. 1 more signal is accepted in this period; then as many again are held, and " +
        "beyond 200 they are refused. Signals already held stay held until you release them: 60 fit then.",
    );
    expect(changeSaid(usage({ accepted: 40 }), { ...to, overages: true })).toBe(
      "It takes effect with the next signal. Every signal is accepted; those beyond 100 in a period are billed as overages.",
    );
    expect(changeSaid(usage({ accepted: 40 }), { ...to, signalLimit: 50 })).toContain("beyond 100 they are refused.");
  });

  test("says how many held signals would fit", () => {
    expect(changeSaid(usage({ accepted: 10, held: 10 }), to)).toContain("10 fit then");
    expect(changeSaid(usage({ accepted: 95, held: 10 }), to)).toContain("5 fit then");
    expect(changeSaid(usage({ accepted: 100, held: 10 }), to)).not.toContain("fit then");
  });
});

test("the price of overages is shown if it is configured", () => {
  expect(thatCost(2_500, null)).toBe("");
  expect(thatCost(2_500, { perThousand: 0.4, currency: "EUR" })).toBe(", about €1.00");
});
