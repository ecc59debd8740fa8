/** What the notifications' pages say: of events, destinations, deliveries, and of what cannot be. */
import type { DeliveryEnd } from "../../notifications/destination-calls.ts";
import type { Destination, DestinationType, DisabledReason } from "../../domain/events/destination.ts";
import { DESTINATION_URL_MAX_LENGTH, DESTINATIONS_MAX } from "../../limits.ts";
import type { DestinationProblem, TargetProblem } from "../../workspace/manage-destinations.ts";
import type { Tone } from "../copy.ts";

/** Label and condition of each event type. */
export { EVENT_CATALOGUE as EVENT_COPY } from "../../domain/events/workspace-event.ts";

export const TYPE_COPY = {
  webhook: {
    label: "Webhook",
    hint: "JSON to a URL of yours, signed by the Standard Webhooks specification.",
    target: "URL",
  },
  slack: {
    label: "Slack",
    hint: "A sentence with a link, to an incoming webhook of Slack or of what takes the same, such as Mattermost.",
    target: "Incoming webhook's URL",
  },
  email: { label: "Email", hint: "A sentence with a link, as an email.", target: "Email address" },
} as const satisfies Record<DestinationType, { label: string; hint: string; target: string }>;

const TARGET_PROBLEM = {
  not_a_url: "This is not a URL, such as https://crm.example.com/hooks/signals.",
  too_long: `At most ${DESTINATION_URL_MAX_LENGTH} characters.`,
  not_https: "The URL must begin with https://.",
  credentials: "Leave user name and password out of the URL: what is sent is signed.",
  address: "Give a name, such as crm.example.com: events are not sent to addresses.",
  not_public: "This name exists in a network of its own only. Give one that the internet knows.",
  port: "Events are sent to the ordinary port, or to one from 1024 on.",
  own_host: "This is the service itself.",
  not_an_email: "This is not an email address, such as jane@example.com.",
} as const satisfies Record<TargetProblem, string>;

const PROBLEM = {
  type_not_offered: "This deployment sends no such notifications.",
  too_many_destinations: `A workspace has at most ${DESTINATIONS_MAX} destinations. Delete one first.`,
  destination_not_active: "The destination is paused or switched off. Resume it first.",
  destination_without_secret: "Only a webhook has a secret.",
  not_found: "It is not there any more.",
} as const satisfies Record<Exclude<DestinationProblem, TargetProblem>, string>;

export function problemSaid(problem: DestinationProblem): string {
  return isTargetProblem(problem) ? TARGET_PROBLEM[problem] : PROBLEM[problem];
}

export function isTargetProblem(problem: DestinationProblem): problem is TargetProblem {
  return problem in TARGET_PROBLEM;
}

const DISABLED = {
  gone: "It answered 410 Gone, which says that it wants nothing any more.",
  failing: "Nothing had reached it for five days.",
} as const satisfies Record<DisabledReason, string>;

/** How a destination is, and since when (`sinceMs`), where that is known. */
interface DestinationSaid {
  tone: Tone;
  label: string;
  /** A sentence about the state; null where the title says it all. */
  text: string | null;
  sinceMs?: number;
}

export function destinationSaid(destination: Destination): DestinationSaid {
  const { state, disabledReason, failingSinceMs, lastDeliveredAtMs } = destination;
  if (state === "disabled") {
    const why = disabledReason === null ? "" : `${DISABLED[disabledReason]} `;
    return { tone: "bad", label: "Switched off", text: `${why}Once it is mended, resume it.` };
  }
  if (state === "paused") {
    const text = "What happens until it is resumed is not told. What waits already is delivered then.";
    return { tone: "quiet", label: "Paused", text };
  }
  if (failingSinceMs !== null) {
    const text =
      "One delivery after the other is tried, less and less often. What waits is sent once one succeeds; after five days without success the destination is switched off.";
    return { tone: "warn", label: "Failing", text, sinceMs: failingSinceMs };
  }
  return lastDeliveredAtMs === null
    ? {
        tone: "info",
        label: "Ready",
        text: "Nothing that it is told of has happened yet. Send a test to see whether it arrives.",
      }
    : { tone: "good", label: "Healthy", text: null };
}

export const DELIVERY_END = {
  attempts_failed: "Every attempt of some three days has failed.",
  switched_off: "The destination was switched off.",
  too_many: "Too many others waited.",
  person_deleted: "The person whom it was about was deleted.",
} as const satisfies Record<DeliveryEnd, string>;
