/** The /docs page: the OpenAPI document, readable. Server-rendered, no script, nothing from another host. */
import type { Child } from "hono/jsx";
import { Guide, GUIDE } from "./docs-guide.tsx";
import { Fields, marked, Parameters, DocsTable, Type } from "./docs-tables.tsx";
import { resolve } from "./openapi-examples.ts";
import type { ApiContent, ApiDocument, ApiOperation } from "./openapi-examples.ts";

interface Entry {
  method: string;
  path: string;
  operation: ApiOperation;
}

export function DocsPage({ document, origin }: { document: ApiDocument; origin: string }) {
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
        <nav aria-label="Contents">
          <section>
            <h2>Guide</h2>
            <ul>
              {GUIDE.map(({ id, title }) => (
                <li>
                  <a href={`#${id}`}>{title}</a>
                </li>
              ))}
            </ul>
          </section>
          {groups.map((group) => (
            <section>
              <h2>{group.name}</h2>
              <ul>
                {group.entries.map(({ operation }) => (
                  <li>
                    <a href={`#${operation.operationId}`}>{operation.summary}</a>
                  </li>
                ))}
              </ul>
            </section>
          ))}
          <p>
            <a href="#events">Events</a> · <a href="#schemas">Schemas</a> · <a href="#errors">Error codes</a> ·{" "}
            <a href="/openapi.json">openapi.json</a>
          </p>
        </nav>
        <main>
          <h1>{info.title}</h1>
          <p>{marked(info.description)}</p>
          <Guide origin={origin} codes={document["x-error-codes"]} />
          {groups.map((group) => (
            <section>
              <h2>{group.name}</h2>
              {group.entries.map((entry) => (
                <Endpoint {...entry} document={document} origin={origin} />
              ))}
            </section>
          ))}
          <section id="events">
            <h2>Events</h2>
            <Events document={document} />
          </section>
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
          <section id="errors">
            <h2>Error codes</h2>
            <p>
              Errors are <a href="#schema-Problem">problem details</a> (RFC 9457), as{" "}
              <code>application/problem+json</code>.
            </p>
            <DocsTable head={["Code", "Status", "When"]}>
              {document["x-error-codes"].map(({ code, status, when }) => (
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
        </main>
      </body>
    </html>
  );
}

function Endpoint({ method, path, operation, document, origin }: Entry & { document: ApiDocument; origin: string }) {
  const { operationId, summary, description, parameters = [], requestBody, responses } = operation;
  const body = requestBody?.content["application/json"];
  return (
    <article id={operationId}>
      <h3>{summary}</h3>
      <p class="address">
        <span class="method">{method}</span> <code>{path}</code>
      </p>
      {description !== undefined && <p>{marked(description)}</p>}
      {parameters.length > 0 && <Parameters parameters={parameters} />}
      {body?.schema !== undefined && (
        <>
          <h4>Body</h4>
          <Fields schema={resolve(body.schema, document)} />
        </>
      )}
      <h4>Example</h4>
      <pre tabindex={0}>{curl({ method, path, operation }, origin)}</pre>
      <h4>Answers</h4>
      {Object.entries(responses).map(([status, response]) => (
        <Answer status={status} description={response.description} content={response.content ?? {}} />
      ))}
    </article>
  );
}

/** The events that webhooks of others are sent. All types of event share everything but the data. */
function Events({ document }: { document: ApiDocument }) {
  const events = Object.entries(document.webhooks);
  const first = events[0]?.[1].post;
  return (
    <>
      <p>What a webhook that is a destination is sent, as a POST.</p>
      {first?.description !== undefined && <p>{marked(first.description)}</p>}
      {first?.parameters !== undefined && <Parameters parameters={first.parameters} />}
      {events.map(([type, { post }]) => {
        const body = post.requestBody?.content["application/json"];
        return (
          <article id={post.operationId}>
            <h3>
              <code>{type}</code>
            </h3>
            <p>
              {post.summary}: {body?.schema !== undefined && <Type schema={body.schema} />}
            </p>
            <pre tabindex={0}>{JSON.stringify(body?.example, null, 2)}</pre>
          </article>
        );
      })}
    </>
  );
}

function Answer({ status, description, content }: { status: string; description: string; content: ApiContent }) {
  const media = content["application/json"];
  if (media === undefined) {
    return (
      <p>
        <strong>{status}</strong> {linkedCodes(description)}
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

function curl({ method, path, operation }: Entry, origin: string): string {
  const address =
    origin + path.replace(/\{(\w+)\}/g, (_, name: string) => `$${name.replace(/(?=[A-Z])/g, "_").toUpperCase()}`);
  const lines = [`curl ${method === "GET" ? "" : `-X ${method} `}"${address}"`];
  if ((operation.security ?? []).length > 0) lines.push('-H "Authorization: Bearer $OPERATOR_TOKEN"');
  const example = operation.requestBody?.content["application/json"]?.example;
  if (example !== undefined) lines.push('-H "Content-Type: application/json"', `-d '${JSON.stringify(example)}'`);
  return lines.join(" \\\n  ");
}

/** The description of an error answer lists its codes; each leads to its line in the table. */
function linkedCodes(text: string): Child {
  return (
    <>
      {text.split("`").map((part, index) =>
        index % 2 === 1 ? (
          <a href={`#${part}`}>
            <code>{part}</code>
          </a>
        ) : (
          part
        ),
      )}
    </>
  );
}
