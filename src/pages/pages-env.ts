/** The variables of a request to the pages, what handlers read from them, paths, and the factory of handlers. */
import { quotaCounter, signalStore, type WorkspaceContext } from "../use-cases/objects.ts";
import { emailAsStored } from "../domain/signal/identity.ts";
import type { Done } from "./copy.ts";
import { createFactory } from "hono/factory";
import type { Context } from "hono";
import type { SecureHeadersVariables } from "hono/secure-headers";
import type { ApiKey } from "../d1/api-keys.ts";
import type { Change, ControlDatabase } from "../d1/database.ts";
import type { Destination } from "../domain/notifications/destination.ts";
import type { Role } from "../domain/keys/role.ts";
import type { Workspace } from "../d1/workspaces.ts";
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
      /** Set by requireKey (keys/require-key.ts) and requireDestination (notifications/). */
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

/** Redirects after a form succeeded (post, redirect, get). @param path below the workspace's path. */
export function done(c: Ctx, path: string, message: Done): Response {
  const address = `${workspacePath(c)}/${path}`;
  return c.redirect(`${address}${address.includes("?") ? "&" : "?"}done=${message}`, 303);
}

export function withQuery(path: string, parameters: Record<string, string> | Iterable<[string, string]>): string {
  const query = new URLSearchParams(parameters);
  return query.size === 0 ? path : `${path}?${query.toString()}`;
}

// Paths of the pages of records. `base` is the workspace's path.

/** An email may contain slashes and percent signs. */
export function personPath(base: string, email: string): string {
  return `${base}/people/${encodeURIComponent(email)}`;
}

/** In the query, because an external id may be `.` or `..`, which a path would resolve. */
export function accountPath(base: string, externalId: string): string {
  return withQuery(`${base}/accounts/one`, { external_id: externalId });
}

export function signalPath(base: string, id: string): string {
  return `${base}/signals/${encodeURIComponent(id)}`;
}

export function groupPath(base: string, event: string, source: string): string {
  return withQuery(`${base}/signals/group`, { event, source });
}

export function rulePath(base: string, id: string): string {
  return `${base}/rules/${encodeURIComponent(id)}`;
}

export function destinationPath(base: string, id: string): string {
  return `${base}/settings/notifications/${encodeURIComponent(id)}`;
}

/** The form that maps the payload of a signal. */
export function mapPath(base: string, { keyId, id }: { keyId: string; id: string }): string {
  return withQuery(`${keyPath(base, keyId)}/template`, { signal: id });
}

export function keyPath(base: string, id: string): string {
  return `${base}/settings/api-keys/${encodeURIComponent(id)}`;
}

/** The email of a path that `personPath` has made. */
export function emailOf(c: Ctx): string {
  return emailAsStored(c.req.param("email") ?? "");
}

// Fields of a form.

/** Characters of the longest text that a page writes into its own form: an id, a choice, a button. */
const WRITTEN_MAX_LENGTH = 300;
/** Characters of an address in a form. A longer one leads to the first page. */
export const ADDRESS_MAX_LENGTH = 2_000;

/**
 * The text of a field that a page has written, such as an id. Empty if the form has no such field, a file there, or a text
 * that is longer than any page writes. `typedText` reads what a person types.
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
