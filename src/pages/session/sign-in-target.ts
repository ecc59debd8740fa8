/** The page to go to next, as an address or a form names it, such as after sign-in: a stranger may have written it. */
import { holdsCredential } from "../../domain/keys/echo.ts";

export const FIRST_PAGE = "/w/";

/** Longer than any address of the pages: a redirect repeats the target in a header. */
const TARGET_MAX_CHARACTERS = 2_000;

/**
 * Path and query of a workspace's page; anything else leads to the list of workspaces. So does a key or a secret in it: what
 * is given back here stands in a page, in a header and in an attempt's row.
 */
export function safeTarget(to: string | undefined): string {
  // Browsers read a backslash as a slash and leave out tabs and line breaks.
  if (to === undefined || to.length > TARGET_MAX_CHARACTERS || !/^\/w\/[^\\\p{Cc}]*$/u.test(to)) return FIRST_PAGE;
  // URL resolves `..` as a browser does, so that it cannot lead out of `/w/`.
  const { origin, pathname, search } = new URL(to, "https://here.invalid");
  const target = pathname + search;
  return origin === "https://here.invalid" && pathname.startsWith("/w/") && !holdsCredential(target)
    ? target
    : FIRST_PAGE;
}
