/**
 * Local sign-in, for a developer's machine: a list of members to choose from, and no proof asked for. While it is on,
 * http/loopback.ts lets in this machine only, on every route.
 */
import type { Context } from "hono";
import { controlDatabase } from "../../control/database.ts";
import { listEmails } from "../../control/sessions.ts";
import { memberEmail } from "../../domain/signal/identity.ts";
import { plainPage } from "../page.tsx";
import { formText } from "../form-text.ts";
import { formRefusedPage, readStrangersForm } from "../read-form.tsx";
import { pages, type PagesEnv } from "../pages-env.ts";
import { TextField } from "../kit/forms.tsx";
import { problemPage } from "./refusal-pages.tsx";
import { startSession, withSessions } from "./session.ts";
import type { SignInDriver } from "./sign-in-driver.ts";
import { safeTarget } from "./sign-in-target.ts";

/** Members that local sign-in lists. */
const LOCAL_MEMBERS_SHOWN = 500;

export const localDriver: SignInDriver = {
  ...withSessions("local"),
  signInPage: async (c, to) => {
    const members = seenHere(c) ? await listEmails(controlDatabase(c.env.DB), LOCAL_MEMBERS_SHOWN) : null;
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
 * Whether a browser asks that knows this machine by its own name: it says where a request comes from to no plain-HTTP
 * host but loopback, and no script can say it in its place. Behind the development proxy nothing else tells: a header
 * there sets address and Host, which no script can elsewhere.
 */
function seenHere(c: Context<PagesEnv>): boolean {
  return c.req.header("sec-fetch-site") !== undefined;
}

interface Props {
  /** The members to choose from; null: they are not told, and an email is to be typed. */
  members: readonly { email: string; roles: string }[] | null;
  to: string;
}

function MemberChoice({ members, to }: Props) {
  return (
    <>
      <h1>Sign in</h1>
      <p class="quiet">
        {members?.length === 0
          ? "There is no member yet. Add one through the operator API, described at /docs."
          : "Local mode: pick a member, no password."}
      </p>
      <form method="post" action="/sign-in/local" class="stack">
        <input type="hidden" name="to" value={to} />
        {members === null ? (
          <>
            <TextField name="email" label="Email of a member" type="email" autocomplete="off" required />
            <button class="primary">Sign in</button>
          </>
        ) : (
          <ul class="choices">
            {members.map(({ email, roles }) => (
              <li>
                <button name="email" value={email}>
                  {email}
                  <small>{roles}</small>
                </button>
              </li>
            ))}
          </ul>
        )}
      </form>
    </>
  );
}
