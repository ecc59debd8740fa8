/** Notifications of the Signal Store about scores and dead letters: when, how often, and at what cost. */
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { notificationTypes, type NotificationType } from "../../../src/domain/notifications/notification.ts";
import { noteDeadLetters, raiseDeadLetters } from "../../../src/store/state/dead-letters.ts";
import { SCORED_NOTIFICATION_MAX_SIGNALS, wantNotifications } from "../../../src/store/state/raise-notifications.ts";
import { RAISED_MAX_CHARACTERS } from "../../../src/notifications/raised-notifications.ts";
import { beginDeletion } from "../../../src/store/deletion/person-deletions.ts";
import { recordSignals } from "../../../src/store/record-signals.ts";
import { startRuleJob, stepRuleJob } from "../../../src/store/rules/rule-jobs.ts";
import { assertForSoLong } from "../../support/for-so-long.ts";
import { expectLogged } from "../../support/logged.ts";
import { ofType, takeRaised } from "../../support/raised.ts";
import { readStore } from "../../support/read-store.ts";
import { rowsWritten } from "../../support/sql-cost.ts";
import { inStore, type Sent, type TestStore } from "../../support/store.ts";
import { wanting } from "../../support/wanting.ts";
import { DEAD_LETTERS_PAUSE_MS, nextDeadLetterNotificationMs } from "../../../src/store/state/due.ts";

const NOW = Date.UTC(2026, 0, 10);
const ANN = "ann@example.com";
const BOB = "bob@example.com";

let sent = 0;
/** Scores if its event is E. */
const signal = (email: string, event = "E"): Sent => ({ payload: { event, email, messageId: `m-${sent++}` } });
const visit = (visitor: string, event = "E"): Sent => ({
  payload: { type: "track", event, messageId: `m-${sent++}`, anonymousId: `visitor-${visitor}` },
});
const identify = (visitor: string, email: string): Sent => ({
  payload: { type: "identify", messageId: `m-${sent++}`, anonymousId: `visitor-${visitor}`, traits: { email } },
});

function want(store: TestStore, thresholds: number[] = [50], types: NotificationType[] = [...notificationTypes]): void {
  wantNotifications(store.state, wanting({ types, thresholds }));
  store.state.signals.flush();
}

const taken = ({ state }: TestStore) => takeRaised(state.raised);
const crossed = (store: TestStore) =>
  ofType(taken(store), "person.score_crossed").map(({ email, threshold, score_before, score }) => [
    email,
    threshold,
    score_before,
    score,
  ]);

/** The current rule with which TestStore scores event E. */
const ruleOf = ({ rulesVersion, points }: TestStore) => ({
  id: "rule_1",
  version: rulesVersion ?? 1,
  event: "E",
  match: "all" as const,
  conditions: [],
  scoringSignal: "s",
  points,
});

async function applyRule(store: TestStore, points: number): Promise<void> {
  store.rulesVersion = (store.rulesVersion ?? 1) + 1;
  store.points = points;
  const rule = ruleOf(store);
  startRuleJob(store.state, { ruleId: rule.id, rule, rulesVersion: store.rulesVersion }, NOW);
  store.state.signals.flush();
  while (await stepRuleJob(store.state, store.storage));
}

describe("a threshold", () => {
  test("is reported with the signal that raised the score to it", () =>
    inStore((store) => {
      want(store, [10, 50]);
      store.points = 30;
      const [id] = store.record(NOW, signal(ANN));
      expect(ofType(taken(store), "person.score_crossed")).toEqual([
        { email: ANN, threshold: 10, score: 30, score_before: 0, signal_id: id },
      ]);
    }));

  test(
    "is reported equally for any order, repetition and split of signals with positive points",
    { timeout: 30_000 },
    async () => {
      const history = fc.array(
        fc.record({
          who: fc.nat(2),
          how: fc.constantFrom("named", "anonymous"),
          events: fc.integer({ min: 1, max: 4 }),
        }),
        { minLength: 1, maxLength: 8 },
      );
      const delivery = fc.record({
        order: fc.infiniteStream(fc.nat(1_000)),
        sizes: fc.infiniteStream(fc.integer({ min: 1, max: 5 })),
        newRules: fc.infiniteStream(fc.boolean()),
      });
      await assertForSoLong(
        fc.asyncProperty(history, delivery, async (parts, { order, sizes, newRules }) => {
          const emails = [ANN, BOB, "cyd@example.com"];
          const all = parts.flatMap(({ who, how, events }) =>
            Array.from({ length: events }, () => (how === "named" ? signal(emails[who] ?? "") : visit(`v${who}`))),
          );
          const identifies = emails.map((email, who) => identify(`v${who}`, email));
          const scores = emails.map(
            (_, who) => 5 * parts.reduce((sum, part) => sum + (part.who === who ? part.events : 0), 0),
          );
          const expected = emails
            .flatMap((email, who) =>
              [10, 15, 30]
                .filter((threshold) => (scores[who] ?? 0) >= threshold)
                .map((threshold) => `${email} ${threshold}`),
            )
            .sort();
          const reported = await inStore(async (store) => {
            want(store, [10, 15, 30]);
            store.rulesVersion = 1;
            const passed: string[] = [];
            const places = [...all, ...identifies, ...all.slice(0, 3)].map((item) => ({
              item,
              at: order.next().value,
            }));
            const queue = places.sort((a, b) => a.at - b.at).map((place) => place.item);
            while (queue.length > 0) {
              // Jobs link signals that older rules have evaluated.
              if (newRules.next().value) store.rulesVersion++;
              store.record(NOW, ...queue.splice(0, sizes.next().value));
              if (newRules.next().value) await store.linkAll();
            }
            await store.linkAll();
            for (const { email, threshold } of ofType(taken(store), "person.score_crossed"))
              passed.push(`${email} ${threshold}`);
            return passed.sort();
          });
          expect(reported).toEqual(expected);
        }),
        { numRuns: 150, limitMs: 10_000 },
      );
    },
  );
});

