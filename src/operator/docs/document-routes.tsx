/** Public routes: the OpenAPI document, the /docs page, and the liveness check. */
import { Hono } from "hono";
import { html } from "hono/html";
import type { RouterRoute } from "hono/types";
import type { AppEnv } from "../../env.ts";
import { methodNotAllowed } from "../../http/problem.ts";
import { DocsPage } from "./docs-page.tsx";
import type { ApiDocument } from "./openapi.ts";
import { openApiDocument } from "./openapi.ts";

const PAGE_HEADERS = {
  "content-security-policy":
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

/** @param routes the operator API's. The document is made when it is first asked for, not when the Worker starts. */
export function createDocumentRoutes(routes: readonly RouterRoute[]) {
  let made: ApiDocument | undefined;
  const document = (): ApiDocument => (made ??= openApiDocument(routes));

  const app = new Hono<AppEnv>()
    .get("/healthz", (c) => c.json({ status: "ok" }))
    .get("/openapi.json", (c) => c.json(document()))
    .get("/docs/style.css", (c) => c.body(DOCS_STYLE, 200, { "content-type": "text/css; charset=utf-8" }))
    .get("/docs", (c) => {
      for (const [name, value] of Object.entries(PAGE_HEADERS)) c.header(name, value);
      return c.html(html`<!doctype html>${<DocsPage document={document()} origin={new URL(c.req.url).origin} />}`);
    });
  for (const path of ["/healthz", "/openapi.json", "/docs/style.css", "/docs"]) {
    app.all(path, (c) => methodNotAllowed(c, "GET, HEAD"));
  }
  return app;
}

/** The style of the /docs page: light and dark, wide and narrow. */
const DOCS_STYLE = `
:root { color-scheme: light dark; --text: #1b1f24; --quiet: #57606a; --page: #fff; --panel: #f4f6f8; --line: #d5dae0; --link: #0a58ca; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e3e7ec; --quiet: #9aa4af; --page: #14171b; --panel: #1d2228; --line: #343b44; --link: #7db3ff; }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body { margin: 0; font: 1rem/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); }
a { color: var(--link); }
a:focus-visible, summary:focus-visible, [tabindex]:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
nav { padding: 1rem; border-bottom: 1px solid var(--line); font-size: .9rem; }
nav h2 { font-size: .9rem; margin: 1rem 0 .25rem; }
nav ul { list-style: none; margin: 0; padding: 0; }
main { padding: 1rem; max-width: 60rem; min-width: 0; }
h1, h2, h3, h4 { line-height: 1.25; }
main > section > h2 { border-bottom: 1px solid var(--line); padding-bottom: .25rem; margin-top: 2.5rem; }
article { margin: 2rem 0 3rem; }
h4 { margin: 1rem 0 .25rem; font-size: .9rem; color: var(--quiet); }
code, pre { font-family: ui-monospace, monospace; font-size: .875rem; }
code { overflow-wrap: anywhere; }
pre, .table { overflow-x: auto; border: 1px solid var(--line); border-radius: .375rem; }
pre { margin: .25rem 0; padding: .75rem; background: var(--panel); }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .75rem; border-top: 1px solid var(--line); }
thead th { border-top: 0; color: var(--quiet); font-weight: 600; }
tr:target, article:target, section:target { background: var(--panel); }
em, small { color: var(--quiet); font-size: .8rem; }
.address { margin: .25rem 0; }
.method { font-weight: 700; }
summary { cursor: pointer; }
@media (min-width: 60rem) {
  body { display: grid; grid-template-columns: 17rem minmax(0, 1fr); }
  nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; border-bottom: 0; border-right: 1px solid var(--line); }
  main { padding: 1rem 2rem; }
}
`;
