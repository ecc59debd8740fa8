/** Sign-in, sign-out, and the way to one's workspaces (design §10). */
import { pages } from "../pages-env.ts";
import { notFoundPage, plainPage } from "../page.tsx";
import { requireSignIn } from "./require-sign-in.ts";
import { limitAttempts } from "./form-limits.ts";
import { endSession } from "./session.ts";
import { driverRoutes, signInDriver } from "./sign-in-drivers.ts";
import { FIRST_PAGE, safeTarget } from "./sign-in-target.ts";
import { Chooser, NoWorkspace } from "./sign-in-views.tsx";

export const sessionRoutes = pages
  .createApp()
  .get("/", (c) => c.redirect(FIRST_PAGE, 303))
  .get("/w", requireSignIn, async (c) => {
    const workspaces = c.get("workspaces");
    const [first, second] = workspaces;
    if (first === undefined) {
      return plainPage(c, { title: "No workspace", status: 403 }, <NoWorkspace email={c.get("user").email} />);
    }
    if (second === undefined) return c.redirect(`/w/${first.slug}`, 303);
    return plainPage(c, { title: "Your workspaces" }, <Chooser workspaces={workspaces} />);
  })
  .get("/sign-in", (c) => signInDriver(c)?.signInPage(c, safeTarget(c.req.query("to"))) ?? notFoundPage(c))
  .route("/sign-in", driverRoutes)
  .post("/sign-out", limitAttempts, async (c) => {
    await endSession(c);
    return signInDriver(c)?.signedOut(c) ?? c.redirect("/sign-in", 303);
  });
