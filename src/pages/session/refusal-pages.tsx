/** Answers of sign-in that are pages. */
import type { Context } from "hono";
import { PERSON_MAX_CHANGES_A_DAY } from "../../limits.ts";
import type { PagesEnv } from "../pages-env.ts";
import { plainPage } from "../page.tsx";
import { readStrangersForm, type FormRefusal } from "../read-form.tsx";
import { SIGN_IN_PROBLEMS, type SignInProblem } from "./sign-in-copy.ts";

export function problemPage(c: Context<PagesEnv>, problem: SignInProblem): Response | Promise<Response> {
  const { status, title, text } = SIGN_IN_PROBLEMS[problem];
  c.get("logFields")["code"] = problem;
  if (status === 429) c.header("retry-after", "60");
  return plainPage(
    c,
    { title, status },
    <>
      <h1>{title}</h1>
      <p>{text}</p>
      <p>
        <a class="button" href="/sign-in">
          Try again
        </a>
      </p>
    </>,
  );
}

const FORMS_LIMITED = {
  minute: {
    title: "Too many changes at a time",
    text: "Nothing was saved. Wait a minute, then go back and send the form again: what you typed is still there.",
    retryAfterSeconds: 60,
  },
  day: {
    title: "Too many changes in 24 hours",
    text: `Nothing was saved. One person may make ${PERSON_MAX_CHANGES_A_DAY} changes in 24 hours. Send the form again tomorrow, or make many changes at once by an import of rules or by the operator API.`,
    retryAfterSeconds: 3_600,
  },
} as const;

/** The 429 page for somebody who sends more forms than a person does. */
export function formsLimitedPage(c: Context<PagesEnv>, per: keyof typeof FORMS_LIMITED): Response | Promise<Response> {
  const { title, text, retryAfterSeconds } = FORMS_LIMITED[per];
  c.get("logFields")["code"] = "forms_limited";
  c.header("retry-after", String(retryAfterSeconds));
  return plainPage(
    c,
    { title: "Too many changes", status: 429 },
    <>
      <h1>{title}</h1>
      <p>{text}</p>
    </>,
  );
}

/**
 * Answers a form that was sent after its session had ended. The page keeps what was typed, and the text of a file, to be sent
 * again after sign-in. Anybody can send such a form, so its limits are those of a stranger.
 *
 * @param action path to send the form to again; it holds no API key.
 */
export async function sessionEndedPage(c: Context<PagesEnv>, action: string): Promise<Response> {
  const form = await readStrangersForm(c);
  if (!form.ok) return sessionEndedWithoutForm(c, form.refusal);
  const fields = await Promise.all(
    Array.from(
      form.value,
      async ([name, value]) => [name, typeof value === "string" ? value : await value.text()] as const,
    ),
  );
  return plainPage(
    c,
    { title: "You are not signed in", status: 401 },
    <>
      <h1>Your session has ended</h1>
      <p>Nothing was saved, and what you typed is kept on this page. Sign in in a new tab, then send it again here.</p>
      <form method="post" action={action} enctype="multipart/form-data" class="row">
        {fields.map(([name, value]) => (
          <input type="hidden" name={name} value={value} />
        ))}
        <a class="button primary" href="/sign-in" target="_blank" rel="noopener">
          Sign in
        </a>
        <button>Send it again</button>
      </form>
    </>,
  );
}

/** The same for a form that cannot be kept on the page, because it is too large or no form. */
function sessionEndedWithoutForm(c: Context<PagesEnv>, { status, detail }: FormRefusal): Response | Promise<Response> {
  return plainPage(
    c,
    { title: "You are not signed in", status },
    <>
      <h1>Your session has ended</h1>
      <p>
        Nothing was saved, and this form cannot be kept here: {detail} Sign in in a new tab, then go back in this one
        and send it again.
      </p>
      <p>
        <a class="button primary" href="/sign-in" target="_blank" rel="noopener">
          Sign in
        </a>
      </p>
    </>,
  );
}
