/** The pages' wording that is not part of one view: checked against the unions that it describes. */
import type { Role } from "../control/schema.ts";
import type { EndpointType } from "../domain/signal.ts";
import type { SignalStatus } from "../store/protocol.ts";

export const ROLE_LABEL = { owner: "Owner", admin: "Admin", member: "Member" } as const satisfies Record<Role, string>;

/** Spec §2.1. */
export const ENDPOINT_LABEL = {
  signal_staging: "Signal Staging",
  product_org: "Product Org Updates",
} as const satisfies Record<EndpointType, string>;

export type Tone = "good" | "warn" | "bad" | "info" | "quiet";

/** How a signal's status is shown, and what it means. */
export const STATUS_COPY = {
  processed: { label: "Processed", tone: "good", meaning: "It took its effect." },
  held: {
    label: "Held",
    tone: "warn",
    meaning: "It came between the plan's limit and twice the limit: it updates no score and is deleted at period end.",
  },
  anonymous: { label: "Anonymous", tone: "info", meaning: "Its visitor is not known yet; it waits in cold storage." },
  duplicate: { label: "Duplicate", tone: "quiet", meaning: "The same content came before; only the first one counts." },
  purged: { label: "Purged", tone: "quiet", meaning: "It was held, and its billing period has ended." },
  dead: { label: "Dead letter", tone: "bad", meaning: "It could not be processed; it can be replayed." },
  in_flight: { label: "In flight", tone: "info", meaning: "It is accepted and on its way to the store." },
} as const satisfies Record<SignalStatus | "in_flight", { label: string; tone: Tone; meaning: string }>;

/** Said at the top of the page that a form leads to; the address carries the name as `?done=`. */
export const DONE = {
  saved: "Saved.",
  member_added: "Added. They can sign in from now on.",
  role_changed: "The role is changed, from their next click on.",
  member_removed: "Removed. They do not see this workspace any more.",
} as const satisfies Record<string, string>;

export type Done = keyof typeof DONE;
