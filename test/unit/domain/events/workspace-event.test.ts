/** Events as sentences, and the request bodies of each type of destination. */
import { describe, expect, test } from "vitest";
import {
  exampleEvent,
  eventSentence,
  type AnyEvent,
  destinationEventTypes,
  eventTypes,
} from "../../../../src/domain/events/workspace-event.ts";
import { emailText, requestBody, slackBody } from "../../../../src/domain/events/request-body.ts";

const PAGES = "https://signals.example.com/w/demo";

test.each([...eventTypes, ...destinationEventTypes])("%s has a sentence and a page", (type) => {
  const { text, page } = eventSentence(exampleEvent(type));
  expect(text).toMatch(/^.+[.!?]$/);
  expect(text).not.toMatch(/undefined|NaN|\[object|null/);
  expect(page).toMatch(/^[a-z-]+(\/[\w%.-]+)*$/);
});

test("the sentence of a crossing names the person, the threshold and both scores", () => {
  expect(eventSentence(exampleEvent("person.score_crossed"))).toEqual({
    text: "jane@example.com has crossed 50 points: 35 → 55.",
    page: "people/jane%40example.com",
  });
});

describe("the request body", () => {
  test("for Slack escapes mark-up from senders", () => {
    const event = exampleEvent("destination.test");
    const evil = { ...event, data: { message: "<!channel> <https://evil.example|click> & more" } } as typeof event;
    expect(slackBody(evil, PAGES)).toEqual({
      text: `\`&lt;!channel&gt; &lt;https://evil.example|click&gt; &amp; more\` <${PAGES}/settings/notifications|Show>`,
    });
  });

  test.each([...eventTypes, ...destinationEventTypes])(
    "for Slack about %s has one link, whatever texts the event contains",
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

  test("for email is the sentence and a link, with a subject of one line", () => {
    const event = exampleEvent("destination.test");
    const evil = { ...event, data: { message: `a\r\nBcc: all@example.com${"x".repeat(200)}` } } as typeof event;
    const { subject, text } = emailText(evil, PAGES);
    expect(subject).not.toMatch(/[\r\n]/);
    expect(subject.length).toBeLessThanOrEqual(121);
    expect(text).toContain(`${PAGES}/settings/notifications`);
  });

  test("for a webhook is the event with its id, its time and its workspace", () => {
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
