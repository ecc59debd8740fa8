/** How often one network may try to sign in, and one person may change something. */
import type { Context } from "hono";
import { hasMostChangesOfADay } from "../../control/audit.ts";
import { errorText, logEvent } from "../../platform/log.ts";
import { byMember, clientNetwork, pages, type PagesEnv } from "../pages-env.ts";
import { formsLimitedPage, problemPage } from "./refusal-pages.tsx";

/** Limits attempts to sign in, by network. Local sign-in goes without: there is nothing to guess. */
export const limitAttempts = pages.createMiddleware(async (c, next) => {
  try {
    const { success } = await c.env.SIGN_IN_ATTEMPTS.limit({ key: clientNetwork(c) });
    if (!success) return await problemPage(c, "too_many");
  } catch (error) {
    // Sign-in is safe without the limiter: a limiter that fails lets everybody pass.
    logEvent("limiter_failed", { error: errorText(error) });
  }
  await next();
});

/**
 * Limits forms and exports, because each leaves an entry in the audit log that all workspaces share. Counts by person, who may
 * have many sessions, by the minute and by the day. A preview changes nothing and is sent while somebody types: previews have
 * a limit by the minute of their own. Use it after requireMember.
 */
export const limitForms = pages.createMiddleware(async (c, next) => {
  const { method, path } = c.req;
  const isPreview = method === "POST" && path.endsWith("/preview");
  const isChange = !isPreview && (method === "POST" || path.endsWith("/export"));
  if ((isPreview || isChange) && !(await isWithinMinute(c, isPreview ? "preview " : ""))) {
    return formsLimitedPage(c, "minute");
  }
  if (isChange && (await hasMostChangesOfADay(c.get("db"), c.get("workspace").id, byMember(c)))) {
    return formsLimitedPage(c, "day");
  }
  await next();
});

/** A limiter that fails lets everybody pass: the person is known. */
async function isWithinMinute(c: Context<PagesEnv>, what: "" | "preview "): Promise<boolean> {
  try {
    return (await c.env.PAGE_FORMS.limit({ key: `${what}${c.get("user").email}` })).success;
  } catch (error) {
    logEvent("limiter_failed", { error: errorText(error) });
    return true;
  }
}
