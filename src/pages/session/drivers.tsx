/** The drivers of sign-in. `signInDriver` is the only place that asks which of them is on. */
import { controlDatabase } from "../../control/database.ts";
import { listEmails } from "../../control/sessions.ts";
import { memberEmail } from "../../domain/signal/identity.ts";
import { TextField } from "../kit/forms.tsx";
import { messagePage, notFoundPage, plainPage } from "../page.tsx";
import { formText, pages, type Ctx } from "../pages-env.ts";
import { formRefusedPage, readStrangersForm } from "../read-form.tsx";
import { oidcDriver } from "./oidc.tsx";
import { problemPage } from "./refusal-pages.tsx";
import { type SignInDriver, startSession, withSessions } from "./session.ts";
import { isSignInName, type SignInName } from "./sign-in-settings.ts";
import { safeTarget } from "../safe-target.ts";

/** The path at which Access ends its session. */
const ACCESS_SIGN_OUT = "/cdn-cgi/access/logout";

/**
 * Cloudflare Access stands in front of the pages, keeps the sessions, and vouches for the email of each request. The runtime
 * sets `ctx.access` only on requests that have passed it.
 */
const accessDriver: SignInDriver = {
  proofOf: async (c) => {
    const email = await accessEmail(c);
    return email === null ? null : { email };
  },
  signInPage: async (c, to) => ((await accessEmail(c)) === null ? accessMissingPage(c) : c.redirect(to, 303)),
  notSignedIn: accessMissingPage,
  signedOut: (c) => {
    // A redirect would fail: Access leads on to its own host, and the content security policy lets no form end there.
    c.header("refresh", `0; url=${ACCESS_SIGN_OUT}`);
    const text = "You are being signed out.";
    return messagePage(c, { title: "Signing out", text, link: ["Sign out now", ACCESS_SIGN_OUT] });
  },
};

/**
 * The email that Access vouches for. Null: the request did not come through the application that ACCESS_AUD names, or it
 * came with a service token, which is no person. Another application of the account may let anybody in.
 */
async function accessEmail(c: Ctx): Promise<string | null> {
  const { access } = c.executionCtx as ExecutionContext;
  if (access === undefined || c.env.ACCESS_AUD === "" || access.aud !== c.env.ACCESS_AUD) return null;
  const identity = await access.getIdentity();
  return memberEmail(identity?.email) ?? null;
}

/** Access is configured and missing: a fault of the deployment, so the text addresses the deployer. */
function accessMissingPage(c: Ctx): Response | Promise<Response> {
  const text = (
    <>
      This request did not come through the Cloudflare Access application whose audience is <code>ACCESS_AUD</code>.
      Protect <code>/w</code> and <code>/sign-in</code> with it and set that variable, or change <code>SIGN_IN</code>.
    </>
  );
  return messagePage(c, { title: "Sign-in is not set up", status: 401, text });
}

/** Members that local sign-in lists. */
const LOCAL_MEMBERS_SHOWN = 500;

/**
 * Local sign-in, for a developer's machine: a list of members, without a proof. While it is on, http/loopback.ts lets only
 * this machine in, on every route.
 */
const localDriver: SignInDriver = {
  ...withSessions("local"),
  signInPage: async (c, to) => {
    const members = isBrowserHere(c) ? await listEmails(controlDatabase(c.env.DB), LOCAL_MEMBERS_SHOWN) : null;
    return plainPage(c, { title: "Sign in" }, <MemberChoice members={members} to={to} />);
  },
  routes: pages.createApp().post("/", async (c) => {
    const form = await readStrangersForm(c);
    if (!form.ok) return formRefusedPage(c, form.refusal);
    const email = memberEmail(formText(form.value, "email"));
    if (email === undefined || !(await startSession(c, email, "local"))) return problemPage(c, "no_member");
    return c.redirect(safeTarget(formText(form.value, "to")), 303);
  }),
};

/**
 * Whether a browser on this machine asks. A browser sends this header over plain HTTP to loopback only, and no script can set
 * it. Behind the development proxy a header sets address and Host, so nothing else proves it.
 */
function isBrowserHere(c: Ctx): boolean {
  return c.req.header("sec-fetch-site") !== undefined;
}

/** @param props.members null: they are not shown, and the email must be typed. */
function MemberChoice({ members, to }: { members: readonly { email: string; roles: string }[] | null; to: string }) {
  return (
    <>
      <p class="quiet">
        {members?.length === 0
          ? "No members yet. Add one through the operator API, described at /docs."
          : "Local mode: choose a member. No password is needed."}
      </p>
      <form method="post" action="/sign-in/local" class="stack tight">
        <input type="hidden" name="to" value={to} />
        {members === null ? (
          <>
            <TextField name="email" label="Email of a member" type="email" required />
            <button class="primary">Sign in</button>
          </>
        ) : (
          members.map(({ email, roles }) => (
            <button class="choice" name="email" value={email}>
              {email}
              <small>{roles}</small>
            </button>
          ))
        )}
      </form>
    </>
  );
}

const DRIVERS: Record<SignInName, SignInDriver> = { access: accessDriver, oidc: oidcDriver, local: localDriver };

/** Null: sign-in is off, and so are the pages. */
export function signInDriver(c: Ctx): SignInDriver | null {
  const on: string = c.env.SIGN_IN;
  return isSignInName(on) ? DRIVERS[on] : null;
}

/** The routes of all drivers, below `/sign-in`. Those of a driver that is off do not exist. */
export const driverRoutes = pages.createApp();

for (const [name, driver] of Object.entries(DRIVERS)) {
  if (driver.routes === undefined) continue;
  const onlyWhileOn = pages.createMiddleware(async (c, next) => {
    if (signInDriver(c) !== driver) return notFoundPage(c);
    await next();
  });
  driverRoutes.use(`/${name}/*`, onlyWhileOn).route(`/${name}`, driver.routes);
}
