/**
 * Public routes: the OpenAPI document, the liveness check, and the /docs page, which shows the OpenAPI document as HTML
 * without scripts or third-party files.
 */
import { Hono } from "hono";
import { html } from "hono/html";
import type { Child } from "hono/jsx";
import type { AppEnv } from "../../env.ts";
import { methodNotAllowed } from "../../http/problem.ts";
import { grouped } from "../../domain/text.ts";
import { REJECTIONS, isRejectionCode } from "../../http/rejection-table.ts";
import { BODY_MAX_BYTES, BODY_MAX_SIGNALS, SIGNAL_MAX_BYTES } from "../../limits.ts";
import {
  resolve,
  schemaName,
  type ApiContent,
  type ApiDocument,
  type ApiOperation,
  type ApiParameter,
  type JsonSchema,
} from "./api-document.ts";
import { curlLine, fetchCall, pythonCall, webhooksOf } from "../../domain/webhook-calls.ts";

const PAGE_HEADERS = {
  "content-security-policy":
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

/**
 * Anybody may ask for these. An isolate makes the document and both texts with the first request for them, and keeps them:
 * rendering the page takes some 20 ms of CPU time.
 *
 * @param makeDocument describes the service.
 */
export function createDocumentRoutes(makeDocument: () => ApiDocument) {
  let document: ApiDocument | undefined;
  let json: string | undefined;
  let pageParts: readonly string[] | undefined;
  const made = (): ApiDocument => (document ??= makeDocument());

  const app = new Hono<AppEnv>()
    .get("/healthz", (c) => c.json({ status: "ok" }))
    .get("/openapi.json", (c) => {
      json ??= JSON.stringify(made());
      return c.body(json, 200, { "content-type": "application/json" });
    })
    .get("/docs/style.css", (c) => c.body(DOCS_STYLE, 200, { "content-type": "text/css; charset=utf-8" }))
    .get("/docs", async (c) => {
      pageParts ??= (await html`<!doctype html>${<DocsPage document={made()} />}`).split(ORIGIN);
      for (const [name, value] of Object.entries(PAGE_HEADERS)) c.header(name, value);
      return c.html(pageParts.join(originOf(c.req.url)));
    });
  for (const path of app.routes.map((route) => route.path)) app.all(path, (c) => methodNotAllowed(c, "GET, HEAD"));
  return app;
}

/** Stands for the service's own address in the kept page. Nothing else contains it: `.invalid` is no domain (RFC 2606). */
const ORIGIN = "https://origin.invalid";

/**
 * The client names the host, which may contain quotes, `&` and `$`. Percent-encoded it is the same host, and ends no
 * attribute, string or shell word in which it stands.
 */
function originOf(url: string): string {
  const { origin } = new URL(url);
  return origin.replaceAll(/[^\w.:/[\]-]/g, (character) => `%${character.charCodeAt(0).toString(16)}`);
}

interface Entry {
  method: string;
  path: string;
  operation: ApiOperation;
}

interface Group {
  name: string;
  entries: Entry[];
}

function DocsPage({ document }: { document: ApiDocument }) {
  const entries = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]): Entry => ({ method: method.toUpperCase(), path, operation })),
  );
  const groups = document.tags.map(({ name }) => ({
    name,
    entries: entries.filter(({ operation }) => operation.tags.includes(name)),
  }));
  const { info } = document;
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>{info.title}: API</title>
        <link rel="stylesheet" href="/docs/style.css" />
      </head>
      <body>
        <Contents groups={groups} />
        <main>
          <h1>{info.title}</h1>
          <p>{marked(info.description)}</p>
          <FirstCall />
          <SendingRules />
          <Advice codes={document["x-error-codes"]} />
          {groups.map((group) => (
            <section>
              <h2>{group.name}</h2>
              {group.entries.map((entry) => (
                <Endpoint {...entry} document={document} />
              ))}
            </section>
          ))}
          <Notifications document={document} />
          <Schemas document={document} />
          <ErrorCodes codes={document["x-error-codes"]} />
        </main>
      </body>
    </html>
  );
}

