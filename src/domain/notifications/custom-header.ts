/**
 * Custom headers of a webhook destination, for receivers that expect a token. Names are shown. Values are secrets: no answer, page or
 * log line contains them.
 */
import { HEADER_NAME_MAX_LENGTH, HEADER_VALUE_MAX_LENGTH } from "../../limits.ts";
import { ok, reject, type Result } from "../result.ts";
import type { DestinationType } from "./destination.ts";

export interface CustomHeader {
  name: string;
  value: string;
}

/** Without a value: the header keeps its stored value. */
export type WantedHeader = Pick<CustomHeader, "name"> & Partial<CustomHeader>;

/**
 * Headers that the service or the platform sets, that change how a request is framed or routed, or that name its sender. A custom
 * header must not replace them.
 */
const RESERVED =
  /^(accept-encoding|connection|cookie2?|date|expect|forwarded|host|http2-settings|keep-alive|origin|referer|set-cookie2?|te|trailer|transfer-encoding|true-client-ip|upgrade|user-agent|via|x-real-ip|(cdn|cf|content|proxy|sec|webhook|x-forwarded)-.*)$/;

/** Why a header cannot have this name; null: it can. */
export function headerNameProblem(name: string): string | null {
  if (name.length > HEADER_NAME_MAX_LENGTH) return `at most ${HEADER_NAME_MAX_LENGTH} characters`;
  if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name)) return "only letters, digits and hyphens, such as X-Api-Key";
  return RESERVED.test(name.toLowerCase()) ? "this header is set by the service or the network" : null;
}

/** Why a header cannot have this value; null: it can. Spaces are allowed inside, as in `Bearer …`. */
export function headerValueProblem(value: string): string | null {
  if (value.length > HEADER_VALUE_MAX_LENGTH) return `at most ${HEADER_VALUE_MAX_LENGTH} characters`;
  return /^[!-~]([ -~]*[!-~])?$/.test(value) ? null : "only visible ASCII characters, with spaces only inside";
}

export function haveDistinctNames(headers: readonly Pick<CustomHeader, "name">[]): boolean {
  return new Set(headers.map(({ name }) => name.toLowerCase())).size === headers.length;
}

export type HeaderRejection = "headers_of_webhooks_only" | "header_without_value" | "headers_for_another_url";

interface HeadersBefore {
  type: DestinationType;
  target: string;
  headers: readonly CustomHeader[];
}

/**
 * The headers after a change of a destination. A stored value stays with the URL for which it was entered: otherwise a person who does
 * not know the value could send it elsewhere, also to another customer of the same host.
 *
 * @param change headers replace all headers; omitted, all keep their values.
 */
export function changedHeaders(
  { type, target, headers }: HeadersBefore,
  change: { target?: string; headers?: readonly WantedHeader[] },
): Result<CustomHeader[], HeaderRejection> {
  const wanted: readonly WantedHeader[] = change.headers ?? headers.map(({ name }) => ({ name }));
  if (type !== "webhook") return wanted.length === 0 ? ok([]) : reject("headers_of_webhooks_only");
  const isSameUrl = new URL(change.target ?? target).href === new URL(target).href;
  const changed: CustomHeader[] = [];
  for (const { name, value = valueOf(headers, name) } of wanted) {
    if (value === undefined) return reject("header_without_value");
    changed.push({ name, value });
  }
  const isEachSent = wanted.every(({ value }) => value !== undefined);
  return isSameUrl || isEachSent ? ok(changed) : reject("headers_for_another_url");
}

function valueOf(headers: readonly CustomHeader[], name: string): string | undefined {
  return headers.find((header) => header.name.toLowerCase() === name.toLowerCase())?.value;
}
