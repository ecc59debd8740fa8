/** What the notifications' pages say: of events, destinations, deliveries, and of what cannot be. */
import type { DeliveryEnd } from "../../notifications/destination-calls.ts";
import type { Destination, DestinationType, DisabledReason } from "../../domain/events/destination.ts";
import type { AnyEventType } from "../../domain/events/workspace-event.ts";
import type { UrlProblem } from "../../domain/events/destination-url.ts";
import { DESTINATION_URL_MAX_LENGTH, DESTINATIONS_MAX } from "../../limits.ts";
import type { DestinationProblem } from "../../workspace/manage-destinations.ts";
import type { Tone } from "../copy.ts";

export const EVENT_COPY = {
  "person.score_crossed": {
    label: "A score crosses a threshold",
    when: "A person's score rises to one of the thresholds or above it; once, until it has fallen below again.",
  },
  "person.scored": {
    label: "Scoring signals were made",
    when: "Several come together: at most one delivery a second.",
  },
  "people.rescored": {
    label: "Many scores have changed",
    when: "By a rule that was applied to the past, or by many signals that became a person's: one summary.",
  },
  "usage.level": {
    label: "Usage reaches 80, 100 or 200 %",
    when: "Of the signal limit; and the first signal that is refused for it. Once each and billing period.",
  },
  "period.closed": { label: "A billing period has ended", when: "With its counts, and what follows from them." },
  "key.expiring": { label: "An API key expires soon", when: "30 days, 7 days and a day ahead." },
  "key.silent": {
    label: "An API key is silent",
    when: "No call has come with it for as many days as are chosen on the key's page.",
  },
  "refusals.burst": {
    label: "Many calls are refused",
    when: "More than a tenth of a key's calls of five minutes, and at least 20.",
  },
  "dead_letters.added": { label: "Signals could not be processed", when: "They wait among the dead letters." },
  "processing.late": {
    label: "Processing is late",
    when: "The oldest signal that is still to be processed was accepted more than ten minutes ago.",
  },
  "destination.disabled": { label: "Another destination was switched off", when: "Told without being asked for." },
  "destination.test": { label: "Test", when: "Sent from these pages." },
} as const satisfies Record<AnyEventType, { label: string; when: string }>;

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
} as const satisfies Record<UrlProblem | "not_an_email", string>;

const PROBLEM = {
  type_not_offered: "This deployment sends no such notifications.",
  too_many: `A workspace has at most ${DESTINATIONS_MAX} destinations. Delete one first.`,
  not_active: "The destination is paused or switched off. Resume it first.",
  not_a_webhook: "Only a webhook has a secret.",
  not_found: "It is not there any more.",
} as const satisfies Record<Exclude<DestinationProblem["reason"], "target">, string>;

export function problemSaid(problem: DestinationProblem): string {
  return problem.reason === "target" ? TARGET_PROBLEM[problem.problem] : PROBLEM[problem.reason];
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