function Contents({ groups }: { groups: readonly Group[] }) {
  const guide = { name: "Guide", links: GUIDE };
  const operations = groups.map(({ name, entries }) => ({
    name,
    links: entries.map(({ operation }) => ({ id: operation.operationId, title: operation.summary })),
  }));
  return (
    <nav aria-label="Contents">
      {[guide, ...operations].map(({ name, links }) => (
        <section>
          <h2>{name}</h2>
          <ul>
            {links.map(({ id, title }) => (
              <li>
                <a href={`#${id}`}>{title}</a>
              </li>
            ))}
          </ul>
        </section>
      ))}
      <p>
        <a href="#notifications">Notifications</a> · <a href="#schemas">Schemas</a> · <a href="#errors">Error codes</a>{" "}
        · <a href="/openapi.json">openapi.json</a>
      </p>
    </nav>
  );
}

function Endpoint({ method, path, operation, document }: Entry & { document: ApiDocument }) {
  const { operationId, summary, description, parameters = [], requestBody, responses } = operation;
  const body = requestBody?.content["application/json"];
  return (
    <article id={operationId}>
      <h3>{summary}</h3>
      <p class="address">
        <span class="method">{method}</span> <code>{path}</code>
      </p>
      {description !== undefined && <p>{marked(description)}</p>}
      <Authorization operation={operation} />
      {parameters.length > 0 && <Parameters parameters={parameters} />}
      {body?.schema !== undefined && (
        <>
          <h4>Body</h4>
          <Fields schema={resolve(body.schema, document)} />
        </>
      )}
      <h4>Example</h4>
      <pre tabindex={0}>{curl({ method, path, operation })}</pre>
      <h4>Answers</h4>
      {Object.entries(responses).map(([status, response]) => (
        <Answer status={status} description={response.description} content={response.content ?? {}} />
      ))}
    </article>
  );
}

function Authorization({ operation: { security = [] } }: { operation: ApiOperation }) {
  if (security.length === 0) return <></>;
  const scopes = security.flatMap(({ apiToken = [] }) => apiToken);
  const [scope] = scopes;
  return (
    <p>
      Authorization: the operator token
      {scope !== undefined && (
        <>
          , or an API token of the workspace with the scope <code>{scope}</code>
        </>
      )}
      .
    </p>
  );
}

/** All notifications share everything except `data`. */
function Notifications({ document }: { document: ApiDocument }) {
  const notifications = Object.entries(document.webhooks);
  const first = notifications[0]?.[1].post;
  return (
    <section id="notifications">
      <h2>Notifications</h2>
      <p>A webhook destination gets each notification as a POST.</p>
      {first?.description !== undefined && <p>{marked(first.description)}</p>}
      {first?.parameters !== undefined && <Parameters parameters={first.parameters} />}
      {notifications.map(([type, { post }]) => {
        const body = post.requestBody?.content["application/json"];
        return (
          <article id={post.operationId}>
            <h3>
              <code>{type}</code>
            </h3>
            <p>
              {post.summary} Body: {body?.schema !== undefined && <Type schema={body.schema} />}
            </p>
            <pre tabindex={0}>{JSON.stringify(body?.example, null, 2)}</pre>
          </article>
        );
      })}
    </section>
  );
}

function Schemas({ document }: { document: ApiDocument }) {
  return (
    <section id="schemas">
      <h2>Schemas</h2>
      {Object.entries(document.components.schemas).map(([name, schema]) => (
        <section id={`schema-${name}`}>
          <h3>{name}</h3>
          {schema.description !== undefined && <p>{marked(schema.description)}</p>}
          <Fields schema={schema} />
        </section>
      ))}
    </section>
  );
}

function ErrorCodes({ codes }: { codes: ApiDocument["x-error-codes"] }) {
  return (
    <section id="errors">
      <h2>Error codes</h2>
      <p>
        Errors are <a href="#schema-Problem">problem details</a> (RFC 9457), as <code>application/problem+json</code>.
      </p>
      <DocsTable head={["Code", "Status", "When"]}>
        {codes.map(({ code, status, when }) => (
          <tr id={code}>
            <td>
              <code>{code}</code>
            </td>
            <td>{status}</td>
            <td>{marked(when)}</td>
          </tr>
        ))}
      </DocsTable>
    </section>
  );
}

