/**
 * Public routes: the OpenAPI document, the liveness check, and the documentation at /docs, which shows the OpenAPI document as HTML in
 * the style of the workspace pages, without scripts or third-party files.
 */
import { Hono } from "hono";
import { html } from "hono/html";
import type { Child, PropsWithChildren } from "hono/jsx";
import type { AppEnv } from "../../env.ts";
import { grouped } from "../../domain/text.ts";
import { methodNotAllowed } from "../../http/problem.ts";
import { STYLE_PATH } from "../../pages/assets.ts";
import { Frame, Head, Icon } from "../../pages/kit/layout.tsx";
import { Empty, Json, Panel, Table, WithCode } from "../../pages/kit/parts.tsx";
import type { ApiDocument } from "./api-document.ts";
import { guideOf, type GuideSection } from "./guide.ts";
import { Codes, Notifications, Operation, ORIGIN, Schemas } from "./reference.tsx";
import { RESULTS_MAX, SearchIndex, searchText } from "./search-index.ts";
import {
  NOTIFICATIONS_PATH,
  PAGES,
  PARTS,
  SEARCH_PATH,
  siteOf,
  START_PATH,
  type DocsPage,
  type PartName,
  type Site,
} from "./site.ts";

const PAGE_HEADERS = {
  "content-security-policy":
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

/**
 * Anybody may ask for these. An isolate makes the document, and each page, with the first request for it, and keeps it: rendering all
 * of them takes some 45 ms of CPU time. The results of a search are rendered for each request: some 1 ms.
 *
 * @param makeDocument describes the service.
 */
export function createDocumentRoutes(makeDocument: () => ApiDocument) {
  const documentOf = once(makeDocument);
  const jsonOf = once(() => JSON.stringify(documentOf()));
  const siteOfDocument = once(() => siteOf(documentOf()));
  const indexOfSite = once(() => new SearchIndex(siteOfDocument()));

  const app = new Hono<AppEnv>()
    .get("/healthz", (c) => c.json({ status: "ok" }))
    .get("/openapi.json", (c) => c.body(jsonOf(), 200, { "content-type": "application/json" }))
    .get(SEARCH_PATH, (c) => {
      const text = searchText(c.req.query("q"));
      return c.html(html`<!doctype html>${<SearchPage text={text} index={indexOfSite()} />}`, 200, PAGE_HEADERS);
    });
  const addPage = (path: string, render: () => Child): void => {
    /** The texts between the service's own address. */
    let texts: readonly string[] | undefined;
    app.get(path, async (c) => {
      texts ??= (await html`<!doctype html>${render()}`).split(ORIGIN);
      return c.html(texts.join(originOf(c.req.url)), 200, PAGE_HEADERS);
    });
  };
  addPage(START_PATH, () => <StartPage site={siteOfDocument()} index={indexOfSite()} />);
  for (const page of PAGES) addPage(page.path, () => <ReferencePage page={page} site={siteOfDocument()} />);
  for (const path of app.routes.map((route) => route.path)) app.all(path, (c) => methodNotAllowed(c, "GET, HEAD"));
  return app;
}

/** Makes a value with the first call, and keeps it. */
function once<Value extends object | string>(make: () => Value): () => Value {
  let made: Value | undefined;
  return () => (made ??= make());
}

/**
 * The client names the host, which may contain quotes, `&` and `$`. Percent-encoded it is the same host, and ends no
 * attribute, string or shell word in which it stands.
 */
function originOf(url: string): string {
  const { origin } = new URL(url);
  return origin.replaceAll(/[^\w.:/[\]-]/g, (character) => `%${character.charCodeAt(0).toString(16)}`);
}

function ReferencePage({ page, site }: { page: DocsPage; site: Site }) {
  const { part, path, title, intro } = page;
  const [guide, entries] = [guideOf(path), site.entries.get(path) ?? []];
  const view = { ...site, path };
  const links = [
    ...guide.map((section) => ({ id: section.id, text: section.title })),
    ...entries.map(({ operation }) => ({ id: operation.operationId, text: operation.summary })),
  ];
  return (
    <Page title={title} intro={intro} part={part} path={path}>
      {links.length > 2 && (
        <nav aria-label="On this page">
          <ul class="chips">
            {links.map(({ id, text }) => (
              <li>
                <a href={`#${id}`}>{text}</a>
              </li>
            ))}
          </ul>
        </nav>
      )}
      {guide.map((section) => (
        <Guide section={section} />
      ))}
      {entries.map((entry) => (
        <Operation view={view} entry={entry} />
      ))}
      {path === NOTIFICATIONS_PATH ? <Notifications view={view} /> : <Schemas view={view} />}
      <Codes view={view} />
    </Page>
  );
}

function Guide({ section: { id, title, text, list = [], samples = [], link } }: { section: GuideSection }) {
  return (
    <Panel id={id} title={title}>
      {text.map((paragraph) => (
        <p>
          <WithCode text={paragraph} />
        </p>
      ))}
      {list.length > 0 && (
        <ul>
          {list.map((point) => (
            <li>
              <WithCode text={point} />
            </li>
          ))}
        </ul>
      )}
      {samples.map(([label, code]) => (
        <>
          <h3>{label}</h3>
          <Json value={code} label={`${title}: ${label}`} />
        </>
      ))}
      {link !== undefined && (
        <p>
          <a href={link[1]}>{link[0]}</a>
        </p>
      )}
    </Panel>
  );
}

/** The parts with their pages, and everything by name, with the anchors of a documentation that was one page. */
function StartPage({ site, index }: { site: Site; index: SearchIndex }) {
  const { title, description } = site.document.info;
  const named = index.targets.filter(({ kind }) => kind !== "Page" && kind !== "Field");
  const places = Map.groupBy(named, ({ place }) => place);
  // A code may be in both parts: its anchor leads to the first.
  const anchors = Map.groupBy(named, ({ href }) => href.split("#")[1]);
  return (
    <Page title="Documentation" intro={<WithCode text={description} />} path={START_PATH}>
      <SearchForm text="" label={`Search the documentation of ${title}`} />
      <div class="columns">
        {parts().map(([name, { text, path, about }]) => (
          <Panel title={<a href={path}>{text}</a>}>
            <p>{about}</p>
            <ul class="plain">
              {PAGES.filter(({ part }) => part === name).map((page) => (
                <li>
                  <a href={page.path}>{page.title}</a>: <span class="quiet">{page.intro}</span>
                </li>
              ))}
            </ul>
          </Panel>
        ))}
      </div>
      <Panel title="Everything by name" list>
        {[...places].map(([place, targets]) => (
          <>
            <h3>{place}</h3>
            <ul class="chips">
              {targets.map((target) => {
                const anchor = target.href.split("#")[1];
                return (
                  <li>
                    <a id={anchors.get(anchor)?.[0] === target ? anchor : undefined} href={target.href}>
                      {target.title}
                    </a>
                  </li>
                );
              })}
            </ul>
          </>
        ))}
      </Panel>
    </Page>
  );
}

function SearchPage({ text, index }: { text: string; index: SearchIndex }) {
  const found = index.find(text);
  const shown = found.slice(0, RESULTS_MAX);
  const title = text === "" ? "Search" : `Search: ${text}`;
  const hint = "Search part of an operation, a path, a field, a schema, a notification or a code.";
  return (
    <Page title={title} heading="Search" path={SEARCH_PATH} search={text}>
      <SearchForm text={text} label="Search text" />
      {text === "" && <Empty title="Enter a search text" text={hint} />}
      {text !== "" && found.length === 0 && <Empty title={`No results for “${text}”`} text={hint} />}
      {found.length > RESULTS_MAX && (
        <p class="quiet">
          The first {RESULTS_MAX} of {grouped(found.length)} results.
        </p>
      )}
      {shown.length > 0 && (
        <Table
          caption="Results"
          rows={shown}
          href={({ href }) => href}
          columns={[
            { head: "Result", cell: ({ title: name }) => name },
            { head: "Kind", cell: ({ kind }) => kind },
            { head: "In", cell: ({ place }) => place },
            { head: "Text", kind: "text", cell: ({ text: meaning }) => meaning },
          ]}
        />
      )}
    </Page>
  );
}

function SearchForm({ text, label }: { text: string; label: string }) {
  return (
    <form class="filters" action={SEARCH_PATH} role="search" aria-label={label} autocomplete="off">
      <input type="search" name="q" value={text} placeholder="Search" aria-label={label} spellcheck={false} />
      <button>Search</button>
    </form>
  );
}

const parts = () => Object.entries(PARTS) as [PartName, (typeof PARTS)[PartName]][];

interface PageProps {
  title: string;
  /** If it differs from the title. */
  heading?: string;
  intro?: Child;
  /** Undefined: the page belongs to no part, so the navigation has both. */
  part?: PartName;
  path: string;
  search?: string;
}

function Page({ title, heading = title, intro, part, path, search = "", children }: PropsWithChildren<PageProps>) {
  const crumbs: [string, string][] = [];
  if (path !== START_PATH) crumbs.push(["Documentation", START_PATH]);
  if (part !== undefined && path !== PARTS[part].path) crumbs.push([PARTS[part].text, PARTS[part].path]);
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>{path === START_PATH ? title : `${title} · Documentation`}</title>
        <link rel="stylesheet" href={STYLE_PATH} />
      </head>
      <body>
        <Frame name="Signal ingestion" menu={<Menu part={part} path={path} search={search} />}>
          <Head heading={heading} intro={intro} crumbs={crumbs} />
          {children}
        </Frame>
      </body>
    </html>
  );
}

