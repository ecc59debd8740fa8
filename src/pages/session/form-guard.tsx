/**
 * Rejects forms of other sites, and limits how often one network signs in and one person opens or changes something. The pages
 * that explain a rejected request or a failed sign-in.
 */
import { csrf } from "hono/csrf";
import { hasReachedDailyChanges } from "../../d1/audit.ts";
import { FULL_BUCKET, type RateBucket, takeRequest } from "../../domain/quota/request-rate.ts";
import { clientNetwork, isWithin, lookupWaitMs } from "../../http/auth-failures.ts";
import { DOWNLOADS, turnOfPage } from "../../http/workspace-share.ts";
import { ACTOR_MAX_CHANGES_A_DAY, PAGE_VIEWS_A_MINUTE } from "../../limits.ts";
import { Lru } from "../../platform/lru.ts";
import { messagePage } from "../page.tsx";
import { type Answer, byMember, type Ctx, pages } from "../pages-env.ts";
import { readStrangersForm } from "../read-form.tsx";

const METHODS = ["GET", "HEAD", "POST"];
/** `Sec-Fetch-Site` of a request from a page of another origin. */
const FROM_ANOTHER_ORIGIN = /^(cross|same)-site$/;
const FORM = /^(application\/x-www-form-urlencoded|multipart\/form-data)\s*(;|$)/i;

const checkOrigin = csrf();

/**
 * Rejects a form that another site sends in a member's name. hono's csrf() checks only the content types that a foreign form
 * can have, so the pages accept no other types. Reads only headers.
 */
export const fromThisOrigin = pages.createMiddleware(async (c, next) => {
  const { method } = c.req;
  if (!METHODS.includes(method)) {
    return c.text("The pages accept GET, HEAD and POST only.", 405, { allow: METHODS.join(", ") });
  }
  if (method === "POST") {
    const type = c.req.header("content-type");
    if (type !== undefined && !FORM.test(type)) return c.text("The pages accept forms only.", 415);
    return checkOrigin(c, next);
  }
  // An export leaves an entry in the audit log in the name of the member.
  const isExport = c.req.path.endsWith("/export");
  if (isExport && FROM_ANOTHER_ORIGIN.test(c.req.header("sec-fetch-site") ?? "")) return c.text("Forbidden", 403);
  await next();
});

/** Limits attempts to sign in, by network. Local sign-in has no limit: there is nothing to guess. */
export const limitAttempts = pages.createMiddleware(async (c, next) => {
  if (!(await mayAttempt(c))) return problemPage(c, "too_many");
  await next();
});

export function mayAttempt(c: Ctx): Promise<boolean> {
  return isWithin(c.env.SIGN_IN_ATTEMPTS, clientNetwork(c));
}

/**
 * Whether this isolate may ask the database, which all workspaces share, for a caller that it does not know. Call countMiss if
 * the caller stays unknown.
 */
export function mayAskForStranger(c: Ctx): boolean {
  return lookupWaitMs(clientNetwork(c), Date.now()) === 0;
}

const PAGE_VIEWS = { perSecond: PAGE_VIEWS_A_MINUTE / 60, burst: PAGE_VIEWS_A_MINUTE };

/** Some 200 bytes each. */
const VIEWERS = 10_000;
/** By email. In memory, because a call of the platform's limiter for each page would cost more than it saves. */
const viewers = new Lru<string, RateBucket>(VIEWERS);

/**
 * Counts a GET of a person: a page, an export, or a poll of Live, over all sessions. Needs only the email, so that a flood is
 * rejected before it reaches the database.
 */
export function mayView(c: Ctx, email: string): boolean {
  if (c.req.method === "POST") return true;
  const { allowed, bucket } = takeRequest(viewers.get(email) ?? FULL_BUCKET, Date.now(), PAGE_VIEWS);
  viewers.set(email, bucket);
  return allowed;
}

/**
 * Limits forms and exports of a person by minute and by day, because each adds an entry to the audit log, which all workspaces
 * share. Previews, which are sent while somebody types and change nothing, have their own limit by minute. Use it after
 * requireMember.
 */
export const limitForms = pages.createMiddleware(async (c, next) => {
  const { method, path } = c.req;
  const isPreview = method === "POST" && path.endsWith("/preview");
  const isChange = !isPreview && (method === "POST" || path.endsWith("/export"));
  const key = `${isPreview ? "preview " : ""}${c.get("user").email}`;
  if ((isPreview || isChange) && !(await isWithin(c.env.PAGE_FORMS, key))) return problemPage(c, "forms_minute");
  if (isChange && (await hasReachedDailyChanges(c.get("db"), c.get("workspace").id, byMember(c)))) {
    return problemPage(c, "forms_day");
  }
  await next();
});

interface Problem {
  status: 400 | 403 | 429 | 503;
  title: string;
  text: string;
  retryAfterSeconds?: number;
  /** The code in the log, if the person is signed in. */
  memberCode?: string;
}

