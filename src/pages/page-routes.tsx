/** The workspace pages: /w/{workspace}/…, sign-in, their style and script. */
import { HTTPException } from "hono/http-exception";
import { NONCE, secureHeaders } from "hono/secure-headers";
import { JurisdictionError } from "../env.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { accountPages } from "./accounts.tsx";
import { activityPages } from "./activity.tsx";
import { SCRIPT, SCRIPT_PATH, STYLE, STYLE_PATH } from "./assets.ts";
import { connectPages } from "./keys/connect.tsx";
import { keyPages } from "./keys/keys.tsx";
import { livePages } from "./live.tsx";
import { memberPages } from "./members.tsx";
import { notificationPages } from "./notifications/notifications.tsx";
import { overviewPages } from "./overview.tsx";
import { messagePage, notFoundPage } from "./page.tsx";
import { pages, withQuery } from "./pages-env.ts";
import { peoplePages } from "./people/people.tsx";
import { readForm } from "./read-form.tsx";
import { rejectionPages } from "./rejections.tsx";
import { rulePages } from "./rules/rules.tsx";
import { searchPages } from "./search.tsx";
import { fromThisOrigin, limitForms, limitWorkspace } from "./session/form-guard.tsx";
import { requireMember, requireSignIn, sessionRoutes } from "./session/sign-in.tsx";
import { signalPages } from "./signals/queue.tsx";
import { tokenPages } from "./tokens.tsx";
import { askUsage, dismissNotice } from "./usage-notices.tsx";
import { usagePages } from "./usage/usage.tsx";

const safeHeaders = secureHeaders({
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    styleSrc: [NONCE],
    scriptSrc: [NONCE],
    imgSrc: ["'self'", "data:"],
    connectSrc: ["'self'"],
    formAction: ["'self'"],
    baseUri: ["'none'"],
    frameAncestors: ["'none'"],
  },
  xFrameOptions: "DENY",
  referrerPolicy: "same-origin",
});

/** Pages are personal, so no cache may store them. */
const noStore = pages.createMiddleware(async (c, next) => {
  await next();
  c.res.headers.set("cache-control", "no-store");
});

const workspacePages = pages
  .createApp()
  .use(requireSignIn, requireMember, limitWorkspace, limitForms)
  // Forms rarely answer with a page.
  .use((c, next) => (c.req.method === "GET" ? askUsage(c, next) : next()))
  .route("/", overviewPages)
  .route("/search", searchPages)
  .route("/signals", signalPages)
  .route("/live", livePages)
  .route("/rejections", rejectionPages)
  .route("/rules", rulePages)
  .route("/people", peoplePages)
  .route("/accounts", accountPages)
  .route("/usage", usagePages)
  .route("/connect", connectPages)
  .route("/settings/api-keys", keyPages)
  .route("/settings/api-tokens", tokenPages)
  .route("/settings/members", memberPages)
  .route("/settings/notifications", notificationPages)
  .route("/settings/activity", activityPages)
  .post("/dismiss", readForm(), dismissNotice)
  .all("*", (c) => notFoundPage(c));

const costsNothing = pages.createMiddleware(async (c, next) => {
  c.set("isKnown", true);
  await next();
});

/** Most faults of the platform are over by then. */
const RETRY_AFTER_S = 5;

const IMMUTABLE = { "cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff" };

const PERSONAL = ["/", "/w/*", "/sign-in/*", "/sign-out"];

export const pageRoutes = pages
  .createApp()
  .get(STYLE_PATH, costsNothing, (c) => c.body(STYLE, 200, { ...IMMUTABLE, "content-type": "text/css; charset=utf-8" }))
  .get(SCRIPT_PATH, costsNothing, (c) =>
    c.body(SCRIPT, 200, { ...IMMUTABLE, "content-type": "text/javascript; charset=utf-8" }),
  )
  .on("ALL", PERSONAL, safeHeaders, noStore, fromThisOrigin)
  .route("/", sessionRoutes)
  .route("/w/:slug", workspacePages)
  .onError((error, c) => {
    // A rejection by a middleware, not a failure.
    if (error instanceof HTTPException) return error.getResponse();
    logEvent("error", { request_id: c.get("requestId"), error: errorText(error) });
    const text =
      error instanceof JurisdictionError
        ? "This deployment has a wrong setting, which only its operator can correct. Nothing was lost."
        : "Nothing was lost. Try again in a moment.";
    c.header("retry-after", String(RETRY_AFTER_S));
    // A form that failed may have had an effect, so its page is read again first.
    const again = c.req.method === "GET" ? withQuery(c.req.path, c.req.query()) : "/w/";
    return messagePage(
      c,
      { title: "Something went wrong", status: 503, text, link: ["Try again", again] },
      <p class="quiet small">
        Request <code>{c.get("requestId")}</code>
      </p>,
    );
  });
