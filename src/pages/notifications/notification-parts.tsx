/** Shared by the pages of notifications: calls, problems in words, and the status of destinations and deliveries. */
import type { Child } from "hono/jsx";
import type { HeaderRejection } from "../../domain/notifications/custom-header.ts";
import type { Destination, DestinationType, DisabledReason } from "../../domain/notifications/destination.ts";
import { DESTINATION_URL_MAX_LENGTH, DESTINATIONS_MAX } from "../../limits.ts";
import type { Delivery, DeliveryEnd } from "../../notifications/destination-calls.ts";
import type * as destinations from "../../use-cases/manage-destinations.ts";
import { destinationsOf } from "../../use-cases/objects.ts";
import type { Tone } from "../copy.ts";
import { Badge, Time } from "../kit/parts.tsx";
import { notFoundPage } from "../page.tsx";
import { contextOf, type Ctx, pages } from "../pages-env.ts";

export function destinationsCall(c: Ctx): destinations.DestinationsContext {
  return { ...contextOf(c), slug: c.get("workspace").slug, origin: new URL(c.req.url).origin };
}

/** Sets `destination`; 404 if the path names no destination of the workspace. */
export const requireDestination = pages.createMiddleware(async (c, next) => {
  const destination = await destinationsOf(c.env, c.get("workspace").id).find(c.req.param("id") ?? "");
  if (destination === null) return notFoundPage(c, "destination");
  c.set("destination", destination);
  await next();
});

const TARGET_PROBLEM = {
  not_a_url: "Enter a URL, such as https://crm.example.com/hooks/signals.",
  too_long: `Enter at most ${DESTINATION_URL_MAX_LENGTH} characters.`,
  not_https: "The URL must begin with https://.",
  credentials: "Remove the user name and password from the URL. Deliveries are signed instead.",
  address: "Enter a host name, such as crm.example.com, instead of an IP address.",
  not_public: "This host name is private. Enter a public one.",
  port: "Use the default port or a port from 1024 on.",
  own_host: "This is the service itself. Enter another host.",
  not_an_email: "Enter an email address, such as jane@example.com.",
} as const satisfies Record<destinations.TargetProblem, string>;

const HEADER_PROBLEM = {
  headers_of_webhooks_only: "Only webhooks have headers. Remove them.",
  header_without_value: "Enter a value for each new header.",
  headers_for_another_url: "The URL has changed. Enter the value of each header again, or remove the header.",
} as const satisfies Record<HeaderRejection, string>;

const PROBLEM = {
  type_not_offered: "This type is not available in this deployment.",
  too_many_destinations: `A workspace has at most ${DESTINATIONS_MAX} destinations. Delete one first.`,
  destination_not_active: "The destination is paused or switched off. Resume it first.",
  code_wrong: "The code is wrong or expired, or was wrong five times. Send a new code.",
  too_many_codes: "The workspace has sent ten codes in 24 hours, the most it may send. Try again later.",
  destination_without_secret: "Only webhooks have a secret.",
  not_found: "This no longer exists.",
  ...HEADER_PROBLEM,
  ...TARGET_PROBLEM,
} as const satisfies Record<destinations.DestinationProblem, string>;

export function problemText(problem: destinations.DestinationProblem): string {
  return PROBLEM[problem];
}

export function fieldOfProblem(problem: destinations.DestinationProblem): "target" | "headers" | "form" {
  if (problem in TARGET_PROBLEM) return "target";
  return problem in HEADER_PROBLEM ? "headers" : "form";
}

/** Replaces the value of a custom header, which no page shows. */
export const HIDDEN_VALUE = "••••";

export const TYPE_TEXT = {
  webhook: { label: "Webhook", hint: "Signed JSON, by the Standard Webhooks specification.", target: "URL" },
  slack: {
    label: "Slack",
    hint: "A message with a link, to an incoming webhook of Slack or Mattermost.",
    target: "Incoming webhook URL",
  },
  email: { label: "Email", hint: "A message with a link.", target: "Email address" },
} as const satisfies Record<DestinationType, { label: string; hint: string; target: string }>;

const DISABLED = {
  gone: "The receiver answered 410 Gone.",
  failing: "No delivery succeeded for five days.",
} as const satisfies Record<DisabledReason, string>;

interface DestinationStatus {
  tone: Tone;
  label: string;
  text: string | null;
}

