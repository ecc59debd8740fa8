import { isLoopback } from "../loopback.ts";
import { DESTINATION_URL_MAX_LENGTH } from "../../limits.ts";
import { ok, reject, type Result } from "../result.ts";
import { thresholdsOf, type NotificationType, type ScoreThresholds, type WantedNotifications } from "./notification.ts";

export const DESTINATION_TYPES = ["webhook", "slack", "email"] as const;

export type DestinationType = (typeof DESTINATION_TYPES)[number];

/** Only an active destination receives notifications. `disabled`: the service switched it off. */
export type DestinationState = "active" | "paused" | "disabled";

/** Why the service switched it off: the receiver answered 410, or no delivery succeeded for five days. */
export const DISABLED_REASONS = ["gone", "failing"] as const;
export type DisabledReason = (typeof DISABLED_REASONS)[number];

/** Times are in milliseconds since 1970. */
export interface Destination {
  id: string;
  name: string;
  type: DestinationType;
  /** The target without the parts that would let a reader send there. */
  maskedTarget: string;
  headerNames: string[];
  notifications: NotificationType[];
  state: DestinationState;
  disabledReason: DisabledReason | null;
  createdAtMs: number;
  /** Time since which no delivery has succeeded; null: the last attempt succeeded. */
  failingSinceMs: number | null;
  lastDeliveredAtMs: number | null;
  waiting: number;
  dropped: number;
  /** Time until which deliveries are signed with the old secret too; null: there is no old secret. */
  oldSecretEndsAtMs: number | null;
  /** False: an email address that has not confirmed. It gets only codes. */
  confirmed: boolean;
  /** Differs for each secret and reveals nothing about it; null: the type has no secret. */
  secretId: string | null;
}

export function wantedBy(
  destinations: readonly Pick<Destination, "state" | "notifications">[],
  { people, accounts }: ScoreThresholds,
): WantedNotifications {
  const active = destinations.filter(({ state }) => state === "active");
  const subscribed = new Set(active.flatMap(({ notifications }) => notifications));
  const types = [...subscribed].filter((type) => !lacksThreshold(type, { people, accounts }));
  return {
    types: types.toSorted(),
    thresholds: people.toSorted((a, b) => a - b),
    accountThresholds: accounts.toSorted((a, b) => a - b),
    destinations: destinations.length,
  };
}

/** Whether no notification of the type can be raised, because no score can pass a threshold. */
function lacksThreshold(type: NotificationType, thresholds: ScoreThresholds): boolean {
  const kind = thresholdsOf(type);
  return kind !== null && thresholds[kind].length === 0;
}

/**
 * The target as it may be listed and logged. The path of a Slack-compatible webhook is enough to post to it, and a
 * query often holds a token.
 */
export function maskedTarget(type: DestinationType, target: string): string {
  if (type === "email") return target;
  const { origin, pathname, search } = new URL(target);
  if (type === "slack") return `${origin}/…${pathname.slice(-4)}`;
  return `${origin}${pathname}${search === "" ? "" : "?…"}`;
}

export type UrlProblem =
  | "not_a_url"
  | "too_long"
  | "not_https"
  | "credentials"
  | "address"
  | "not_public"
  | "port"
  | "own_host";

const FIRST_FREE_PORT = 1_024;
/** Last labels of private names: RFC 6761, 6762, 8375, 9476, and labels common in home networks. */
const NOT_PUBLIC =
  /(^|\.)(localhost|localdomain|local|internal|intranet|private|corp|home|lan|arpa|test|invalid|onion|alt)$/;

interface UrlRules {
  /** Whether this is a developer's machine: local receivers are allowed, without encryption. */
  local: boolean;
  /** Hosts, with their ports, that the service itself answers at. As a destination, the service would call itself. */
  ownHosts: readonly string[];
}

/**
 * The URL of a webhook, without its fragment. Any workspace admin chooses targets, and the service sends from a
 * company's account: targets must not reach hosts that only the service can reach. A name may still resolve to a private
 * address; the platform's network sends nothing there.
 */
export function checkDestinationUrl(text: string, { local, ownHosts }: UrlRules): Result<string, UrlProblem> {
  if (text.length > DESTINATION_URL_MAX_LENGTH) return reject("too_long");
  const url = URL.parse(text.trim());
  if (url === null) return reject("not_a_url");
  if (url.username !== "" || url.password !== "") return reject("credentials");
  url.hash = "";
  const isLocalReceiver = local && isLoopback(url.href);
  if (ownHosts.some((host) => host === url.host || (!isLocalReceiver && withoutPort(host) === url.hostname)))
    return reject("own_host");
  if (isLocalReceiver) return /^https?:$/.test(url.protocol) ? ok(url.href) : reject("not_https");
  if (url.protocol !== "https:") return reject("not_https");
  // The URL parser has already turned 2130706433, 0x7f.1 and the like into plain addresses.
  if (/^\[|^[\d.]+$/.test(url.hostname)) return reject("address");
  if (!isPublicName(url.hostname)) return reject("not_public");
  if (url.port !== "" && Number(url.port) < FIRST_FREE_PORT) return reject("port");
  return ok(url.href);
}

/** The service answers at every port of the platform; only locally a port is another program. */
function withoutPort(host: string): string {
  const colon = host.lastIndexOf(":");
  return colon >= 0 && /^\d+$/.test(host.slice(colon + 1)) ? host.slice(0, colon) : host;
}

function isPublicName(host: string): boolean {
  return /^([a-z0-9_-]+\.)+([a-z]{2,}|xn--[a-z0-9-]+)$/.test(host) && !NOT_PUBLIC.test(host);
}