const PROBLEMS = {
  no_member: {
    status: 403,
    title: "You are not a member of any workspace",
    text: "Ask an owner or admin of your workspace to add the email that you sign in with.",
  },
  too_many: {
    status: 429,
    title: "Too many attempts",
    text: "Wait a minute, then try again.",
    retryAfterSeconds: 60,
  },
  attempt_unknown: {
    status: 400,
    title: "Sign-in did not finish",
    text: "It took too long, or it began in another tab or browser. Try again.",
  },
  email_unverified: {
    status: 403,
    title: "Your email is not verified",
    text: "Verify it with your sign-in provider, then sign in again.",
  },
  email_missing: {
    status: 403,
    title: "Your email is missing",
    text: "Your sign-in provider did not share your email, which decides your workspaces. Allow it, then sign in again.",
  },
  email_unusable: {
    status: 403,
    title: "Your email cannot be used here",
    text: "It is not an address, or it has characters that look like others. Sign in with another one.",
  },
  rejected: {
    status: 403,
    title: "Your sign-in provider rejected",
    text: "You are not signed in. Try again.",
  },
  provider_failed: {
    status: 503,
    title: "Your sign-in provider failed",
    text: "You are not signed in. Try again in a moment. If it keeps failing, contact the operator of this service.",
  },
  still_signed_in: {
    status: 429,
    memberCode: "sign_out_limited",
    title: "You are still signed in",
    text: "Too many attempts came from your network or to this server. Wait a minute, then sign out again.",
    retryAfterSeconds: 60,
  },
  views_minute: {
    status: 429,
    memberCode: "views_limited",
    title: "Too many pages at a time",
    text: `One person may open ${PAGE_VIEWS_A_MINUTE} pages a minute, in all tabs and scripts together. Wait ten seconds, then reload this page.`,
    retryAfterSeconds: 10,
  },
  forms_minute: {
    status: 429,
    memberCode: "forms_limited",
    title: "Too many changes at a time",
    text: "Nothing was saved. Wait a minute, then go back and send the form again. Your input is still there.",
    retryAfterSeconds: 60,
  },
  forms_day: {
    status: 429,
    memberCode: "forms_limited",
    title: "Too many changes in 24 hours",
    text: `Nothing was saved. One person may make ${ACTOR_MAX_CHANGES_A_DAY} changes in 24 hours. Try again tomorrow, import rules, or use the operator API.`,
    retryAfterSeconds: 3_600,
  },
  workspace_busy: {
    memberCode: "workspace_busy",
    status: 429,
    title: "Your workspace is very busy",
    text: "Its pages and API tokens have used their share of this server. Nothing was saved. Wait some seconds, then try again.",
    retryAfterSeconds: 5,
  },
  downloads: {
    memberCode: "downloads_limited",
    status: 429,
    title: "Too many downloads at a time",
    text: `A workspace may have ${DOWNLOADS.each} downloads under way. Finish or end one, then try again.`,
    retryAfterSeconds: 10,
  },
} as const satisfies Record<string, Problem>;

/** Charges the workspace for each page: five hundred members weigh as much as one. Use it after requireMember. */
export const limitWorkspace = pages.createMiddleware(async (c, next) => {
  if ((await turnOfPage(c.get("workspace").id)) > 0) return problemPage(c, "workspace_busy");
  await next();
});

type Problems = typeof PROBLEMS;
/** Problems of people who are not signed in. */
export type SignInProblem = {
  [Name in keyof Problems]: Problems[Name] extends { memberCode: string } ? never : Name;
}[keyof Problems];

export function problemPage(c: Ctx, problem: keyof typeof PROBLEMS): Answer {
  const { retryAfterSeconds, memberCode, ...message }: Problem = PROBLEMS[problem];
  c.get("logFields")["code"] = memberCode ?? problem;
  if (retryAfterSeconds !== undefined) c.header("retry-after", String(retryAfterSeconds));
  if (memberCode === undefined) return messagePage(c, { ...message, link: ["Try again", "/sign-in"] });
  return messagePage(c, message, problem === "still_signed_in" && <SignOut />);
}

function SignOut() {
  return (
    <form method="post" action="/sign-out">
      <button class="primary">Sign out</button>
    </form>
  );
}

/**
 * Answers a form that was sent after its session ended. The page keeps the fields, and the text of a file, to be sent again
 * after sign-in. Anybody can send such a form, so it has the limits of a stranger.
 *
 * @param action path to send the form to again; it holds no API key.
 */
export async function sessionEndedPage(c: Ctx, action: string): Promise<Response> {
  const form = await readStrangersForm(c);
  const title = "Your session has ended";
  const signIn = (
    <a class="button primary" href="/sign-in" target="_blank" rel="noopener">
      Sign in
    </a>
  );
  if (!form.ok) {
    const { status, detail } = form.rejection;
    const text = `Nothing was saved. ${detail} Sign in in a new tab, then go back in this tab and send the form again.`;
    return messagePage(c, { title, status, text }, signIn);
  }
  const fields = await Promise.all(
    Array.from(
      form.value,
      async ([name, value]) => [name, typeof value === "string" ? value : await value.text()] as const,
    ),
  );
  const text = "Nothing was saved. This page keeps your input: sign in in a new tab, then send it again here.";
  return messagePage(
    c,
    { title, status: 401, text },
    <form method="post" action={action} enctype="multipart/form-data" class="row">
      {fields.map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      {signIn}
      <button>Send again</button>
    </form>,
  );
}
