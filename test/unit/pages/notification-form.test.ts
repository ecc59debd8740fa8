/** The forms of the notifications' pages, as they are typed. */
import { html } from "hono/html";
import { describe, expect, test } from "vitest";
import {
  checkDestination,
  emptyDestination,
  readDestination,
  type TypedDestination,
} from "../../../src/pages/notifications/destination-form.tsx";
import {
  DeliveryStatus,
  isInProgress,
  type LastTest,
  statusOf,
} from "../../../src/pages/notifications/notification-parts.tsx";
import { readThresholds } from "../../../src/pages/notifications/notifications.tsx";
import { readHtml } from "../../support/html.ts";

const ID = "dst_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d6f";
const NEW_ID = "dst_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d70";

function typed(changes: Partial<TypedDestination> = {}): TypedDestination {
  const target = "https://crm.example.com/";
  return { id: ID, name: "CRM", type: "webhook", target, headers: [], notifications: ["key.silent"], ...changes };
}

describe("the form of a destination", () => {
  test("is read with its notifications in their order, each once, without unknown notifications", () => {
    const form = new FormData();
    for (const [name, value] of [
      ["id", ID],
      ["name", " CRM "],
      ["type", "slack"],
      ["target", " https://hooks.example.com/x "],
      ["notifications", "usage.level"],
      ["notifications", "person.scored"],
      ["notifications", "usage.level"],
      ["notifications", "toString"],
      ["notifications", "destination.test"],
      ["header_name_0", " X-Api-Key "],
      ["header_value_0", " Bearer k "],
      ["header_name_1", " "],
      ["header_value_2", "v"],
      ["header_name_9", "X-Ninth"],
    ] as const)
      form.append(name, value);
    expect(readDestination(form, NEW_ID)).toEqual({
      id: ID,
      name: " CRM ",
      type: "slack",
      target: "https://hooks.example.com/x",
      headers: [
        { name: "X-Api-Key", value: "Bearer k" },
        { name: "", value: "v" },
      ],
      notifications: ["person.scored", "usage.level"],
    });
  });

  test("without a valid id gets a new one", () => {
    for (const id of ["", "dst_1", `${ID}0`, ID.replace("dst", "key")]) {
      const form = new FormData();
      form.set("id", id);
      expect(readDestination(form, NEW_ID)).toMatchObject({ id: NEW_ID, type: "webhook" });
    }
  });

  test("begins with crossed thresholds chosen, and not with every scoring signal", () => {
    const { notifications } = emptyDestination(ID);
    expect(notifications).toContain("person.score_crossed");
    expect(notifications).not.toContain("person.scored");
  });

  test("shows all errors at once", () => {
    expect(checkDestination(typed({ name: " ", target: "", notifications: [] }), "is_rejected")).toEqual({
      ok: false,
      rejection: {
        name: "Enter a name.",
        target: "Enter the URL.",
        notifications: "Choose at least one notification.",
      },
    });
    expect(checkDestination(typed({ type: "email", target: "" }), "is_rejected")).toEqual({
      ok: false,
      rejection: { target: "Enter the email address." },
    });
  });

  test("keeps the stored target and the values of stored headers if none is typed", () => {
    const headers = [
      { name: "X-Api-Key", value: "" },
      { name: "X-Tenant", value: "t" },
    ];
    expect(checkDestination(typed({ target: "", headers }), "keeps_stored", ["x-api-key"])).toMatchObject({
      ok: true,
      value: { target: "", headers: [{ name: "X-Api-Key" }, { name: "X-Tenant", value: "t" }] },
    });
  });

  test("shows each wrong header at its row", () => {
    const headers = [
      { name: "", value: "v" },
      { name: "X-New", value: "" },
      { name: "Host", value: "ü" },
      { name: "x-new", value: "v" },
    ];
    expect(checkDestination(typed({ headers }), "is_rejected")).toEqual({
      ok: false,
      rejection: {
        header_name_0: "Enter a name for header 1.",
        header_value_1: "Enter a value for X-New.",
        header_name_2: "This header is set by the service or the network.",
        header_value_2: "Only visible ASCII characters, with spaces only inside.",
        header_name_3: "x-new is used twice.",
      },
    });
  });
});

describe("thresholds", () => {
  test.each([
    ["50, 100", [50, 100]],
    [" 100;50\n-5 ", [-5, 50, 100]],
    ["", []],
  ])("%j is read as %j", (text, scores) => {
    expect(readThresholds(text)).toEqual({ ok: true, value: scores });
  });

  test.each([
    ["fifty", "Enter whole numbers"],
    ["50.5", "Enter whole numbers"],
    ["1e3", "Enter whole numbers"],
    ["99999999", "Enter whole numbers"],
    ["1 2 3 4 5 6", "Enter at most 5 scores."],
    ["50 50", "The same score twice."],
  ])("%j is rejected: %s", (text, why) => {
    const read = readThresholds(text);
    expect(read.ok ? "" : read.rejection).toContain(why);
  });
});

