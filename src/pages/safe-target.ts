/** The page to open next, named by an address or a form, such as after sign-in. An attacker may have written it. */
import { holdsCredential } from "../domain/keys/api-key.ts";

export const FIRST_PAGE = "/w/";

/** Longer than any address of the pages. The redirect repeats the target in a header. */
const TARGET_MAX_CHARACTERS = 2_000;

/**
 * @returns path and query of a workspace's page, otherwise FIRST_PAGE. Also for a target with a key or a secret, because the
 * target is shown on a page and stored with a sign-in attempt.
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
