/** The page to go to after sign-in, as the address of the sign-in page names it: a stranger may have written it. */

export const FIRST_PAGE = "/w/";

/** Path and query of a workspace's page; anything else leads to the list of workspaces. */
export function safeTarget(to: string | undefined): string {
  // Browsers read a backslash as a slash and leave out tabs and line breaks.
  if (to === undefined || !/^\/w\/[^\\\p{Cc}]*$/u.test(to)) return FIRST_PAGE;
  // URL resolves `..` as a browser does, so that it cannot lead out of `/w/`.
  const { origin, pathname, search } = new URL(to, "https://here.invalid");
  return origin === "https://here.invalid" && pathname.startsWith("/w/") ? pathname + search : FIRST_PAGE;
}
