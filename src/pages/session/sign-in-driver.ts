/** What a way to sign in does (design §10); each has one driver, and nothing else asks which of them is on. */
import type { Context, Hono } from "hono";
import type { SignInProof } from "../../control/sessions.ts";
import type { PagesEnv } from "../pages-env.ts";

type Answer = Response | Promise<Response>;

export interface SignInDriver {
  /** What proves who makes a request; null: nothing does. */
  proofOf(c: Context<PagesEnv>): Promise<SignInProof | null>;
  /** The page of `/sign-in`. @param to where to go once signed in, a path of the pages */
  signInPage(c: Context<PagesEnv>, to: string): Answer;
  /** The steps of signing in, below `/sign-in/{name of the driver}`; without them it happens elsewhere. */
  routes?: Hono<PagesEnv>;
  /** Answers a browser that asks for a page, or sends a form, and is not signed in. */
  notSignedIn(c: Context<PagesEnv>): Answer;
  /** Where signing out leads, once this service's session has ended. */
  signedOut(c: Context<PagesEnv>): Answer;
}
