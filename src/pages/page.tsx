/** Helpers for handlers that answer with a page. */
import type { Context } from "hono";
import { html } from "hono/html";
import type { Child } from "hono/jsx";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { withoutKeys } from "../domain/keys/api-key.ts";
import { canManage } from "../domain/keys/role.ts";
import { DONE, type Done } from "./copy.ts";
import { PlainPage, WorkspacePage, type Section } from "./kit/layout.tsx";
import { Notice } from "./kit/parts.tsx";
import { workspacePath, type PagesEnv } from "./pages-env.ts";
import { usageBar } from "./usage-bar.tsx";

type Answer = Response | Promise<Response>;

interface PageOptions {
  title: string;
  /** The current entry of the sidebar; null: none. */
  section: Section | null;
  status?: ContentfulStatusCode;
  /** The next step, shown beside the message of a form that succeeded. */
  next?: Child;
  /** Replaces the text of `?done=`. */
  doneText?: string;
  /** Whether the page shows a new API key. */
  showsKey?: boolean;
  /** Text of the search field. */
  search?: string;
}

/** A page of the workspace. A form that succeeded (`?done=`) has its message at the top. */
export async function page(
  c: Context<PagesEnv>,
  { title, section, status = 200, next, doneText, showsKey = false, search = "" }: PageOptions,
  content: Child,
): Promise<Response> {
  const frame = {
    email: c.get("user").email,
    role: c.get("role"),
    workspace: c.get("workspace"),
    workspaces: c.get("workspaces"),
    search,
  };
  const form = c.req.query("done");
  const document = (
    <WorkspacePage title={title} section={section} frame={frame} nonce={nonceOf(c)}>
      {section !== "usage" && section !== "overview" && (await usageBar(c, section))}
      {form !== undefined && Object.hasOwn(DONE, form) && (
        <Notice tone="good">
          {doneText ?? DONE[form as Done]}
          {next}
        </Notice>
      )}
      {content}
    </WorkspacePage>
  );
  const text = html`<!doctype html>${document}`;
  return showsKey ? c.html(text, status) : withKeysMasked(c, text, status);
}

/** Texts of senders and people may contain an API key, which members may not see (spec §1). */
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
): Answer {
  const document = (
    <PlainPage title={title} nonce={nonceOf(c)}>
      {content}
    </PlainPage>
  );
  return withKeysMasked(c, html`<!doctype html>${document}`, status);
}

interface Message {
  title: string;
  status?: ContentfulStatusCode;
  text: Child;
  link?: readonly [text: string, path: string];
}

/** A plain page of a title, a text and a link. */
export function messagePage(c: Context<PagesEnv>, { title, status = 200, text, link }: Message, more?: Child): Answer {
  return plainPage(
    c,
    { title, status },
    <>
      <h1>{title}</h1>
      <p>{text}</p>
      {link !== undefined && (
        <div class="row">
          <a class="button primary" href={link[1]}>
            {link[0]}
          </a>
        </div>
      )}
      {more}
    </>,
  );
}

/** The part of a page that a script requests and replaces (client/swap.ts). */
export function fragment(c: Context<PagesEnv>, content: Child, status: ContentfulStatusCode = 200): Answer {
  return withKeysMasked(c, html`${content}`, status);
}

/** Redirects after a form succeeded (post, redirect, get). @param path below the workspace's path. */
export function done(c: Context<PagesEnv>, path: string, what: Done): Response {
  const address = `${workspacePath(c)}/${path}`;
  return c.redirect(`${address}${address.includes("?") ? "&" : "?"}done=${what}`, 303);
}

/** The 404 page, the same for an unknown record and for a record of another workspace. */
export function notFoundPage(c: Context<PagesEnv>, what = "page"): Answer {
  const title = `This ${what} does not exist`;
  const text = "It may have been deleted, or it belongs to another workspace.";
  // Without a workspace there is no sidebar to put around the message.
  if (c.get("workspace") === undefined) {
    return messagePage(c, { title, status: 404, text, link: ["Your workspaces", "/w/"] });
  }
  const content = (
    <>
      <h1>{title}</h1>
      <p class="quiet">{text}</p>
    </>
  );
  return page(c, { title, section: null, status: 404 }, content);
}

/** The 403 page for members who request a page of owners and admins. */
export function managersOnlyPage(c: Context<PagesEnv>, section: Section | null, title: string, what: string): Answer {
  return page(
    c,
    { title, section, status: 403 },
    <>
      <h1>{title}</h1>
      <Notice tone="warn" title={`Only owners and admins can ${what}.`}>
        <p>
          Ask an owner or admin of {c.get("workspace").name}. They are listed under{" "}
          <a href={`${workspacePath(c)}/settings/members`}>Members</a>.
        </p>
      </Notice>
    </>,
  );
}

export function mayManage(c: Context<PagesEnv>): boolean {
  return canManage(c.get("role"));
}

function nonceOf(c: Context<PagesEnv>): string {
  return c.get("secureHeadersNonce") ?? "";
}
