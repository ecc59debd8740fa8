/** What the handlers of the pages know about a request, and the factory that they are made with. */
import { createFactory } from "hono/factory";
import type { Context } from "hono";
import type { SecureHeadersVariables } from "hono/secure-headers";
import type { Change, ControlDatabase } from "../control/database.ts";
import type { Role } from "../domain/keys/role.ts";
import type { Workspace } from "../control/workspaces.ts";
import type { AppEnv } from "../env.ts";
import type { Usage } from "../quota/protocol.ts";

export interface PagesEnv {
  Bindings: AppEnv["Bindings"];
  Variables: AppEnv["Variables"] &
    SecureHeadersVariables & {
      db: ControlDatabase;
      /** Who is signed in; an email in lower case. */
      user: { email: string };
      /** Of the path, once it is known that the user is its member. */
      workspace: Workspace;
      role: Role;
      /** Being asked for, where the page shows it; never fails. */
      usage?: Promise<Usage | null>;
      /** All that the user is a member of. */
      workspaces: readonly { slug: string; name: string; role: Role }[];
    };
}

export const pages = createFactory<PagesEnv>();

/** For the audit log. */
export function byMember(c: Context<PagesEnv>): Change {
  return { actor: c.get("user").email, nowMs: Date.now() };
}

/** `/w/{slug}`. */
export function workspacePath(c: Context<PagesEnv>): string {
  return `/w/${c.get("workspace").slug}`;
}
