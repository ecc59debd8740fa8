/** Refuses forms of other sites, and limits how often one network signs in and one person changes something. */
import { csrf } from "hono/csrf";
import { hasMostChangesOfADay } from "../../control/audit.ts";
import { clientNetwork, isWithin } from "../../http/auth-failures.ts";
import { byMember, pages, type Ctx } from "../pages-env.ts";
import { problemPage } from "./refusal-pages.tsx";

const METHODS = ["GET", "HEAD", "POST"];
/** `Sec-Fetch-Site` of a request from a page of another origin. A typed address or a bookmark has `none`. */
const FROM_ANOTHER = /^(cross|same)-site$/;
const FORM = /^(application\/x-www-form-urlencoded|multipart\/form-data)\s*(;|$)/i;

const foreignForm = csrf();

/**
 * Refuses a form that another site sends in a member's name. hono's csrf() checks only the content types that a foreign form
 * can have, so the pages accept no other types. Reads only headers.
 */
export const fromThisOrigin = pages.createMiddleware(async (c, next) => {
  const { method } = c.req;
  if (!METHODS.includes(method)) {
    return c.text("The pages are read and sent forms.", 405, { allow: METHODS.join(", ") });
  }
  if (method === "POST") {
    const type = c.req.header("content-type");
    if (type !== undefined && !FORM.test(type)) return c.text("The pages take forms only.", 415);
    return foreignForm(c, next);
  }
  // An export leaves an entry in the audit log in the name of the member.
  const isExport = c.req.path.endsWith("/export");
  if (isExport && FROM_ANOTHER.test(c.req.header("sec-fetch-site") ?? "")) return c.text("Forbidden", 403);
  await next();
});

/** Limits attempts to sign in, by network. Local sign-in goes without: there is nothing to guess. */
export const limitAttempts = pages.createMiddleware(async (c, next) => {
  if (!(await isWithin(c.env.SIGN_IN_ATTEMPTS, clientNetwork(c)))) return problemPage(c, "too_many");
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
  const key = `${isPreview ? "preview " : ""}${c.get("user").email}`;
  if ((isPreview || isChange) && !(await isWithin(c.env.PAGE_FORMS, key))) return problemPage(c, "forms_minute");
  if (isChange && (await hasMostChanges(c))) return problemPage(c, "forms_day");
  await next();
});

function hasMostChanges(c: Ctx): Promise<boolean> {
  return hasMostChangesOfADay(c.get("db"), c.get("workspace").id, byMember(c));
}