function Answer({ status, description, content }: { status: string; description: string; content: ApiContent }) {
  const media = content["application/json"];
  if (media === undefined) {
    return (
      <p>
        <strong>{status}</strong> {marked(description, true)}
      </p>
    );
  }
  return (
    <details>
      <summary>
        <strong>{status}</strong> {description} {media.schema !== undefined && <Type schema={media.schema} />}
      </summary>
      <pre tabindex={0}>{JSON.stringify(media.example, null, 2)}</pre>
    </details>
  );
}

function curl({ method, path, operation }: Entry): string {
  const address =
    ORIGIN + path.replace(/\{(\w+)\}/g, (_, name: string) => `$${name.replace(/(?=[A-Z])/g, "_").toUpperCase()}`);
  const lines = [`curl ${method === "GET" ? "" : `-X ${method} `}"${address}"`];
  if ((operation.security ?? []).length > 0) lines.push('-H "Authorization: Bearer $TOKEN"');
  const example = operation.requestBody?.content["application/json"]?.example;
  if (example !== undefined) lines.push('-H "Content-Type: application/json"', `-d '${JSON.stringify(example)}'`);
  return lines.join(" \\\n  ");
}

const GUIDE = [
  { id: "first-call", title: "The first call" },
  { id: "batches", title: "Many signals in one call" },
  { id: "retries", title: "Retries" },
  { id: "answers", title: "What to do for each code" },
] as const;

const KEY = "YOUR_API_KEY";

function FirstCall() {
  const [webhook] = webhooksOf(ORIGIN, { key: KEY, endpointType: "signal_staging", payloadTemplate: null });
  return (
    <section id="first-call">
      <h2>The first call</h2>
      <p>
        An owner or admin creates an API key on the workspace's pages, under API keys. The key is shown once. Replace{" "}
        <code>{KEY}</code> with it. If the key has a shared secret, send that in the header <code>X-Api-Secret</code>.
      </p>
      <h3>curl</h3>
      <pre tabindex={0}>{curlLine(webhook, null)}</pre>
      <h3>JavaScript</h3>
      <pre tabindex={0}>{fetchCall(webhook, null)}</pre>
      <h3>Python</h3>
      <pre tabindex={0}>{pythonCall(webhook, null)}</pre>
      <p>
        <strong>202</strong> means that the signal is stored durably and will be processed. Find it by its{" "}
        <code>id</code> on the pages or with the operator API. The status <code>held</code> means that it exceeds the
        plan's signal limit.
      </p>
    </section>
  );
}

function SendingRules() {
  return (
    <>
      <section id="batches">
        <h2>Many signals in one call</h2>
        <p>
          Post an array, or <code>{'{"batch":[…]}'}</code>: at most {grouped(BODY_MAX_SIGNALS)} signals and{" "}
          {grouped(BODY_MAX_BYTES)} bytes after decompression. The bulk endpoint also accepts one JSON object per line.
          A signal has at most {grouped(SIGNAL_MAX_BYTES)} bytes. <code>Content-Encoding: gzip</code> is accepted.
        </p>
        <p>
          Each signal is accepted or rejected on its own. The answer lists them by <code>index</code>. The status{" "}
          <code>partial</code> means that some were rejected, each with its <code>code</code> and <code>detail</code>.
        </p>
      </section>
      <section id="retries">
        <h2>Retries</h2>
        <ul>
          <li>
            <strong>No answer, 429 or 5xx</strong>: send the same body again after <code>Retry-After</code> seconds, or
            without that header after 1, 2, 4, … seconds, up to some minutes.
          </li>
          <li>
            <strong>Other 4xx</strong>: the same call would be rejected again. Fix it first.
          </li>
          <li>
            <strong>A repetition is harmless</strong> if the signal has a <code>messageId</code> (or <code>id</code>
            ), or the call has an <code>Idempotency-Key</code>: for seven days, repeated signals are duplicates and
            score nothing. Without these, the same content is a duplicate for ten minutes. Each accepted repetition
            counts against the signal limit.
          </li>
        </ul>
      </section>
    </>
  );
}

