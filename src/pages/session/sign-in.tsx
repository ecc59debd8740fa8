/**
 * Sign-in: drivers, middleware, and the pages of sign-in and of the choice of a workspace. The middleware reads
 * the role from D1 for each request, so a changed role takes effect at once.
 */
import { controlDatabase } from "../../d1/database.ts";
import { findSignedIn, listEmails } from "../../d1/sessions.ts";
import { canManage } from "../../domain/keys/role.ts";
import { memberEmail } from "../../domain/signal/identity.ts";
import { isLoopback } from "../../domain/loopback.ts";
import { configuredJurisdiction, requireJurisdiction } from "../../env.ts";
import { clientNetwork, countFailure, countMiss } from "../../http/auth-failures.ts";
import { ROLE_LABEL } from "../copy.ts";
import { HiddenFields, TextField } from "../kit/forms.tsx";
import type { Section } from "../kit/layout.tsx";
import { managersOnlyPage, messagePage, notFoundPage, plainPage } from "../page.tsx";
import { ADDRESS_MAX_LENGTH, type Answer, type Ctx, formText, pages, typedText } from "../pages-env.ts";
import { formRejectedPage, readStrangersForm } from "../read-form.tsx";
import { FIRST_PAGE, safeTarget } from "../safe-target.ts";
import { mayAskForStranger, mayView, problemPage } from "./form-guard.tsx";
import { oidcDriver } from "./oidc.tsx";
import { endSession, knownSessions, type SignInDriver, startSession, withSessions } from "./session.ts";
import type { SignInName } from "./sign-in-settings.ts";

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
    // A redirect would fail: Access redirects to its own host, and the content security policy lets no form end there.
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
function accessMissingPage(c: Ctx): Answer {
  const text = (
    <>
      This request did not come through the Cloudflare Access application whose audience is <code>ACCESS_AUD</code>.
      Protect <code>/w</code> and <code>/sign-in</code> with it and set that variable, or change <code>SIGN_IN</code>.
      {isLoopback(c.req.url) && (
        <>
          {" "}
          On your own machine, <code>npm run dev</code> starts the service with local sign-in.
        </>
      )}
    </>
  );
  return messagePage(c, { title: "Sign-in is not set up", status: 401, text });
}

const LOCAL_MEMBERS_SHOWN = 500;

/**
 * Local sign-in, for a developer's machine: a list of members, without a proof. While it is on, http/loopback.ts lets only
 * this machine in, on every route.
 */
const localDriver: SignInDriver = {
  ...withSessions("local"),
  signInPage: async (c, to) => {
    // Other clients must type an email.
    const members = isLocalBrowser(c) ? await listEmails(controlDatabase(c.env.DB), LOCAL_MEMBERS_SHOWN) : null;
    return plainPage(
      c,
      { title: "Sign in" },
      <p class="quiet">
        {members?.length === 0
          ? "No members yet. Add one through the operator API, described at /docs/api/members."
          : "Local mode: choose a member. No password is needed."}
      </p>,
      <form method="post" action="/sign-in/local" class="stack tight">
        <HiddenFields fields={{ to }} />
        {members?.map(({ email, roles }) => (
          <button class="choice" name="email" value={email}>
            {email}
            <small>{roles}</small>
          </button>
        )) ?? (
          <>
            <TextField name="email" label="Email of a member" type="email" required />
            <button class="primary">Sign in</button>
          </>
        )}
      </form>,
    );
  },
  routes: pages.createApp().post("/", async (c) => {
    const form = await readStrangersForm(c);
    if (!form.ok) return formRejectedPage(c, form.rejection);
    const email = memberEmail(typedText(form.value, "email"));
    if (email === undefined || !(await startSession(c, email, "local"))) return problemPage(c, "no_member");
    return c.redirect(safeTarget(formText(form.value, "to", ADDRESS_MAX_LENGTH)), 303);
  }),
};

/**
 * Whether a browser on this machine asks. A browser sends this header over plain HTTP to loopback only, and no script can set
 * it. Behind the development proxy a header sets address and Host, so nothing else proves it.
 */
function isLocalBrowser(c: Ctx): boolean {
  return c.req.header("sec-fetch-site") !== undefined;
}

/** A deployment without sign-in: its pages are closed, and everything else works. */
const offDriver: SignInDriver = {
  proofOf: () => Promise.resolve(null),
  signInPage: closedPage,
  notSignedIn: closedPage,
  signedOut: closedPage,
};

function closedPage(c: Ctx): Answer {
  const text = (
    <>
      Nobody can sign in to this deployment yet. Webhooks and the operator API work. To open the pages, set{" "}
      <code>SIGN_IN</code> to <code>access</code> or <code>oidc</code> in <code>wrangler.toml</code> and deploy again.
    </>
  );
  return messagePage(c, { title: "The pages are closed", status: 403, text });
}

const DRIVERS = new Map<string, SignInDriver>(
  Object.entries({ access: accessDriver, oidc: oidcDriver, off: offDriver, local: localDriver } satisfies Record<
    SignInName,
    SignInDriver
  >),
);

/** Null: sign-in is off, and so are the pages. */
function signInDriver(c: Ctx): SignInDriver | null {
  return DRIVERS.get(c.env.SIGN_IN) ?? null;
}

/** Routes of a driver that is off do not exist. */
const driverRoutes = pages.createApp();

