/** A destination of a workspace's events as people and programs see it: nothing of it is a secret. */
import { DESTINATION_URL_MAX_LENGTH } from "../../limits.ts";
import { ok, refuse } from "../result.ts";
import type { Result } from "../result.ts";
import type { EventType, WantedEvents } from "./workspace-event.ts";

export const DESTINATION_TYPES = ["webhook", "slack", "email"] as const;

export type DestinationType = (typeof DESTINATION_TYPES)[number];

/** Only an active destination is told anything. `disabled`: the service has switched it off. */
export type DestinationState = "active" | "paused" | "disabled";

/** Why the service has switched it off: it answered 410, or nothing has reached it for five days. */
export type DisabledReason = "gone" | "failing";

/** Times are in milliseconds since 1970. */
export interface Destination {
  id: string;
  name: string;
  type: DestinationType;
  /** The target without what somebody could use to send there. */
  maskedTarget: string;
  events: EventType[];
  state: DestinationState;
  disabledReason: DisabledReason | null;
  createdAtMs: number;
  /** Since when nothing has reached the destination; null: the last attempt did. */
  failingSinceMs: number | null;
  lastDeliveredAtMs: number | null;
  /** How many deliveries are to come, or to come again. */
  waiting: number;
  /** Events that were given up because too many waited. */
  dropped: number;
  /** Until when deliveries are signed with the old secret too; null: there is no old one. */
  oldSecretEndsAtMs: number | null;
}

/** What the sources of a workspace are to raise, for these destinations. */
export function wantedBy(
  destinations: readonly Pick<Destination, "state" | "events">[],
  thresholds: readonly number[],
): WantedEvents {
  const active = destinations.filter(({ state }) => state === "active");
  const types = new Set(active.flatMap(({ events }) => events));
  // Without a threshold nothing can cross one.
  if (thresholds.length === 0) types.delete("person.score_crossed");
  return {
    types: [...types].toSorted(),
    thresholds: [...thresholds].toSorted((a, b) => a - b),
    destinations: destinations.length,
  };
}

/**
 * The target as it may be listed and logged. Whoever knows the path of a Slack-compatible webhook can post to it, and a
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

/** The lowest port that no well-known service listens at. */
const FIRST_FREE_PORT = 1_024;
const LOOPBACK_HOSTS = new Set(["localhost", "127.0.0.1", "[::1]"]);
/** Last labels that no public name has: RFC 6761, RFC 6762, RFC 8375, RFC 9476, and what networks use at home. */
const NOT_PUBLIC =
  /(^|\.)(localhost|localdomain|local|internal|intranet|private|corp|home|lan|arpa|test|invalid|onion|alt)$/;

export interface UrlRules {
  /** Whether this is a developer's machine: its own receivers may be told, without encryption. */
  local: boolean;
  /** Hosts, with their ports, that the service itself answers at: as a destination of its own events it would call itself. */
  ownHosts: readonly string[];
}

/** Checks a URL that somebody wants events sent to. @returns the URL as it is used, without a fragment. */
export function checkDestinationUrl(text: string, { local, ownHosts }: UrlRules): Result<string, UrlProblem> {
  if (text.length > DESTINATION_URL_MAX_LENGTH) return refuse("too_long");
  const url = URL.parse(text.trim());
  if (url === null) return refuse("not_a_url");
  if (url.username !== "" || url.password !== "") return refuse("credentials");
  url.hash = "";
  const isLoopback = local && LOOPBACK_HOSTS.has(url.hostname);
  if (ownHosts.some((own) => own === url.host || (!isLoopback && withoutPort(own) === url.hostname)))
    return refuse("own_host");
  if (isLoopback) return /^https?:$/.test(url.protocol) ? ok(url.href) : refuse("not_https");
  if (url.protocol !== "https:") return refuse("not_https");
  // The parser has already read 2130706433, 0x7f.1 and the like for the addresses that they are.
  if (/^\[|^[\d.]+$/.test(url.hostname)) return refuse("address");
  if (!isPublicName(url.hostname)) return refuse("not_public");
  if (url.port !== "" && Number(url.port) < FIRST_FREE_PORT) return refuse("port");
  return ok(url.href);
}

/** The service answers at all ports that the platform has; only on a developer's machine another port is somebody else. */
function withoutPort(host: string): string {
  return host.replace(/:\d+$/, "");
}

/**
 * Whether a host has two labels at least, the last one of letters; a dot at the end would be another name for the same host.
 */
function isPublicName(host: string): boolean {
  return /^([a-z0-9_-]+\.)+([a-z]{2,}|xn--[a-z0-9-]+)$/.test(host) && !NOT_PUBLIC.test(host);
}
