/** What anybody may read: the OpenAPI document, the page made from it, and whether the Worker is alive. */
import { Hono } from "hono";
import { html } from "hono/html";
import type { RouterRoute } from "hono/types";
import type { AppEnv } from "../../env.ts";
import { methodNotAllowed } from "../../http/problem.ts";
import { DocsPage } from "./docs-page.tsx";
import { DOCS_STYLE } from "./docs-style.ts";
import { openApiDocument } from "./openapi.ts";
import type { ApiDocument } from "./openapi-examples.ts";

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
