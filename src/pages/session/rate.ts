/** How often one address may try to sign in. Not locally: there is nothing to guess. */
import { errorText, logEvent } from "../../http/log.ts";
import { pages } from "../environment.ts";
import { problemPage } from "./pages.tsx";

export const limitAttempts = pages.createMiddleware(async (c, next) => {
  const key = c.req.header("cf-connecting-ip") ?? "unknown";
  try {
    const { success } = await c.env.SIGN_IN_ATTEMPTS.limit({ key });
    if (!success) return await problemPage(c, "too_many");
  } catch (error) {
    // The limiter guards what can be done without it too.
    logEvent("limiter_failed", { error: errorText(error) });
  }
  await next();
});
