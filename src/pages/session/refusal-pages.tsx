/** Answers of sign-in that are pages. */
import type { Context } from "hono";
import type { PagesEnv } from "../pages-env.ts";
import { plainPage } from "../page.tsx";
import { SIGN_IN_PROBLEMS, type SignInProblem } from "./sign-in-copy.ts";

export function problemPage(c: Context<PagesEnv>, problem: SignInProblem): Response | Promise<Response> {
  const { status, title, text } = SIGN_IN_PROBLEMS[problem];
  c.get("logFields")["code"] = problem;
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

/** The 429 page for somebody who sends more forms than a person does. */
export function formsLimitedPage(c: Context<PagesEnv>): Response | Promise<Response> {
  c.get("logFields")["code"] = "forms_limited";
  c.header("retry-after", "60");
  return plainPage(
    c,
    { title: "Too many changes", status: 429 },
    <>
      <h1>Too many changes at a time</h1>
      <p>Nothing was saved. Wait a minute, then go back and send the form again: what you typed is still there.</p>
    </>,
  );
}

/**
 * For a form of this origin that came after its session had ended: what was typed waits on the page, to be sent again, and so
 * does the text of a file.
 *
 * @param action where it is sent again, which holds no key.
 */
export async function sessionEndedPage(c: Context<PagesEnv>, action: string): Promise<Response> {
  const form = await c.req.formData().catch(() => new FormData());
  const fields = await Promise.all(
    Array.from(form, async ([name, value]) => [name, typeof value === "string" ? value : await value.text()] as const),
  );
  return plainPage(
    c,
    { title: "You are not signed in", status: 401 },
    <>
      <h1>You are not signed in any more</h1>
      <p>
        Nothing was saved, and nothing of what you typed is lost. Sign in in a new tab, then send it from here again.
      </p>
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
