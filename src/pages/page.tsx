/** Helpers for handlers that answer with a page. */
import { html } from "hono/html";
import type { Child } from "hono/jsx";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { withoutKeys } from "../domain/keys/api-key.ts";
import { canManage } from "../domain/keys/role.ts";
import { DONE, type Done } from "./copy.ts";
import { errorList, type FieldErrors, FormErrors, LinkButton, summaryOf } from "./kit/forms.tsx";
import { grouped } from "./kit/format.ts";
import { Head, PlainPage, SECTIONS, sectionPath, WorkspacePage, type Section } from "./kit/layout.tsx";
import { Notice } from "./kit/parts.tsx";
import { workspacePath, type Answer, type Ctx } from "./pages-env.ts";
import { usageBar } from "./usage-notices.tsx";

interface PageOptions {
  /** Null: none. */
  section: Section | null;
  title: string;
  /** If it differs from the title. */
  heading?: Child;
  /** Rows of the page's list, beside the heading. */
  total?: number | undefined;
  /** The pages between the section's first page and this one, `[]` directly below it. Undefined: this is the first page. */
  crumbs?: readonly (readonly [text: string, path: string])[];
  intro?: Child;
  /** The primary button last. */
  actions?: Child;
  /** Why a form or an action was rejected. Undefined entries are no errors. */
  errors?: readonly (string | undefined)[];
  /** Errors of a form whose fields show them. */
  fieldErrors?: FieldErrors;
  errorTitle?: string;
  /** Default: 422. */
  errorStatus?: ContentfulStatusCode;
  status?: ContentfulStatusCode;
  /** Shown beside the message of a form that succeeded. */
  next?: Child;
  /** Replaces the text of `?done=`. */
  doneText?: string | undefined;
  showsKey?: boolean;
  search?: string;
}

/** A page of the workspace. A form that succeeded (`?done=`) has its message at the top. */
export async function page(c: Ctx, options: PageOptions, ...content: Child[]): Promise<Response> {
  const { section, title, heading = title, crumbs = [], intro, actions, showsKey = false, search = "" } = options;
  const { errorTitle, errorStatus = 422, total = 0 } = options;
  const { fieldErrors = {} } = options;
  const errors = (options.errors ?? []).filter((error) => error !== undefined);
  const { status = errors.length + errorList(fieldErrors).length === 0 ? 200 : errorStatus } = options;
  const message = c.req.query("done");
  const isBelow = section !== null && options.crumbs !== undefined;
  const path = isBelow ? [[SECTIONS[section].text, sectionPath(c, section)] as const, ...crumbs] : [];
  const document = (
    <WorkspacePage c={c} title={title} section={section} search={search}>
      {section !== "usage" && section !== "overview" && (await usageBar(c, section))}
      {message !== undefined && Object.hasOwn(DONE, message) && (
        <Notice tone="good">
          {options.doneText ?? DONE[message as Done]}
          {options.next}
        </Notice>
      )}
      <Head
        heading={[heading, total > 0 && [" ", <span class="tag">{grouped(total)}</span>]]}
        intro={intro}
        crumbs={path}
        actions={actions}
      />
      <FormErrors errors={[...errors, ...summaryOf(fieldErrors)]} title={errorTitle} />
      {content}
    </WorkspacePage>
  );
  const text = html`<!doctype html>${document}`;
  return showsKey ? c.html(text, status) : withKeysMasked(c, text, status);
}

/** Texts of senders and people may contain an API key, which members may not see (spec §1). */
async function withKeysMasked(c: Ctx, text: ReturnType<typeof html>, status: ContentfulStatusCode): Promise<Response> {
  return c.html(withoutKeys(await text), status);
}

interface PlainOptions {
  title: string;
  status?: ContentfulStatusCode;
}

export function plainPage(c: Ctx, { title, status = 200 }: PlainOptions, ...content: Child[]): Answer {
  const document = (
    <PlainPage c={c} title={title}>
      <h1>{title}</h1>
      {content}
    </PlainPage>
  );
  return withKeysMasked(c, html`<!doctype html>${document}`, status);
}

interface Message extends PlainOptions {
  text: Child;
  link?: readonly [text: string, path: string];
}

export function messagePage(c: Ctx, { title, status = 200, text, link }: Message, more?: Child): Answer {
  const button = link !== undefined && (
    <div class="row">
      <LinkButton href={link[1]} text={link[0]} look="primary" />
    </div>
  );
  return plainPage(c, { title, status }, <p>{text}</p>, button, more);
}

/** The part of a page that a script requests and replaces (client/swap.ts). */
export function fragment(c: Ctx, content: Child): Answer {
  return withKeysMasked(c, html`${content}`, 200);
}

interface AlreadyCreated {
  section: Section;
  noun: "key" | "token" | "destination";
  intro: Child;
  /** The secret that the first answer showed, and what to do if that answer was lost. Null: the answer showed none. */
  secret: { name: string; remedy: string } | null;
  actions: Child;
}

/** The answer to a form that was sent before: after a reload, a way back or a double click. */
export function alreadyCreatedPage(c: Ctx, { section, noun, intro, secret, actions }: AlreadyCreated) {
  const title = `This ${noun} was already created`;
  const text = secret && `The first answer showed the ${secret.name}. If you did not copy it, ${secret.remedy}.`;
  return page(
    c,
    { section, title, crumbs: [], intro, actions, status: 409 },
    <Notice tone="warn" title={`No second ${noun} was created`} text={text} />,
  );
}

/** The 404 page, the same for an unknown record and for a record of another workspace. */
export function notFoundPage(c: Ctx, noun = "page"): Answer {
  const title = `This ${noun} does not exist`;
  const text = "It may have been deleted, or it belongs to another workspace.";
  // Without a workspace there is no sidebar to put around the message.
  if (c.get("workspace") === undefined) {
    const ended = `${text} If it was in your workspace, the operator may have ended the workspace.`;
    return messagePage(c, { title, status: 404, text: ended, link: ["Your workspaces", "/w/"] });
  }
  const open = <LinkButton href={sectionPath(c, "overview")} text="Open overview" look="primary" />;
  return page(c, { title, section: null, status: 404, intro: text }, <div class="row">{open}</div>);
}

/** The 403 page for members who request a page of owners and admins. @param action completes `Only owners and admins can …`. */
export function managersOnlyPage(c: Ctx, title: string, action: string, section: Section | null): Answer {
  const members = <a href={`${workspacePath(c)}/settings/members`}>Members</a>;
  return page(
    c,
    { title, section, status: 403 },
    <Notice tone="warn" title={`Only owners and admins can ${action}.`}>
      <p>
        Ask an owner or admin of {c.get("workspace").name}. They are listed under {members}.
      </p>
    </Notice>,
  );
}

export function mayManage(c: Ctx): boolean {
  return canManage(c.get("role"));
}