test.each([
  ["soon", { dueAtMs: 30_000 }, {}, true],
  ["later", { dueAtMs: 90_000 }, {}, false],
  ["soon, while the destination is paused", { dueAtMs: 30_000 }, { state: "paused" }, false],
  ["soon after a failure", { dueAtMs: 30_000, attempts: [{}] }, { failingSinceMs: -1 }, true],
  ["behind the oldest delivery of a failing destination", { dueAtMs: 30_000 }, { failingSinceMs: -1 }, false],
  ["soon, as a test to a paused destination", { dueAtMs: 30_000, type: "destination.test" }, { state: "paused" }, true],
  ["never", { dueAtMs: null, state: "failed" }, {}, false],
])(
  "the page of a delivery that is due %s refreshes as expected",
  (_, { dueAtMs, ...delivery }, destination, refreshes) => {
    const due = { type: "person.scored", state: "waiting", attempts: [], dueAtMs: dueAtMs && Date.now() + dueAtMs };
    const shown = { ...due, ...delivery } as Parameters<typeof isInProgress>[0];
    const to = { state: "active", failingSinceMs: null, ...destination } as Parameters<typeof isInProgress>[1];
    expect(isInProgress(shown, to)).toBe(refreshes);
  },
);

test.each<[changes: object, lastTest: LastTest, status: string]>([
  [{ lastDeliveredAtMs: 1 }, null, "good Healthy: null"],
  [{ lastDeliveredAtMs: 1 }, "delivered", "good Healthy: null"],
  [{}, null, "info Ready: No notifications yet. Send a test."],
  [{}, "delivered", "info Ready: The test was delivered. No notifications yet."],
  [{ lastDeliveredAtMs: 1 }, "failed", "bad Test failed: Fix the receiver, then send another test."],
  [{ failingSinceMs: 1 }, "failed", "warn Failing: Deliveries are retried"],
  [{ state: "paused", failingSinceMs: 1 }, "failed", "quiet Paused: New notifications are skipped."],
  [{ state: "disabled", disabledReason: "gone" }, null, "bad Switched off: The receiver answered 410 Gone. Fix"],
  [
    { state: "disabled", disabledReason: "failing" },
    null,
    "bad Switched off: No delivery succeeded for five days. Fix",
  ],
  [{ state: "disabled" }, null, "bad Switched off: Fix the receiver"],
  [{ state: "paused", confirmed: false }, null, "warn Unconfirmed: The address was sent a code."],
])("a destination with %j and the last test %j is shown as %s", (changes, lastTest, status) => {
  const healthy = { state: "active", confirmed: true, disabledReason: null, failingSinceMs: null };
  const destination = { ...healthy, lastDeliveredAtMs: null, ...changes } as Parameters<typeof statusOf>[0];
  const { tone, label, text } = statusOf(destination, lastTest);
  expect(`${tone} ${label}: ${String(text)}`.startsWith(status)).toBe(true);
});

const TEST = { type: "destination.test" };
const SOON = 30_000;
const LATER = 90_000;

test.each<[delivery: object, destination: object, status: string]>([
  [{ state: "delivered" }, {}, "good Delivered"],
  [{ state: "failed", endReason: "attempts_failed" }, {}, "bad Failed All attempts failed"],
  [{ state: "failed", endReason: "switched_off" }, {}, "bad Failed Destination was switched off"],
  [{ state: "failed", endReason: "too_many" }, {}, "bad Failed Too many deliveries were waiting"],
  [{ state: "failed", endReason: "person_deleted" }, {}, "bad Failed Person was deleted"],
  [{ state: "failed", endReason: "attempts_failed", ...TEST }, {}, "bad Failed"],
  [{ dueInMs: SOON }, {}, "info In progress"],
  [{ dueInMs: 0, attempts: [{}] }, {}, "info In progress"],
  [{ dueInMs: SOON, ...TEST }, { state: "paused" }, "info In progress"],
  [{ dueInMs: SOON }, { state: "paused" }, "quiet Waiting Until the destination is resumed"],
  [{ dueInMs: 0 }, { failingSinceMs: 1 }, "quiet Waiting Until the destination answers"],
  [{ dueInMs: SOON, attempts: [{}] }, {}, "warn Retrying"],
  [{ dueInMs: LATER, attempts: [{}] }, {}, "warn Retrying"],
])("a delivery with %j to a destination with %j is shown as %s", async (changes, to, status) => {
  const { dueInMs = null, ...more } = changes as { dueInMs?: number | null };
  const waiting = { type: "person.scored", state: "waiting", endReason: null, attempts: [] };
  const delivery = { ...waiting, dueAtMs: dueInMs === null ? null : Date.now() + dueInMs, ...more };
  const destination = { state: "active", failingSinceMs: null, ...to };
  const shown = { delivery, destination } as unknown as Parameters<typeof DeliveryStatus>[0];
  const page = readHtml(await html`<p>${DeliveryStatus(shown)}</p>`);
  const tone = page.only(".badge").attribute("class")?.replace("badge ", "") ?? "";
  expect(`${tone} ${page.text}`.startsWith(status)).toBe(true);
});