function Advice({ codes }: { codes: ApiDocument["x-error-codes"] }) {
  return (
    <section id="answers">
      <h2>What to do for each code</h2>
      <DocsTable head={["Code", "Status", "What to do"]}>
        {codes.map(({ code, status }) =>
          isRejectionCode(code) ? (
            <tr>
              <td>{marked(`\`${code}\``, true)}</td>
              <td>{status}</td>
              <td>{REJECTIONS[code].advice}</td>
            </tr>
          ) : (
            <></>
          ),
        )}
      </DocsTable>
    </section>
  );
}

interface Field {
  name: string;
  /** Location of a parameter, such as the path; undefined for a field of a body. */
  place?: string;
  isRequired: boolean;
  schema: JsonSchema;
}

function Parameters({ parameters }: { parameters: ApiParameter[] }) {
  const fields = parameters.map(({ name, in: place, required: isRequired = false, schema = {}, description }) => {
    return { name, place, isRequired, schema: { ...schema, ...(description !== undefined && { description }) } };
  });
  return <FieldTable head={["Parameter", "In", "Type", "Meaning"]} fields={fields} />;
}

function Fields({ schema }: { schema: JsonSchema }) {
  const fields = Object.entries(schema.properties ?? {}).map(([name, field]) => {
    return { name, isRequired: schema.required?.includes(name) === true, schema: field };
  });
  if (fields.length > 0) return <FieldTable head={["Field", "Type", "Meaning"]} fields={fields} />;
  return (
    <p>
      <Type schema={schema} />
    </p>
  );
}

function FieldTable({ head, fields }: { head: string[]; fields: Field[] }) {
  return (
    <DocsTable head={head}>
      {fields.map(({ name, place, isRequired, schema }) => (
        <tr>
          <td>
            <code>{name}</code>
            {isRequired && <em> required</em>}
          </td>
          {place !== undefined && <td>{place}</td>}
          <td>
            <Type schema={schema} />
          </td>
          <td>{meaning(schema)}</td>
        </tr>
      ))}
    </DocsTable>
  );
}

/** A schema's type: a link for a named schema, or else its parts. */
function Type({ schema }: { schema: JsonSchema }): Child {
  const name = schemaName(schema);
  if (name !== undefined) return <a href={`#schema-${name}`}>{name}</a>;
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) {
    return <>{choices.map((choice, index) => [index > 0 && " or ", <Type schema={choice} />])}</>;
  }
  if (schema.enum !== undefined) return <code>{schema.enum.map((value) => JSON.stringify(value)).join(" | ")}</code>;
  if (schema.const !== undefined) return <code>{JSON.stringify(schema.const)}</code>;
  if (schema.type === "array" && schema.items !== undefined) {
    return (
      <>
        list of <Type schema={schema.items} />
      </>
    );
  }
  const properties = Object.keys(schema.properties ?? {});
  if (properties.length > 0) return <>{`object (${properties.join(", ")})`}</>;
  const type = [schema.type ?? "any JSON"].flat().join(" or ");
  return <>{schema.format === undefined ? type : `${type}, ${schema.format}`}</>;
}

function meaning(schema: JsonSchema): Child {
  const { description, minimum, maximum, maxLength } = schema;
  const notes = [
    minimum !== undefined && minimum > Number.MIN_SAFE_INTEGER && `at least ${minimum}`,
    maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER && `at most ${maximum}`,
    maxLength !== undefined && `at most ${maxLength} characters`,
    schema.default !== undefined && `${JSON.stringify(schema.default)} when left out`,
  ].filter((note) => note !== false);
  return (
    <>
      {description !== undefined && description !== "" && <>{marked(description)} </>}
      {notes.length > 0 && <small>{notes.join("; ")}</small>}
    </>
  );
}

function DocsTable({ head, children }: { head: string[]; children: Child }) {
  return (
    <div class="table" tabindex={0}>
      <table>
        <thead>
          <tr>
            {head.map((title) => (
              <th scope="col">{title}</th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** Renders the `code` in a text. @param linked whether each code links to its row in the table of error codes. */
function marked(text: string, linked = false): Child {
  const parts = text.split("`").map((part, index) => {
    if (index % 2 === 0) return part;
    return linked ? (
      <a href={`#${part}`}>
        <code>{part}</code>
      </a>
    ) : (
      <code>{part}</code>
    );
  });
  return <>{parts}</>;
}

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
