/**
 * Calls from a browser. Whoever opens the page can read the key in them, so the key is public.
 *
 * Browsers send `Origin`, or `Sec-Fetch-Mode` with `Sec-Fetch-Site`. The `fetch` of Node.js sends `Sec-Fetch-Mode` alone.
 */
import { holdsCredential } from "./api-key.ts";

/** The origin of a page that does not name it, as browsers write it. */
export const UNNAMED_ORIGIN = "null";

/** A host name has at most 253 characters. */
const ORIGIN_MAX_LENGTH = 270;

interface SentHeaders {
  origin: string | undefined;
  mode: string | undefined;
  site: string | undefined;
}

/** @param ownOrigin of this service: its pages send test calls. @returns null: the call is not from a browser, or from such a page. */
export function browserOrigin({ origin, mode, site }: SentHeaders, ownOrigin: () => string): string | null {
  if (origin === undefined && (mode === undefined || site === undefined)) return null;
  if (origin === undefined) return site === "same-origin" ? null : UNNAMED_ORIGIN;
  return origin === ownOrigin() ? null : shownOrigin(origin);
}

/** The sender may write anything into the header, and it is stored and shown. */
function shownOrigin(origin: string): string {
  if (origin.length > ORIGIN_MAX_LENGTH || holdsCredential(origin)) return UNNAMED_ORIGIN;
  return URL.parse(origin)?.origin ?? UNNAMED_ORIGIN;
}