test(
  "a threshold is reported once for each batch that raises a score to it from below",
  {
    timeout: 30_000,
  },
  async () => {
    const THRESHOLDS = [-10, 0, 10, 25];
    const batch = fc.array(fc.record({ who: fc.constantFrom(ANN, BOB), points: fc.integer({ min: -30, max: 30 }) }), {
      minLength: 1,
      maxLength: 4,
    });
    await assertForSoLong(
      fc.asyncProperty(fc.array(batch, { minLength: 1, maxLength: 8 }), async (batches) => {
        await inStore((store) => {
          want(store, THRESHOLDS);
          const scores = new Map<string, number>();
          for (const signals of batches) {
            const before = new Map(scores);
            const lines = signals.map(({ who, points }) => {
              store.points = points;
              store.rulesVersion = (store.rulesVersion ?? 1) + 1;
              scores.set(who, (scores.get(who) ?? 0) + points);
              return store.signal(NOW, signal(who));
            });
            recordSignals(store.state, lines, NOW);
            const expected = [...scores].flatMap(([who, score]) => {
              const was = before.get(who) ?? 0;
              return THRESHOLDS.filter((at) => was < at && at <= score).map((at) => [who, at, was, score]);
            });
            expect(crossed(store).toSorted(byText)).toEqual(expected.toSorted(byText));
          }
        });
      }),
      { numRuns: 150, limitMs: 10_000 },
    );
  },
);

const byText = (a: unknown, b: unknown) => JSON.stringify(a).localeCompare(JSON.stringify(b));

describe("scoring signals", () => {
  test("are reported once per batch, in received order, each with the new score", () =>
    inStore((store) => {
      want(store);
      const [first, second, , fourth] = store.record(NOW, signal(ANN), signal(BOB), signal(ANN, "other"), signal(ANN));
      const [only, ...others] = ofType(taken(store), "person.scored");
      expect(others).toEqual([]);
      const common = {
        scoring_signal: "s",
        points: 5,
        rule_id: "rule_1",
        event: "E",
        received_at: new Date(NOW).toISOString(),
      };
      expect(only?.scoring_signals).toEqual([
        { ...common, email: ANN, score: 5, signal_id: first },
        { ...common, email: BOB, score: 5, signal_id: second },
        { ...common, email: ANN, score: 10, signal_id: fourth },
      ]);
    }));

  test("are several notifications in one row for a large batch", () =>
    inStore((store) => {
      want(store);
      store.record(NOW, ...Array.from({ length: 2 * SCORED_NOTIFICATION_MAX_SIGNALS + 1 }, () => signal(ANN)));
      expect(store.sql.exec("SELECT 1 FROM raised_notifications").toArray()).toHaveLength(1);
      const lengths = ofType(taken(store), "person.scored").map(({ scoring_signals: all }) => all.length);
      expect(lengths).toEqual([SCORED_NOTIFICATION_MAX_SIGNALS, SCORED_NOTIFICATION_MAX_SIGNALS, 1]);
    }));
});