function Menu({ part, path, search }: { part: PartName | undefined; path: string; search: string }) {
  return (
    <>
      <p class="brand workspace-name">
        <Icon name="live" />
        <a href="/">Signal ingestion</a>
      </p>
      <form class="search" action={SEARCH_PATH} role="search" aria-label="Search" autocomplete="off">
        <input type="search" name="q" value={search} placeholder="Search" aria-label="Search the documentation" />
      </form>
      <div class="tabs" role="navigation" aria-label="Parts">
        {parts().map(([name, { text, path: first }]) => (
          <a href={first} aria-current={name === part ? "true" : undefined}>
            {text}
          </a>
        ))}
      </div>
      <nav aria-label="Documentation">
        {parts()
          .filter(([name]) => part === undefined || name === part)
          .map(([name, { text }]) => (
            <div>
              <h2>{text}</h2>
              <ul>
                {PAGES.filter((page) => page.part === name).map((page) => (
                  <li>
                    <a href={page.path} aria-current={page.path === path ? "page" : undefined}>
                      {page.title}
                    </a>
                  </li>
                ))}
              </ul>
            </div>
          ))}
      </nav>
      <div class="who">
        <a href="/">Your workspaces</a>
        <a href="/openapi.json">openapi.json</a>
      </div>
    </>
  );
}
