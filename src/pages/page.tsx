/** How a handler answers with a page. */
import type { Context } from "hono";
import { html } from "hono/html";
import type { Child } from "hono/jsx";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { withoutKeys } from "../domain/keys/api-key.ts";
import { canManage } from "../domain/keys/role.ts";
import { DONE, type Done } from "./copy.ts";
import { workspacePath, type PagesEnv } from "./pages-env.ts";
import { usageBar } from "./usage-bar.tsx";
import { PlainPage, WorkspacePage, type Section } from "./kit/layout.tsx";
import { Notice } from "./views/parts.tsx";

interface PageOptions {
  title: string;
  /** The sidebar's entry that is marked as current; null: none is. */
  section: Section | null;
  status?: ContentfulStatusCode;
  /** What can be done next, shown beside what a form has done. */
  next?: Child;
  /** Replaces the text of `?done=`. */
  doneText?: string;
  /** The page that shows a new API key, this once. */
  showsKey?: boolean;
  /** Text of the search field. */
  search?: string;
}

/** A page of the workspace. What a form has done (`?done=`) is said at the top. */
export async function page(
  c: Context<PagesEnv>,
  { title, section, status = 200, next, doneText, showsKey = false, search = "" }: PageOptions,
  content: Child,
): Promise<Response> {
  const what = c.req.query("done");
  const frame = {
    email: c.get("user").email,
    role: c.get("role"),
    workspace: c.get("workspace"),
    workspaces: c.get("workspaces"),
    search,
  };
  const document = (
    <WorkspacePage title={title} section={section} frame={frame} nonce={nonceOf(c)}>
      {section !== "usage" && section !== "overview" && (await usageBar(c, section))}
      {isDone(what) && (
        <Notice tone="good">
          {doneText ?? DONE[what]}
          {next}
        </Notice>
      )}
      {content}
    </WorkspacePage>
  );
  const text = html`<!doctype html>${document}`;
  return showsKey ? c.html(text, status) : withKeysMasked(c, text, status);
}

/** What senders and people have written may hold an API key: members see what they may not see (spec §1). */
async function withKeysMasked(
  c: Context<PagesEnv>,
  text: ReturnType<typeof html>,
  status: ContentfulStatusCode,
): Promise<Response> {
  return c.html(withoutKeys(await text), status);
}

/** A page without a workspace. */
export function plainPage(
  c: Context<PagesEnv>,
  { title, status = 200 }: { title: string; status?: ContentfulStatusCode },
  content: Child,
): Response | Promise<Response> {
  return withKeysMasked(
    c,
    html`<!doctype html>${(
        <PlainPage title={title} nonce={nonceOf(c)}>
          {content}
        </PlainPage>
      )}`,
    status,
  );
}

/** Answers with the piece of a page that a script asks for and puts in its place (client/swap.ts). */
export function fragment(
  c: Context<PagesEnv>,
  content: Child,
  status: ContentfulStatusCode = 200,
): Response | Promise<Response> {
  return withKeysMasked(c, html`${content}`, status);
}

/** Redirects after a form was done (post, redirect, get). @param path below the workspace's own. */
export function done(c: Context<PagesEnv>, path: string, what: Done): Response {
  const address = `${workspacePath(c)}/${path}`;
  return c.redirect(`${address}${address.includes("?") ? "&" : "?"}done=${what}`, 303);
}

/** The 404 page, the same for what is nowhere and for what is another workspace's. */
export function notFoundPage(c: Context<PagesEnv>, what = "page"): Response | Promise<Response> {
  const content = (
    <>
      <h1>There is no such {what}</h1>
      <p class="quiet">It may have been deleted, or it belongs to another workspace.</p>
    </>
  );
  // Without a workspace there is no sidebar to put around the message.
  if (c.get("workspace") === undefined) {
    return plainPage(
      c,
      { title: "Not found", status: 404 },
      <>
        {content}
        <p>
          <a class="button" href="/w/">
            Your workspaces
          </a>
        </p>
      </>,
    );
  }
  return page(c, { title: "Not found", section: null, status: 404 }, content);
}

/** The 403 page for members who ask for what only owners and admins may do. */
export function managersOnlyPage(
  c: Context<PagesEnv>,
  section: Section | null,
  title: string,
  what: string,
): Response | Promise<Response> {
  return page(
    c,
    { title, section, status: 403 },
    <>
      <h1>{title}</h1>
      <Notice tone="warn" title={`Only owners and admins can ${what}.`}>
        <p>Ask an owner or admin of {c.get("workspace").name}; they are listed under Members.</p>
      </Notice>
    </>,
  );
}

/** Whether whoever is signed in may change things in this workspace. */
export function mayManage(c: Context<PagesEnv>): boolean {
  return canManage(c.get("role"));
}

function nonceOf(c: Context<PagesEnv>): string {
  return c.get("secureHeadersNonce") ?? "";
}

function isDone(what: string | undefined): what is Done {
  return what !== undefined && Object.hasOwn(DONE, what);
}
