/** Reads the person and the role anew for each page request, so that a changed role takes effect at once. */
import { controlDatabase } from "../../control/database.ts";
import { findSignedIn } from "../../control/sessions.ts";
import { clientNetwork, countFailure, countMiss, lookupWaitMs } from "../../http/auth-failures.ts";
import { canManage } from "../../domain/keys/role.ts";
import { configuredJurisdiction } from "../../env.ts";
import { pages, type Ctx } from "../pages-env.ts";
import { managersOnlyPage, notFoundPage } from "../page.tsx";
import { requireJurisdiction } from "../../domain/jurisdiction.ts";
import { Lru } from "../../platform/lru.ts";
import { signInDriver } from "./drivers.tsx";
import { problemPage } from "./refusal-pages.tsx";
import type { SignInDriver } from "./session.ts";

/** Sessions that an isolate remembers, of some 100 bytes each. */
const KNOWN_SESSIONS = 10_000;

/** Hashes of sessions that this isolate has found. Signed-in members do not wait while others send invented sessions. */
const knownSessions = new Lru<string, true>(KNOWN_SESSIONS);

/** Sets `user`, `workspaces` and `db`, and for a path of their workspace `workspace` and `role`. Else redirects to sign-in. */
export const requireSignIn = pages.createMiddleware(async (c, next) => {
  const driver = signInDriver(c);
  if (driver === null) return notFoundPage(c);
  const proof = await driver.proofOf(c);
  if (proof === null) return askToSignIn(c, driver);
  const session = "tokenHash" in proof ? proof.tokenHash : null;
  const mayBeInvented = session !== null && knownSessions.get(session) === undefined;
  if (mayBeInvented && lookupWaitMs(clientNetwork(c), Date.now()) > 0) return problemPage(c, "too_many");
  const db = controlDatabase(c.env.DB);
  const slug = c.req.param("slug") ?? null;
  const visitor = await findSignedIn(db, proof, slug, Date.now());
  if (visitor === null) {
    if (session === null) return askToSignIn(c, driver);
    knownSessions.delete(session);
    return unknownSession(c, driver);
  }
  if (session !== null) knownSessions.set(session, true);
  c.set("db", db);
  c.set("user", { email: visitor.email });
  c.set("workspaces", visitor.workspaces);
  if (visitor.here !== null) {
    requireJurisdiction(configuredJurisdiction(c.env), visitor.here.workspace.jurisdiction);
    c.set("workspace", visitor.here.workspace);
    c.set("role", visitor.here.role);
    c.get("logFields")["workspace"] = visitor.here.workspace.id;
  }
  await next();
});

/** Runs after requireSignIn. Another person's workspace gets the same answer as a missing workspace. */
export const requireMember = pages.createMiddleware(async (c, next) => {
  if (c.get("workspace") === undefined) return notFoundPage(c);
  await next();
});

/** Refuses members who are not owner or admin. */
export const requireManager = pages.createMiddleware(async (c, next) => {
  if (!canManage(c.get("role"))) return managersOnlyPage(c, null, "Not allowed", "change anything here");
  await next();
});

/** An invented session costs a look-up in the database that all workspaces share: such look-ups are limited by network. */
async function unknownSession(c: Ctx, driver: SignInDriver): Promise<Response> {
  countMiss(Date.now());
  const waitMs = await countFailure(c.env.AUTH_FAILURES, clientNetwork(c), Date.now());
  return waitMs > 0 ? problemPage(c, "too_many") : askToSignIn(c, driver);
}

/** Scripts get a 401, which they can act on; a browser is led on by the driver. */
function askToSignIn(c: Ctx, driver: SignInDriver): Response | Promise<Response> {
  const mode = c.req.header("sec-fetch-mode") ?? "navigate";
  if (mode !== "navigate") return c.text("Not signed in", 401);
  return driver.notSignedIn(c);
}