export function statusOf(destination: Destination, lastTest: LastTest): DestinationStatus {
  const { state, confirmed, disabledReason, failingSinceMs, lastDeliveredAtMs } = destination;
  if (!confirmed) {
    const text = "The address was sent a code. It gets nothing else until you enter the code.";
    return { tone: "warn", label: "Unconfirmed", text };
  }
  if (state === "disabled") {
    const reason = disabledReason === null ? "" : `${DISABLED[disabledReason]} `;
    return { tone: "bad", label: "Switched off", text: `${reason}Fix the receiver, then resume the destination.` };
  }
  if (state === "paused") {
    const text = "New notifications are skipped. Waiting deliveries are sent when you resume the destination.";
    return { tone: "quiet", label: "Paused", text };
  }
  if (failingSinceMs !== null) {
    const text =
      "Deliveries are retried at growing intervals. After five days without success, the destination is switched off.";
    return { tone: "warn", label: "Failing", text };
  }
  if (lastTest === "failed") {
    return { tone: "bad", label: "Test failed", text: "Fix the receiver, then send another test." };
  }
  if (lastDeliveredAtMs === null) {
    const text =
      lastTest === "delivered" ? "The test was delivered. No notifications yet." : "No notifications yet. Send a test.";
    return { tone: "info", label: "Ready", text };
  }
  return { tone: "good", label: "Healthy", text: null };
}

/** The result of the latest delivery if that is a test. Null: it is no test, or has no result yet. */
export type LastTest = "delivered" | "failed" | null;

/** A test does not change the state of the destination, so its result is read from the deliveries. */
export async function readLastTest(c: Ctx, { id }: Destination): Promise<LastTest> {
  const found = await destinationsOf(c.env, c.get("workspace").id).listDeliveries(id, { cursor: null, limit: 1 });
  const [latest] = found?.items ?? [];
  if (latest?.type !== "destination.test") return null;
  return latest.state === "delivered" || latest.state === "failed" ? latest.state : null;
}

type DestinationState = Pick<Destination, "state" | "failingSinceMs">;

const SOON_MS = 60_000;

/** Whether the page refreshes: an attempt is in progress or starts soon. */
export function isInProgress(delivery: Delivery, destination: DestinationState): boolean {
  const { type, state, attempts, dueAtMs } = delivery;
  if (state !== "waiting" || dueAtMs === null) return false;
  if (type === "destination.test") return true;
  const leftMs = dueAtMs - Date.now();
  if (destination.state !== "active" || leftMs >= SOON_MS) return false;
  return destination.failingSinceMs === null || (attempts.length > 0 && leftMs > 0);
}

const DELIVERY_END = {
  attempts_failed: "All attempts failed",
  switched_off: "Destination was switched off",
  too_many: "Too many deliveries were waiting",
  person_deleted: "Person was deleted",
} as const satisfies Record<DeliveryEnd, string>;

export function DeliveryStatus({ delivery, destination }: { delivery: Delivery; destination: DestinationState }) {
  const { tone, label, note } = deliveryStatus(delivery, destination);
  return (
    <>
      <Badge tone={tone}>{label}</Badge> {note !== undefined && <small>{note}</small>}
    </>
  );
}

function deliveryStatus(
  delivery: Delivery,
  destination: DestinationState,
): { tone: Tone; label: string; note?: Child } {
  const { type, state, endReason, attempts, dueAtMs } = delivery;
  const isTest = type === "destination.test";
  if (state === "delivered") return { tone: "good", label: "Delivered" };
  if (state === "failed") {
    const failed = { tone: "bad", label: "Failed" } as const;
    return endReason === null || isTest ? failed : { ...failed, note: DELIVERY_END[endReason] };
  }
  const isDue = attempts.length === 0 || (dueAtMs !== null && dueAtMs <= Date.now());
  if (isDue && isInProgress(delivery, destination)) return { tone: "info", label: "In progress" };
  if (destination.state !== "active" && !isTest) {
    return { tone: "quiet", label: "Waiting", note: "Until the destination is resumed" };
  }
  if (dueAtMs === null || dueAtMs <= Date.now()) {
    return { tone: "quiet", label: "Waiting", note: "Until the destination answers" };
  }
  return { tone: "warn", label: "Retrying", note: <Time ms={dueAtMs} /> };
}
