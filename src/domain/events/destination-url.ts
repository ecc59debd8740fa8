/**
 * Where a webhook may go. The service sends from inside a company's account, at the wish of whoever manages a workspace: it
 * must not become their way to what only the service can reach. A name may still lead to a private address; the platform's
 * network sends nothing there.
 */
import { DESTINATION_URL_MAX_LENGTH } from "../../limits.ts";
import { ok, refuse, type Result } from "../result.ts";

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