for (const [name, driver] of DRIVERS) {
  if (driver.routes === undefined) continue;
  const onlyWhileOn = pages.createMiddleware(async (c, next) => {
    if (signInDriver(c) !== driver) return notFoundPage(c);
    await next();
  });
  driverRoutes.use(`/${name}/*`, onlyWhileOn).route(`/${name}`, driver.routes);
}

/** Sets `user`, `workspaces` and `db`, and for a path of their workspace `workspace` and `role`. Else redirects to sign-in. */
export const requireSignIn = pages.createMiddleware(async (c, next) => {
  const driver = signInDriver(c);
  if (driver === null) return notFoundPage(c);
  const proof = await driver.proofOf(c);
  if (proof === null) return askToSignIn(c, driver);
  const session = "tokenHash" in proof ? proof.tokenHash : null;
  // Undefined: the session may be invented.
  const known = "email" in proof ? proof.email : knownSessions.get(proof.tokenHash);
  if (known === undefined && !mayAskForStranger(c)) return problemPage(c, "too_many");
  if (known !== undefined && !mayView(c, known)) return problemPage(c, "views_minute");
  const db = controlDatabase(c.env.DB);
  const slug = c.req.param("slug") ?? null;
  const signedIn = await findSignedIn(db, proof, slug, Date.now());
  if (signedIn === null) {
    if (session === null) return askToSignIn(c, driver);
    knownSessions.delete(session);
    return unknownSession(c, driver);
  }
  if (session !== null) knownSessions.set(session, signedIn.email);
  if (known === undefined && !mayView(c, signedIn.email)) return problemPage(c, "views_minute");
  c.set("db", db);
  c.set("isKnown", true);
  c.set("user", { email: signedIn.email });
  c.set("workspaces", signedIn.workspaces);
  if (signedIn.here !== null) {
    requireJurisdiction(configuredJurisdiction(c.env), signedIn.here.workspace.jurisdiction);
    c.set("workspace", signedIn.here.workspace);
    c.set("role", signedIn.here.role);
    c.get("logFields")["workspace"] = signedIn.here.workspace.id;
  }
  await next();
});

/** Runs after requireSignIn. Another person's workspace gets the same answer as a missing workspace. */
export const requireMember = pages.createMiddleware(async (c, next) => {
  const workspace = c.get("workspace");
  if (workspace === undefined) return notFoundPage(c);
  if (workspace.state === "ended") return endedPage(c);
  if (workspace.state === "importing") return importingPage(c);
  await next();
});

function importingPage(c: Ctx): Answer {
  const text = "Its data is on the way from another place. Until it is complete, senders are asked to send again.";
  return messagePage(c, { title: "This workspace is being imported", status: 503, text });
}

function endedPage(c: Ctx): Answer {
  const text = "The operator of this service has ended it. Its keys are rejected, and its data is being deleted.";
  return messagePage(c, { title: "This workspace has ended", status: 410, text });
}

/** Rejects members who are not owner or admin. The parameters are those of managersOnlyPage. */
export function managersOnly(title: string, action: string, section: Section | null = null) {
  return pages.createMiddleware(async (c, next) => {
    if (!canManage(c.get("role"))) return managersOnlyPage(c, title, action, section);
    await next();
  });
}

export const requireManager = managersOnly("Not allowed", "change anything here");

/** An invented session costs a look-up in the database that all workspaces share: such look-ups are limited by network. */
async function unknownSession(c: Ctx, driver: SignInDriver): Promise<Response> {
  countMiss(Date.now());
  const waitMs = await countFailure(c.env.AUTH_FAILURES, clientNetwork(c), Date.now());
  return waitMs > 0 ? problemPage(c, "too_many") : askToSignIn(c, driver);
}

/** Scripts get a 401, which they can act on; a browser is led on by the driver. */
function askToSignIn(c: Ctx, driver: SignInDriver): Answer {
  const mode = c.req.header("sec-fetch-mode") ?? "navigate";
  if (mode !== "navigate") return c.text("Not signed in", 401);
  return driver.notSignedIn(c);
}

export const sessionRoutes = pages
  .createApp()
  .get("/", (c) => c.redirect(FIRST_PAGE, 303))
  .get("/w", requireSignIn, async (c) => {
    const workspaces = c.get("workspaces");
    const [first, second] = workspaces;
    if (first !== undefined && second === undefined) return c.redirect(`/w/${first.slug}`, 303);
    const title = first === undefined ? "You are not a member of any workspace" : "Your workspaces";
    return plainPage(
      c,
      { title, status: first === undefined ? 403 : 200 },
      first === undefined && (
        <p>You are signed in as {c.get("user").email}. Ask an owner or admin to add this email, then reload.</p>
      ),
      <div class="stack tight">
        {workspaces.map(({ slug, name, role }) => (
          <a class="button choice" href={`/w/${slug}`}>
            {name}
            <small>{ROLE_LABEL[role]}</small>
          </a>
        ))}
      </div>,
      <form method="post" action="/sign-out">
        <button class="link">Sign out</button>
      </form>,
    );
  })
  .get("/sign-in", (c) => signInDriver(c)?.signInPage(c, safeTarget(c.req.query("to"))) ?? notFoundPage(c))
  .route("/sign-in", driverRoutes)
  .post("/sign-out", async (c) => {
    if (!(await endSession(c))) return problemPage(c, "still_signed_in");
    return signInDriver(c)?.signedOut(c) ?? c.redirect("/sign-in", 303);
  });
