/**
 * Refuses forms that other sites send in a member's name: a request that may change something must come from a page of this
 * origin. hono's csrf() checks only the content types that a foreign form can have, so the pages accept no other types.
 * Only headers are read here.
 */
import { csrf } from "hono/csrf";
import { pages } from "../pages-env.ts";

/** The pages answer other methods with 405. */
const METHODS = ["GET", "HEAD", "POST"];
/** A request that a page of another origin has made. One for an address that is typed, or kept as a bookmark, is `none`. */
const FROM_ANOTHER = /^(cross|same)-site$/;
const FORM = /^(application\/x-www-form-urlencoded|multipart\/form-data)\s*(;|$)/i;

const foreignForm = csrf();

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
  // An export leaves an entry in the audit log, in the name of whoever asks.
  const isExport = c.req.path.endsWith("/export");
  if (isExport && FROM_ANOTHER.test(c.req.header("sec-fetch-site") ?? "")) return c.text("Forbidden", 403);
  await next();
});