describe("many scores of a job", () => {
  test("are one notification if a rule is applied to stored signals, with counts by threshold", () =>
    inStore(async (store) => {
      store.points = 20;
      store.record(NOW, signal(ANN), signal(ANN), signal(BOB));
      want(store, [30, 50]);
      await applyRule(store, 30);
      expect(taken(store).map(({ type, data }) => ({ type, data }))).toEqual([
        {
          type: "people.rescored",
          data: {
            cause: "rule_applied",
            rule_id: "rule_1",
            email: null,
            added: 0,
            changed: 3,
            removed: 0,
            points: 30,
            thresholds: [
              { threshold: 30, risen: 1, fallen: 0 },
              { threshold: 50, risen: 1, fallen: 0 },
            ],
          },
        },
      ]);
      await applyRule(store, 30);
      expect(taken(store)).toEqual([]);
    }));

  test("are reported when another job of the rule replaces the job", () =>
    inStore(async (store) => {
      store.points = 20;
      for (let count = 0; count < 3; count++) {
        store.record(NOW, signal(ANN));
        store.seal();
      }
      want(store);
      [store.points, store.rulesVersion] = [30, 2];
      const rule = ruleOf(store);
      startRuleJob(store.state, { ruleId: rule.id, rule, rulesVersion: 2 }, NOW);
      await stepRuleJob(store.state, store.storage, 1);
      await applyRule(store, 31);
      const counts = ofType(taken(store), "people.rescored").map(({ changed, points }) => [changed, points]);
      expect(counts).toEqual([
        [1, 10],
        [3, 23],
      ]);
    }));

  test("are one notification for the linked visitor", () =>
    inStore(async (store) => {
      want(store, []);
      store.rulesVersion = 1;
      const visits = 1_200;
      store.record(NOW, ...Array.from({ length: visits }, () => visit("a")), visit("b"));
      store.rulesVersion = 2;
      store.record(NOW, identify("a", ANN));
      expect(taken(store)).toEqual([]);
      await store.linkAll();
      const counts = { added: visits, changed: 0, removed: 0, points: 5 * visits, thresholds: [] };
      expect(taken(store).map(({ type, data }) => ({ type, data }))).toEqual([
        { type: "people.rescored", data: { cause: "signals_linked", rule_id: null, email: ANN, ...counts } },
      ]);
    }));
});

describe("linked signals", () => {
  const at = (receivedAtMs: number, message: Sent): Sent => ({ ...message, receivedAtMs });
  const rescored = (store: TestStore) =>
    ofType(taken(store), "people.rescored").map(({ email, added, changed, removed, points }) => [
      email,
      added,
      changed,
      removed,
      points,
    ]);

  test.each([3, 700])("are reported with the person of each, if two persons had the id (%i)", (visits) =>
    inStore(async (store) => {
      store.rulesVersion = 1;
      const many = (receivedAtMs: number) => Array.from({ length: visits }, () => at(receivedAtMs, visit("a")));
      store.record(NOW, ...many(NOW - 500), ...many(NOW - 100));
      want(store, []);
      store.rulesVersion = 2;
      store.record(NOW, at(NOW - 1_000, identify("a", ANN)), at(NOW - 300, identify("a", BOB)));
      await store.linkAll();
      expect(rescored(store).sort()).toEqual([
        [ANN, visits, 0, 0, 5 * visits],
        [BOB, visits, 0, 0, 5 * visits],
      ]);
    }),
  );

  test("are reported for their next person only if the score differs", () =>
    inStore(async (store) => {
      const track = (userId: string): Sent => ({
        payload: { type: "track", event: "E", messageId: `m-${sent++}`, anonymousId: "visitor-a", userId },
      });
      const known = (userId: string, email: string): Sent => ({
        payload: { type: "identify", messageId: `m-${sent++}`, userId, traits: { email } },
      });
      store.rulesVersion = 1;
      store.record(NOW, identify("a", ANN));
      store.record(NOW, track("u-1"), track("u-1"));
      want(store, []);
      store.record(NOW, known("u-1", BOB));
      await store.linkAll();
      expect(rescored(store)).toEqual([]);
      store.record(NOW, track("u-3"));
      store.points = 11;
      store.rulesVersion = 2;
      store.record(NOW, known("u-3", BOB));
      await store.linkAll();
      expect(rescored(store)).toEqual([[BOB, 0, 1, 0, 6]]);
    }));
});

