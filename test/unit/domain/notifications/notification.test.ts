/** Notifications as sentences, and the request bodies of each type of destination. */
import { describe, expect, test } from "vitest";
import {
  exampleNotification,
  notificationSentence,
  type AnyNotification,
  type AnyNotificationType,
  destinationNotificationTypes,
  notificationTypes,
  fallenBelow,
  risenTo,
  withoutPerson,
} from "../../../../src/domain/notifications/notification.ts";
import { emailText, requestBody, slackBody } from "../../../../src/domain/notifications/request-body.ts";

const PAGES = "https://signals.example.com/w/demo";

test.each([...notificationTypes, ...destinationNotificationTypes])("%s has a sentence and a page", (type) => {
  const { text, page } = notificationSentence(exampleNotification(type));
  expect(text).toMatch(/^.+[.!?]$/);
  expect(text).not.toMatch(/undefined|NaN|\[object|null/);
  expect(page).toMatch(/^[a-z-]+(\/[\w%.-]+)*(\?[a-z_]+=[\w%.-]+)?$/);
});

type Changes = Record<string, unknown>;

/** The sentence of the type's example with these changes. */
function sentenceOf(type: AnyNotificationType, changes: Changes = {}): string {
  const notification = exampleNotification(type);
  const { text, page } = notificationSentence({
    ...notification,
    data: { ...notification.data, ...changes },
  } as AnyNotification);
  return `${text} [${page}]`;
}

const PERIOD_END = "The billing period ends on 2026-12-01 00:00 UTC. [usage]";
const ENDED = "A billing period has ended: 500,000 accepted, 12,000 held, 0 rejected, with a limit of ";
const RULE_PAGE = "[rules/rule_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d70]";
const KEY_PAGE = "[settings/api-keys/key_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d6f]";
const FALLEN = [
  { threshold: 20, risen: 0, fallen: 1_200 },
  { threshold: 50, risen: 0, fallen: 300 },
];
const scored = (...emails: string[]) => ({ scoring_signals: emails.map((email) => ({ email, points: -600 })) });

test.each<[AnyNotificationType, Changes, string]>([
  ["person.score_crossed", {}, "jane@example.com has crossed 50 points: 35 → 55. [people/jane%40example.com]"],
  ["person.score_fell", {}, "jane@example.com has fallen below 50 points: 55 → 35. [people/jane%40example.com]"],
  [
    "account.score_crossed",
    {},
    "The account Acme has crossed 200 points: 195 → 215. [accounts/one?external_id=acme-42]",
  ],
  [
    "account.score_fell",
    { external_id: "a&b=c", name: null, threshold: 1 },
    "The account a&b=c has fallen below 1 point: 215 → 195. [accounts/one?external_id=a%26b%3Dc]",
  ],
  ["person.scored", {}, "1 scoring signal, +20 points: jane@example.com. [people/jane%40example.com]"],
  ["person.scored", scored("a", "b", "c", "a"), "4 scoring signals, −2,400 points: a, b, c. [people]"],
  ["person.scored", scored("a", "b", "c", "d", "e"), "5 scoring signals, −3,000 points: a, b, c, 2 more. [people]"],
  [
    "people.rescored",
    {},
    `A mapping rule was applied to the past. Scoring signals: 1,240 added (+24,800 points). Scores have crossed 50 (31 times). ${RULE_PAGE}`,
  ],
  [
    "people.rescored",
    { rule_id: null, changed: 1, removed: 2, points: -5, thresholds: [{ threshold: 50, risen: 0, fallen: 1 }] },
    "A mapping rule was applied to the past. Scoring signals: 1,240 added, 1 changed, 2 removed (−5 points). Scores have fallen below 50 (1 time). [people]",
  ],
  [
    "people.rescored",
    { cause: "points_lapsed", rule_id: null, added: 0, points: -9_000, thresholds: FALLEN },
    "Points have lapsed (−9,000 points). Scores have fallen below 20 (1,200 times), 50 (300 times). [people]",
  ],
  [
    "people.rescored",
    { email: "a@b.c" },
    "Earlier signals now belong to a@b.c. Scoring signals: 1,240 added (+24,800 points). [people/a%40b.c]",
  ],
  ["usage.level", {}, `Usage has reached 80% of the signal limit: 400,000 of 500,000 signals. ${PERIOD_END}`],
  [
    "usage.level",
    { level: "first_rejection" },
    `A signal was rejected because of the signal limit (400,000 of 500,000 signals). ${PERIOD_END}`,
  ],
  ["period.closed", {}, `${ENDED}500,000 signals. It is the first period in a row over the limit. [usage]`],
  [
    "period.closed",
    { streak: 4, extra_room_removed: true },
    `${ENDED}500,000 signals. It is the 4th period in a row over the limit. The extra room beyond the limit has been removed. [usage]`,
  ],
  ["period.closed", { streak: 0, signal_limit: 1 }, `${ENDED}1 signal. [usage]`],
  ["key.expiring", {}, `The API key “Website” expires in 7 days or less, on 2026-11-27 00:00 UTC. ${KEY_PAGE}`],
  [
    "key.expiring",
    { days: 1, successor_id: "key_2" },
    `The API key “Website” expires in 1 day or less, on 2026-11-27 00:00 UTC. It was rotated and is still in use. ${KEY_PAGE}`,
  ],
  [
    "key.silent",
    {},
    `No calls have arrived with the API key “Website” for 3 days (last 2026-11-17 08:00 UTC). ${KEY_PAGE}`,
  ],
  [
    "key.silent",
    { last_used_at: null },
    `No calls have arrived with the API key “Website” for 3 days (never). ${KEY_PAGE}`,
  ],
  [
    "rejections.burst",
    { codes: { event_missing: 2, body_not_json: 60 } },
    `62 of 400 calls of an API key were rejected within minutes: body_not_json (60), event_missing (2). ${KEY_PAGE}`,
  ],
  ["dead_letters.added", {}, "3 signals could not be processed: rules_too_slow (3). [signals/dead-letters]"],
  [
    "misfits.expiring",
    {},
    "12 signals that the template of the key does not fit will be purged from 2026-11-27 13:12 UTC on. Correct the template and replay them. [signals/dead-letters]",
  ],
  ["processing.late", {}, "1,200 signals still to be processed, the oldest since 2026-11-20 13:12 UTC. [signals]"],
  [
    "destination.disabled",
    {},
    "The destination “CRM” was switched off: no delivery has succeeded for five days. [settings/notifications]",
  ],
  [
    "destination.disabled",
    { reason: "gone" },
    "The destination “CRM” was switched off: it answered 410 Gone. [settings/notifications]",
  ],
  ["destination.test", {}, "A test of the destination “CRM”. [settings/notifications]"],
])("the sentence of %s with %j", (type, changes, sentence) => {
  expect(sentenceOf(type, changes)).toBe(sentence);
});

test.each([
  ["person.score_crossed", {}, null],
  ["person.score_fell", {}, null],
  ["account.score_crossed", {}, "unchanged"],
  ["account.score_fell", {}, "unchanged"],
  ["account.score_crossed", { external_id: "jane@example.com", name: null }, null],
  ["account.score_fell", { name: "jane@example.com" }, null],
  ["person.scored", {}, null],
  [
    "person.scored",
    { scoring_signals: [{ email: "jane@example.com" }, { email: "bob@example.com" }] },
    { scoring_signals: [{ email: "bob@example.com" }] },
  ],
  ["people.rescored", { email: "jane@example.com" }, null],
  ["people.rescored", {}, "unchanged"],
  ["key.silent", {}, "unchanged"],
] as const)("%s with %j keeps no data of a deleted person", (type, changes, kept) => {
  const example = exampleNotification(type);
  const notification = { ...example, data: { ...example.data, ...changes } } as AnyNotification;
  const left = withoutPerson(notification, (email) => email === "jane@example.com");
  if (kept === "unchanged") expect(left).toBe(notification);
  else expect(left).toEqual(kept && { ...notification, data: kept });
  expect(withoutPerson(notification, () => false)).toBe(notification);
});

test.each([...notificationTypes, ...destinationNotificationTypes])("%s keeps no address of deleted people", (type) => {
  expect(JSON.stringify(withoutPerson(exampleNotification(type), () => true))).not.toContain("@");
});

describe("the request body", () => {
  test("for Slack escapes mark-up from senders", () => {
    const notification = exampleNotification("destination.test");
    const evil = {
      ...notification,
      data: { message: "<!channel> <https://evil.example|click> & more" },
    } as typeof notification;
    expect(slackBody(evil, PAGES)).toEqual({
      text: `\`&lt;!channel&gt; &lt;https://evil.example|click&gt; &amp; more\` <${PAGES}/settings/notifications|Show>`,
    });
  });

  test.each([...notificationTypes, ...destinationNotificationTypes])(
    "for Slack about %s has one link, whatever texts the notification contains",
    (type) => {
      const evil = "https://evil.example/sign-in`@x.co";
      const notification = JSON.parse(
        JSON.stringify(exampleNotification(type)).replaceAll(
          /"(jane@example.com|Website|CRM|Acme|acme-42|A test[^"]*)"/g,
          JSON.stringify(evil),
        ),
      ) as AnyNotification;
      const { text } = slackBody(notification, PAGES);
      const outsideCode = text.replaceAll(/`[^`]*`/g, "");
      expect(outsideCode.match(/https?:|\w\.\w+\//g)?.length ?? 0).toBeLessThanOrEqual(2);
      expect(outsideCode).not.toContain("evil.example/sign-in");
    },
  );

  test("for email is the sentence and a link, with a subject of one line", () => {
    const notification = exampleNotification("destination.test");
    const evil = {
      ...notification,
      data: { message: `a\r\nBcc: all@example.com${"x".repeat(200)}` },
    } as typeof notification;
    const { subject, text } = emailText(evil, PAGES);
    expect(subject).not.toMatch(/[\r\n]/);
    expect(subject.length).toBeLessThanOrEqual(121);
    expect(text).toContain(`${PAGES}/settings/notifications`);
  });

  test("for a webhook is the notification with its id, its time and its workspace", () => {
    const notification = exampleNotification("key.silent");
    expect(JSON.parse(requestBody({ type: "webhook", notification, pagesUrl: PAGES }, "ws_1"))).toEqual({
      id: notification.id,
      type: "key.silent",
      time: "2026-11-20T13:27:00.000Z",
      workspace: "ws_1",
      data: notification.data,
    });
  });
});

test("the thresholds that a score crosses are those that it rises to or past, and those that it falls below", () => {
  const thresholds = [-10, 0, 50, 100];
  const moves = [
    [0, 100],
    [49, 50],
    [50, 99],
    [-11, -10],
    [100, 99],
    [60, -5],
  ] as const;
  expect(moves.map(([from, to]) => risenTo(from, to, thresholds))).toEqual([[50, 100], [50], [], [-10], [], []]);
  expect(moves.map(([from, to]) => fallenBelow(from, to, thresholds))).toEqual([[], [], [], [], [100], [0, 50]]);
});
