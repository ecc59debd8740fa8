/** Sign-in, sign-out, and the choice of a workspace (design §10). */
import { ROLE_LABEL } from "../copy.ts";
import { notFoundPage, plainPage } from "../page.tsx";
import { pages } from "../pages-env.ts";
import { driverRoutes, signInDriver } from "./drivers.tsx";
import { limitAttempts } from "./form-guard.ts";
import { requireSignIn } from "./require-sign-in.ts";
import { endSession } from "./session.ts";
import { FIRST_PAGE, safeTarget } from "../safe-target.ts";

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
      <>
        {first === undefined && (
          <p>You are signed in as {c.get("user").email}. Ask an owner or admin to add this email, then reload.</p>
        )}
        <div class="stack tight">
          {workspaces.map(({ slug, name, role }) => (
            <a class="button choice" href={`/w/${slug}`}>
              {name}
              <small>{ROLE_LABEL[role]}</small>
            </a>
          ))}
        </div>
        <form method="post" action="/sign-out">
          <button class="link">Sign out</button>
        </form>
      </>,
    );
  })
  .get("/sign-in", (c) => signInDriver(c)?.signInPage(c, safeTarget(c.req.query("to"))) ?? notFoundPage(c))
  .route("/sign-in", driverRoutes)
  .post("/sign-out", limitAttempts, async (c) => {
    await endSession(c);
    return signInDriver(c)?.signedOut(c) ?? c.redirect("/sign-in", 303);
  });
