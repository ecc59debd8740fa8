/** How often one network may try to sign in, and one person may change something. */
import { networkOf } from "../../domain/keys/client-network.ts";
import { errorText, logEvent } from "../../platform/log.ts";
import { pages } from "../pages-env.ts";
import { formsLimitedPage, problemPage } from "./refusal-pages.tsx";

/** Limits attempts to sign in, by network. Local sign-in goes without: there is nothing to guess. */
export const limitAttempts = pages.createMiddleware(async (c, next) => {
  const address = c.req.header("cf-connecting-ip");
  const key = address === undefined ? "unknown" : networkOf(address);
  try {
    const { success } = await c.env.SIGN_IN_ATTEMPTS.limit({ key });
    if (!success) return await problemPage(c, "too_many");
  } catch (error) {
    // Sign-in is safe without the limiter: a limiter that fails lets everybody pass.
    logEvent("limiter_failed", { error: errorText(error) });
  }
  await next();
});

/**
 * Limits forms, and what else leaves an entry in the audit log, which all workspaces share. Stands behind requireSignIn and
 * counts by person, who may have many sessions. A preview is free: it changes nothing, and is sent while somebody types.
 */
export const limitForms = pages.createMiddleware(async (c, next) => {
  const { method, path } = c.req;
  const changes = method === "POST" ? !path.endsWith("/preview") : path.endsWith("/export");
  if (changes) {
    try {
      const { success } = await c.env.PAGE_FORMS.limit({ key: c.get("user").email });
      if (!success) return await formsLimitedPage(c);
    } catch (error) {
      // Whoever is signed in is known: a limiter that fails lets them pass.
      logEvent("limiter_failed", { error: errorText(error) });
    }
  }
  await next();
});
