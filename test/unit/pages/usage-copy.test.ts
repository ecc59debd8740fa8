/** §8.2–§8.6 in words: notices at 80, 100 and 200 %, and how far the extra room is from ending. */
import { describe, expect, test } from "vitest";
import type { OveragePrice } from "../../../src/domain/quota/billing.ts";
import {
  changeSaid,
  heldSaid,
  streakSaid,
  thatCost,
  usageNotice,
  usageNoticeName,
} from "../../../src/pages/views/usage-copy.ts";
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

const removed = { extraRoomRemoved: true };

describe("the notice of usage", () => {
  test("does not exist below 80 %", () => {
    expect(usageNotice(usage({ accepted: 79 }))).toBeNull();
  });

  const WAYS_OUT = /Switch overages on or change to a larger plan/;
  test.each([
    [
      { accepted: 60, held: 20 },
      "warn",
      "80 % of the signal limit is used.",
      /beyond it are held.*have them processed/,
    ],
    [{ accepted: 99 }, "warn", "99 % of the signal limit is used.", /^Up to and including the limit/],
    [{ accepted: 90, ...removed }, "warn", "90 % of the signal limit is used.", /beyond the limit are refused/],
    [
      { accepted: 100 },
      "warn",
      "The signal limit is reached.",
      /^Every signal so far was processed.*next ones are held/,
    ],
    [{ accepted: 100, held: 1 }, "warn", "The signal limit is passed: 1 signal was held.", /deleted on Apr 1, 2031/],
    [
      { accepted: 100, ...removed },
      "bad",
      "The signal limit is reached: signals are refused.",
      /429 until Apr 1, 2031/,
    ],
    // A workspace that lost a larger plan within the period.
    [{ accepted: 300, ...removed }, "bad", /: signals are refused\.$/, /429 until Apr 1, 2031/],
    [
      { accepted: 100, held: 100, rejected: 3 },
      "bad",
      "Twice the signal limit is reached: signals are refused.",
      /429 until Apr 1, 2031 \(3 signals so far\)/,
    ],
  ] as const)("at %j has tone %s and says: %s", (more, tone, title, text) => {
    const notice = usageNotice(usage(more));
    expect([notice?.tone, notice?.title]).toEqual([
      tone,
      title instanceof RegExp ? expect.stringMatching(title) : title,
    ]);
    expect(notice?.text).toMatch(text);
    expect(notice?.text).toMatch(WAYS_OUT);
  });

  test.each([
    [85, "info", "85 % of the signal limit is used.", /signals beyond the limit are accepted, and billed as overages/],
    [
      101,
      "info",
      "The signal limit is used up; signals are accepted all the same.",
      /1 signal beyond the limit so far/,
    ],
    [300, "warn", "Twice the signal limit is used; signals are accepted all the same.", /A larger plan may cost less/],
  ])("with overages at %i %% has tone %s and says: %s", (accepted, tone, title, text) => {
    const notice = usageNotice(usage({ accepted, overages: true, overage: Math.max(0, accepted - 100) }));
    expect([notice?.tone, notice?.title]).toEqual([tone, title]);
    expect(notice?.text).toMatch(/^Overages are on: /);
    expect(notice?.text).toMatch(text);
  });

  test("if dismissed, returns with the next level, refusal or period", () => {
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

test.each([
  [{}, "good", "No period in a row has ended over the limit.", /: 3 more would\./],
  [{ streak: 1 }, "warn", "The last period ended over the limit.", /: 2 more would\./],
  [{ streak: 1, accepted: 100, held: 20 }, "warn", /./, /over it already.*makes 2 of the 3.*at least 120 signals/],
  [{ streak: 2 }, "warn", "One more period over the limit ends the extra room.", /^Each of the last 2 periods/],
  // Exactly the limit is within it.
  [{ streak: 2, accepted: 100 }, "warn", /./, /^(?!.*over it already)/],
  [
    { streak: 2, accepted: 100, held: 1 },
    "bad",
    "The extra room ends with this period.",
    /over it already.*at least 101 signals before the period ends/,
  ],
  [{ streak: 3, ...removed }, "bad", "The extra room has ended for good.", /refused at once\. Switch overages on/],
  [
    { streak: 3, ...removed, overages: true },
    /./,
    "The extra room has ended for good.",
    /nothing is refused; without them/,
  ],
  [{ ...removed, paid: false }, /./, "The extra room has ended for good.", /./],
  [{ paid: false, held: 50 }, "good", "The extra room cannot be lost on this plan.", /^Only on paid plans/],
  [{ overages: true }, "good", "Overages are on: the extra room is safe.", /never count/],
  [
    { overages: true, streak: 1 },
    "good",
    "Overages are on: the extra room is safe.",
    /the count starts again from none/,
  ],
] as const)("§8.5: with %j the extra room has tone %s, title %s", (more, tone, title, text) => {
  const said = streakSaid(usage(more));
  const like = (expected: string | RegExp) => (expected instanceof RegExp ? expect.stringMatching(expected) : expected);
  expect([said.tone, said.title, said.text]).toEqual([like(tone), like(title), like(text)]);
});

test.each([
  [{ accepted: 100 }, 0, 0, "0 held signals in this period."],
  [{ accepted: 100, held: 7 }, 7, 0, "7 held signals in this period; none fits: it takes a larger plan or overages"],
  [{ accepted: 100, held: 7, signalLimit: 103 }, 7, 3, "7 held signals in this period; 3 of them fit now."],
  // Released signals are on their way until the store has processed them.
  [{ accepted: 60 }, 60, 0, "60 released signals are being processed."],
  [{ accepted: 103, held: 4, signalLimit: 103 }, 5, 0, "1 released signal is being processed."],
  // Two of them turned out to be duplicates.
  [{ accepted: 100, held: 7, overages: true }, 5, 5, "5 held signals in this period; 5 of them fit now."],
])("with %j and %i held signals in the store, %i fit: %s", (more, stored, fit, text) => {
  const said = heldSaid(usage(more), stored);
  expect([said.fit, said.title + said.text]).toEqual([fit, expect.stringContaining(text)]);
});

describe("the effect of a change of plan or overages", () => {
  const to = { signalLimit: 100, paid: true, overages: false, overagePrice: null };

  test.each([
    [
      { accepted: 39, held: 60 },
      "1 more signal is accepted in this period; then as many again are held, and beyond 200",
    ],
    [{ accepted: 40, ...removed }, "refused at once"],
    [{ accepted: 100 }, "the next signals are held"],
    [{ accepted: 200 }, "the next signals are refused"],
    [{ accepted: 100, ...removed }, "the next signals are refused"],
    [{ accepted: 10, held: 10 }, "10 fit then"],
    [{ accepted: 95, held: 10 }, "5 fit then"],
  ])("at %j says: %s", (more, text) => {
    const said = changeSaid(usage(more), to);
    expect(said).toMatch(/^It takes effect with the next signal\. /);
    expect(said).toContain(text);
  });

  test("does not mention held signals if none fits", () => {
    expect(changeSaid(usage({ accepted: 100, held: 10 }), to)).not.toContain("fit then");
  });

  test("says what overages cost, where that is configured", () => {
    const said = (overagePrice: OveragePrice | null) =>
      changeSaid(usage({ accepted: 900 }), { ...to, overages: true, overagePrice });
    const accepted = "Every signal is accepted; those beyond 100 in a period are billed as overages";
    expect(said(null)).toContain(`${accepted}.`);
    expect(said({ perThousand: 0.4, currency: "EUR" })).toContain(`${accepted} at €0.40 per 1,000.`);
    expect(said({ perThousand: 0.0025, currency: "USD" })).toContain("at $0.0025 per 1,000");
    expect(said({ perThousand: 120, currency: "JPY" })).toContain("at ¥120 per 1,000");
    expect(thatCost(2_500, null)).toBe("");
    expect(thatCost(2_500, { perThousand: 0.4, currency: "EUR" })).toBe(", about €1.00");
  });
});