describe("dead letters", () => {
  const dead = (): Sent => ({ payload: { n: sent++ }, dead: true });

  test("are reported at once, and later dead letters once a minute, by reason", () =>
    inStore((store) => {
      want(store);
      store.record(NOW, dead(), dead(), signal(ANN, "other"));
      expect(ofType(taken(store), "dead_letters.added")).toEqual([{ signals: 2, reasons: { "Too much work": 2 } }]);
      store.record(NOW + 1, dead());
      store.restart();
      store.record(NOW + 2, dead());
      expect(taken(store)).toEqual([]);
      expect(nextDeadLetterNotificationMs(store.state)).toBe(NOW + DEAD_LETTERS_PAUSE_MS);
      raiseDeadLetters(store.state, NOW + DEAD_LETTERS_PAUSE_MS);
      expect(ofType(taken(store), "dead_letters.added")).toEqual([{ signals: 2, reasons: { "Too much work": 2 } }]);
      expect(nextDeadLetterNotificationMs(store.state)).toBeNull();
      store.record(NOW + 2 * DEAD_LETTERS_PAUSE_MS, dead());
      expect(ofType(taken(store), "dead_letters.added")).toHaveLength(1);
      store.record(NOW + 2 * DEAD_LETTERS_PAUSE_MS + 1, dead());
      want(store, [], ["person.scored"]);
      expect(nextDeadLetterNotificationMs(store.state)).toBeNull();
    }));

  test("are announced at once after the clock was set back", () =>
    inStore((store) => {
      want(store);
      const announced = (atMs: number) => noteDeadLetters(store.state, ["Too much work"], atMs).length;
      expect([announced(NOW + 3_600_000), announced(NOW), announced(NOW + 1)]).toEqual([1, 1, 0]);
    }));

  test("have a bounded number of reasons in a notification; the rest is counted together", () =>
    inStore((store) => {
      want(store);
      const reasons = Array.from({ length: 30 }, (_, n) => `reason ${n} ${"x".repeat(1_000)}`);
      const notifications = noteDeadLetters(store.state, [...reasons, ...reasons], NOW);
      const counts = ofType(notifications, "dead_letters.added")[0]?.reasons ?? {};
      expect(Object.values(counts)).toEqual([...Array.from({ length: 20 }, () => 2), 20]);
      expect(counts["Other reasons"]).toBe(20);
      expect(JSON.stringify(notifications).length).toBeLessThan(5_000);
    }));
});

describe("waiting notifications", () => {
  test("lose everything about a deleted person, and nothing about others", () =>
    inStore((store) => {
      want(store, [5]);
      store.record(NOW, signal(ANN), signal(BOB));
      store.record(NOW, signal(ANN));
      beginDeletion(store.state, "del_1", ANN, NOW);
      const notifications = taken(store);
      expect(JSON.stringify(notifications)).not.toContain(ANN);
      expect(notifications.map(({ type }) => type)).toEqual(["person.score_crossed", "person.scored"]);
      expect(JSON.stringify(notifications)).toContain(BOB);
      expect(store.state.raised.isEmpty).toBe(true);
    }));

  test("are bounded: signals beyond the bound are recorded without notifications", () =>
    inStore((store) => {
      expectLogged("notifications_not_raised");
      want(store);
      store.sql.exec("INSERT INTO raised_notifications VALUES (?, '[]'), (?, '[]')", 2, RAISED_MAX_CHARACTERS + 2);
      store.restart();
      store.record(NOW, signal(ANN));
      expect(taken(store)).toEqual([]);
      store.record(NOW, signal(ANN));
      expect(ofType(taken(store), "person.scored")).toHaveLength(1);
    }));
});

test("rows of notifications are written only if a destination wants them: one to raise a batch, one to forward it", async () => {
  /** Rows of a batch of one signal of a known person. */
  const rowsOf = (act: (store: TestStore) => void, prepare: (store: TestStore) => void = () => {}): Promise<number> =>
    inStore((store) => {
      store.record(NOW, signal(ANN));
      prepare(store);
      return rowsWritten(store.sql, () => act(store));
    });
  const record = (store: TestStore): void => void store.record(NOW, signal(ANN));
  const plain = await rowsOf(record);
  expect(await rowsOf(record, (store) => want(store, [], ["usage.level"]))).toBe(plain);
  expect(await rowsOf(record, (store) => want(store, [7]))).toBe(plain + 1);
  const forwarded = (store: TestStore): void => {
    record(store);
    expect(taken(store)).toHaveLength(2);
  };
  expect(await rowsOf(forwarded, (store) => want(store, [7]))).toBe(plain + 2);
});

test("wanted notification types survive a restart, until they are cleared", async () => {
  const set = (types: NotificationType[]) => env.SIGNAL_STORE.getByName("wishes").wantNotifications(wanting({ types }));
  const wanted = () => readStore("wishes", ({ head }) => head.wanted);
  await set(["person.scored"]);
  expect(await wanted()).toEqual(wanting({ types: ["person.scored"] }));
  await set([]);
  expect(await wanted()).toBeNull();
});
