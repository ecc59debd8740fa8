/** The variables of a request to the pages, what handlers read from them, and the factory of handlers. */
import { quotaCounter, signalStore, type WorkspaceContext } from "../workspace/objects.ts";
import { createFactory } from "hono/factory";
import type { Context } from "hono";
import type { SecureHeadersVariables } from "hono/secure-headers";
import type { ApiKey } from "../control/api-keys.ts";
import type { Change, ControlDatabase } from "../control/database.ts";
import type { Destination } from "../domain/events/destination.ts";
import type { Role } from "../domain/keys/role.ts";
import type { Workspace } from "../control/workspaces.ts";
import type { AppEnv } from "../env.ts";
import type { Usage } from "../quota/protocol.ts";

export interface PagesEnv {
  Bindings: AppEnv["Bindings"];
  Variables: AppEnv["Variables"] &
    SecureHeadersVariables & {
      db: ControlDatabase;
      /** The signed-in person; `email` is in lower case. */
      user: { email: string };
      /** Set once it is known that the user is its member. */
      workspace: Workspace;
      role: Role;
      /** Set by readForm (read-form.tsx). */
      form: FormData;
      /** Set by requireKey (keys/key.tsx) and requireDestination (notifications/). */
      apiKey: ApiKey;
      destination: Destination;
      /** The answer to come, on requests for a page; null where the usage cannot be read. Never rejects. */
      usage?: Promise<Usage | null>;
      workspaces: readonly { slug: string; name: string; role: Role }[];
    };
}

export type Ctx = Context<PagesEnv>;

export type Answer = Response | Promise<Response>;

export const pages = createFactory<PagesEnv>();

export function byMember(c: Ctx): Change {
  return { actor: c.get("user").email, nowMs: Date.now() };
}

export function contextOf(c: Ctx): WorkspaceContext {
  return { env: c.env, db: c.get("db"), workspaceId: c.get("workspace").id, by: byMember(c) };
}

export function storeOf(c: Ctx) {
  return signalStore(c.env, c.get("workspace").id);
}

export function counterOf(c: Ctx) {
  return quotaCounter(c.env, c.get("workspace").id);
}

export function workspacePath(c: Ctx): string {
  return `/w/${c.get("workspace").slug}`;
}

/** Characters of the longest text that a page writes into its own form: an id, a choice, a button. */
const WRITTEN_MAX_LENGTH = 300;
/** Characters of an address in a form. A longer one leads to the first page. */
export const ADDRESS_MAX_LENGTH = 2_000;

/**
 * The text of a field that a page has written and nobody types. Empty if the form has no such field, a file there, or a text
 * that is longer than any page writes: then nothing looks at it. `typedText` reads what a person types.
 */
export function formText(form: FormData, name: string, max = WRITTEN_MAX_LENGTH): string {
  const text = typedText(form, name);
  return text.length > max ? "" : text;
}

/**
 * The text of a field in which a person types, of any length, because the page shows it again. `checkTyped` or a schema of
 * http/fields.ts looks at its length before anything else.
 */
export function typedText(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === "string" ? value : "";
}
