/** Events as people read them, and what each kind of destination is sent. */
import { describe, expect, test } from "vitest";
import { maskedTarget, wantedBy } from "../../../../src/domain/events/destination.ts";
import {
  exampleEvent,
  eventSentence,
  type AnyEvent,
  destinationEventTypes,
  eventTypes,
} from "../../../../src/domain/events/workspace-event.ts";
import { emailText, requestBody, slackBody } from "../../../../src/domain/events/request-body.ts";

const PAGES = "https://signals.example.com/w/demo";

test.each([...eventTypes, ...destinationEventTypes])("%s is a sentence with a page", (type) => {
  const { text, page } = eventSentence(exampleEvent(type));
  expect(text).toMatch(/^.+[.!?]$/);
  expect(text).not.toMatch(/undefined|NaN|\[object|null/);
  expect(page).toMatch(/^[a-z-]+(\/[\w%.-]+)*$/);
});

test("a crossing names the person, the threshold and both scores", () => {
  expect(eventSentence(exampleEvent("person.score_crossed"))).toEqual({
    text: "jane@example.com has crossed 50 points: 35 → 55.",
    page: "people/jane%40example.com",
  });
});

describe("what is sent", () => {
  test("to Slack cannot be mark-up that a sender has made", () => {
    const event = exampleEvent("destination.test");
    const evil = { ...event, data: { message: "<!channel> <https://evil.example|click> & more" } } as typeof event;
    expect(slackBody(evil, PAGES)).toEqual({
      text: `\`&lt;!channel&gt; &lt;https://evil.example|click&gt; &amp; more\` <${PAGES}/settings/notifications|Show>`,
    });
  });

  test.each([...eventTypes, ...destinationEventTypes])(
    "to Slack about %s has one link, whatever texts the event has",
    (type) => {
      const evil = "https://evil.example/sign-in`@x.co";
      const event = JSON.parse(
        JSON.stringify(exampleEvent(type)).replaceAll(
          /"(jane@example.com|Website|CRM|A test[^"]*)"/g,
          JSON.stringify(evil),
        ),
      ) as AnyEvent;
      const { text } = slackBody(event, PAGES);
      const outsideCode = text.replaceAll(/`[^`]*`/g, "");
      expect(outsideCode.match(/https?:|\w\.\w+\//g)?.length ?? 0).toBeLessThanOrEqual(2);
      expect(outsideCode).not.toContain("evil.example/sign-in");
    },
  );

  test("by email is the sentence and the link, with a subject of one line", () => {
    const event = exampleEvent("destination.test");
    const evil = { ...event, data: { message: `a\r\nBcc: all@example.com${"x".repeat(200)}` } } as typeof event;
    const { subject, text } = emailText(evil, PAGES);
    expect(subject).not.toMatch(/[\r\n]/);
    expect(subject.length).toBeLessThanOrEqual(121);
    expect(text).toContain(`${PAGES}/settings/notifications`);
  });

  test("to a webhook is the event with its id, its time and its workspace", () => {
    const event = exampleEvent("key.silent");
    expect(JSON.parse(requestBody({ type: "webhook", event, pagesUrl: PAGES }, "ws_1"))).toEqual({
      id: event.id,
      type: "key.silent",
      time: "2026-11-20T13:27:00.000Z",
      workspace: "ws_1",
      data: event.data,
    });
  });
});

describe("a target as it is listed", () => {
  test.each([
    ["slack", "https://hooks.slack.com/services/T000/B000/secretToken", "https://hooks.slack.com/…oken"],
    ["webhook", "https://example.com/in?token=secret", "https://example.com/in?…"],
    ["webhook", "https://example.com/in", "https://example.com/in"],
    ["email", "ops@example.com", "ops@example.com"],
  ] as const)("of a %s holds no secret", (type, target, masked) => {
    expect(maskedTarget(type, target)).toBe(masked);
  });
});

describe("what a workspace's sources are to raise", () => {
  const one = (events: (typeof eventTypes)[number][], state: "active" | "paused" | "disabled" = "active") => ({
    events,
    state,
  });

  test("is what active destinations want, each type once", () => {
    const all = [
      one(["usage.level", "person.scored"]),
      one(["usage.level"]),
      one(["key.silent"], "paused"),
      one(["key.expiring"], "disabled"),
    ];
    expect(wantedBy(all, [])).toEqual({ types: ["person.scored", "usage.level"], thresholds: [], destinations: 4 });
    expect(wantedBy([], [50])).toEqual({ types: [], thresholds: [50], destinations: 0 });
  });

  test("are no crossings where there is no threshold, and thresholds come ascending", () => {
    expect(wantedBy([one(["person.score_crossed"])], [])).toEqual({ types: [], thresholds: [], destinations: 1 });
    expect(wantedBy([one(["person.score_crossed"])], [100, -5, 20]).thresholds).toEqual([-5, 20, 100]);
  });
});
