/** Placeholder until sign-in is there: the cookie `session` names the member. */
import { getCookie } from "hono/cookie";
import { eq } from "drizzle-orm";
import { controlDatabase } from "../../control/database.ts";
import { members, workspaces } from "../../control/schema.ts";
import { findWorkspace } from "../../control/workspaces.ts";
import { canManage } from "../../domain/role.ts";
import { pages } from "../environment.ts";
import { managersOnlyPage, notFoundPage } from "../page.tsx";

export const requireSignIn = pages.createMiddleware(async (c, next) => {
  const email = getCookie(c, "session");
  if (email === undefined) return c.redirect("/sign-in", 303);
  c.set("db", controlDatabase(c.env.DB));
  c.set("user", { email });
  await next();
});

export const requireMember = pages.createMiddleware(async (c, next) => {
  const mine = await c
    .get("db")
    .select({ id: workspaces.id, slug: workspaces.slug, name: workspaces.name, role: members.role })
    .from(members)
    .innerJoin(workspaces, eq(workspaces.id, members.workspaceId))
    .where(eq(members.email, c.get("user").email));
  const here = mine.find(({ slug }) => slug === c.req.param("slug"));
  const workspace = here === undefined ? null : await findWorkspace(c.get("db"), here.id);
  if (here === undefined || workspace === null) return notFoundPage(c);
  c.set("workspace", workspace);
  c.set("role", here.role);
  c.set("workspaces", mine);
  await next();
});

/** On what only owners and admins may do. */
export const requireManager = pages.createMiddleware(async (c, next) => {
  if (!canManage(c.get("role"))) return managersOnlyPage(c, null, "Not allowed", "change anything here");
  await next();
});
