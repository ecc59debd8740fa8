/** The OpenAPI document as HTML: operations, schemas, notifications, codes. */
import type { Child } from "hono/jsx";
import { explanationOf } from "../../http/problem.ts";
import { Json, Panel, Table, WithCode, type Column } from "../../pages/kit/parts.tsx";
import {
  choicesOf,
  dataOf,
  ownParameters,
  resolve,
  schemaName,
  type ApiContent,
  type ApiOperation,
  type ApiParameter,
  type JsonSchema,
} from "./api-document.ts";
import { adviceAt, codesOf, schemaAddress, schemasOf, type Entry, type Site } from "./site.ts";

/** Stands for the service's own address in a kept page. Nothing else contains it: `.invalid` is no domain (RFC 2606). */
export const ORIGIN = "https://origin.invalid";

/** The documentation, as one of its pages shows it. */
export interface View extends Site {
  /** Path of the page. */
  path: string;
}

const PROBLEM = "application/problem+json";

export function Operation({ view, entry }: { view: View; entry: Entry }) {
  const { method, path, operation } = entry;
  const { operationId, summary, description, requestBody, responses } = operation;
  const parameters = ownParameters(operation);
  const answers = Object.entries(responses).filter(([, { content }]) => content?.[PROBLEM] === undefined);
  return (
    <article class="panel" id={operationId}>
      <h2>{summary}</h2>
      <p>
        <strong>{method}</strong> <code>{path}</code>
      </p>
      {description !== undefined && (
        <p>
          <WithCode text={description} />
        </p>
      )}
      <Authorization operation={operation} />
      {parameters.length > 0 && <Parameters view={view} parameters={parameters} of={summary} />}
      {Object.entries(requestBody?.content ?? {}).map(([type, { schema = {} }]) => (
        <>
          <h3>Body</h3>
          <Content view={view} type={type} schema={schema} of={`the body of ${summary}`} />
        </>
      ))}
      <h3>Example</h3>
      <Json value={curl(entry)} label={`Call: ${summary}`} />
      <h3>Answer</h3>
      {answers.map(([status, answer]) => (
        <Answer view={view} status={status} text={answer.description} content={answer.content ?? {}} of={summary} />
      ))}
      <Errors of={operation} />
    </article>
  );
}

function Authorization({ operation: { security = [] } }: { operation: ApiOperation }) {
  if (security.length === 0) return <></>;
  const [scope] = security.flatMap(({ apiToken = [] }) => apiToken);
  if (scope === undefined) return <p class="small">For the operator token only.</p>;
  return (
    <p class="small">
      For an API token with the scope <code>{scope}</code>, and the operator token.
    </p>
  );
}

/** Most operations of the API have the same errors, so only those of a state (409) are links there. */
function Errors({ of: { responses, security = [] } }: { of: ApiOperation }) {
  const errors = Object.entries(responses).filter(([, { content }]) => content?.[PROBLEM] !== undefined);
  if (errors.length === 0) return <></>;
  const textOf = (status: string, codes: string): Child =>
    codes.split("`").map((part, index) => {
      if (index % 2 === 0) return part;
      const code = <code>{part}</code>;
      return security.length === 0 || status === "409" ? <a href={explanationOf(part)}>{code}</a> : code;
    });
  return (
    <p class="small">
      Errors:{" "}
      {errors.map(([status, { description }], index) => [index > 0 && "; ", `${status} `, textOf(status, description)])}
    </p>
  );
}

interface AnswerProps {
  view: View;
  status: string;
  text: string;
  content: ApiContent;
  of: string;
}

function Answer({ view, status, text, content, of }: AnswerProps) {
  return (
    <>
      <p>
        <strong>{status}</strong> <WithCode text={text} />
      </p>
      {Object.entries(content).map(([type, { schema = {}, example }]) => (
        <>
          <Content view={view} type={type} schema={schema} of={`the answer of ${of}`} />
          {type === "application/json" && schemaName(schema) === undefined && (
            <Example value={example} label={`Answer: ${of}`} />
          )}
        </>
      ))}
    </>
  );
}

/** A named schema has its example beside its fields. */
function Example({ value, label }: { value: unknown; label: string }) {
  return (
    <details>
      <summary>Example</summary>
      <Json value={value} label={label} />
    </details>
  );
}

interface ContentProps {
  view: View;
  type: string;
  schema: JsonSchema;
  of: string;
}

/** A named schema by its name, the fields of any other object. */
function Content({ view, type, schema, of }: ContentProps) {
  const choices = choicesOf(schema);
  if (choices.some((choice) => schemaName(choice) === undefined && choice.properties !== undefined)) {
    return (
      <>
        {choices.map((choice, index) => (
          <>
            {index > 0 && <p>or</p>}
            <Fields view={view} schema={choice} of={index === 0 ? of : `${of}, another form`} />
          </>
        ))}
      </>
    );
  }
  return (
    <p>
      {type !== "application/json" && (
        <>
          <code>{type}</code>:{" "}
        </>
      )}
      <Type view={view} schema={schema} />
    </p>
  );
}

export function Schemas({ view }: { view: View }) {
  return (
    <>
      {schemasOf(view, view.path).map(([name, schema]) => (
        <Panel id={`schema-${name}`} title={name}>
          {schema.description !== undefined && (
            <p>
              <WithCode text={schema.description} />
            </p>
          )}
          <Fields view={view} schema={schema} of={name} />
          {view.examples.has(name) && <Example value={view.examples.get(name)} label={name} />}
        </Panel>
      ))}
    </>
  );
}

/** All notifications share everything except `type` and `data`. */
export function Notifications({ view }: { view: View }) {
  const all = Object.entries(view.document.webhooks);
  const { description = "", parameters = [], requestBody } = all[0]?.[1].post ?? {};
  const envelope = resolve(requestBody?.content["application/json"]?.schema ?? {}, view.document);
  const anyType: JsonSchema = { type: "string", description: "What happened." };
  const { data: _, ...shared }: Record<string, JsonSchema> = { ...envelope.properties, type: anyType };
  return (
    <>
      <section class="stack" id="notifications">
        <p>
          <WithCode text={description} />
        </p>
        <Parameters view={view} parameters={parameters} of="each notification" />
        <Fields view={view} schema={{ ...envelope, properties: shared }} of="each notification" />
      </section>
      {all.map(([type, { post }]) => {
        const example = post.requestBody?.content["application/json"]?.example;
        return (
          <article class="panel" id={post.operationId}>
            <h2>
              <code>{type}</code>
            </h2>
            <p>{post.summary}</p>
            <h3>
              Fields of <code>data</code>
            </h3>
            <Fields view={view} schema={dataOf(post, view.document)} of={`data of ${type}`} />
            <h3>Example</h3>
            <Json value={example} label={`Notification: ${type}`} />
          </article>
        );
      })}
    </>
  );
}

export function Codes({ view }: { view: View }) {
  const codes = codesOf(view, view.path);
  if (codes.length === 0) return <></>;
  return (
    <Table
      caption="Codes"
      rows={codes}
      attributes={({ code }) => ({ id: code })}
      columns={[
        { head: "Code", cell: ({ code }) => <code class="nowrap">{code}</code> },
        { head: "Status", kind: "number", cell: ({ status }) => status },
        { head: "When", kind: "text", cell: ({ when }) => <WithCode text={when} /> },
        {
          head: "What to do",
          kind: "text",
          cell: ({ code }) => adviceAt(view.path, code),
        },
      ]}
    />
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

interface Field {
  name: string;
  /** Location of a parameter, such as the path; undefined for a field of a body. */
  place?: string;
  isRequired: boolean;
  schema: JsonSchema;
}

function Parameters({ view, parameters, of }: { view: View; parameters: readonly ApiParameter[]; of: string }) {
  const fields = parameters.map(({ name, in: place, required: isRequired = false, schema = {}, description }) => {
    return { name, place, isRequired, schema: { ...schema, ...(description !== undefined && { description }) } };
  });
  return <FieldTable view={view} head="Parameter" fields={fields} caption={`Parameters of ${of}`} />;
}

function Fields({ view, schema, of }: { view: View; schema: JsonSchema; of: string }) {
  const fields = Object.entries(schema.properties ?? {}).map(([name, field]) => {
    return { name, isRequired: schema.required?.includes(name) === true, schema: field };
  });
  if (fields.length > 0) return <FieldTable view={view} head="Field" fields={fields} caption={`Fields of ${of}`} />;
  return (
    <p>
      <Type view={view} schema={schema} />
    </p>
  );
}

interface FieldTableProps {
  view: View;
  head: string;
  fields: readonly Field[];
  caption: string;
}

function FieldTable({ view, head, fields, caption }: FieldTableProps) {
  const places: Column<Field>[] = [{ head: "In", cell: ({ place }) => place }];
  return (
    <Table
      caption={caption}
      rows={fields}
      columns={[
        {
          head,
          cell: ({ name, isRequired }) => (
            <>
              <code class="nowrap">{name}</code>
              {isRequired && <small>required</small>}
            </>
          ),
        },
        ...(fields.some(({ place }) => place !== undefined) ? places : []),
        { head: "Type", kind: "text", cell: ({ schema }) => <Type view={view} schema={schema} /> },
        { head: "Meaning", kind: "text", cell: ({ schema }) => meaning(schema) },
      ]}
    />
  );
}

/** A schema's type: a link for a named schema, or else its parts. */
function Type({ view, schema }: { view: View; schema: JsonSchema }): Child {
  const name = schemaName(schema);
  if (name !== undefined) return <a href={schemaAddress(view, name, view.path)}>{name}</a>;
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) {
    return <>{choices.map((choice, index) => [index > 0 && " or ", <Type view={view} schema={choice} />])}</>;
  }
  if (schema.enum !== undefined) return <code>{schema.enum.map((value) => JSON.stringify(value)).join(" | ")}</code>;
  if (schema.const !== undefined) return <code>{JSON.stringify(schema.const)}</code>;
  if (schema.type === "array" && schema.items !== undefined) {
    return (
      <>
        list of <Type view={view} schema={schema.items} />
      </>
    );
  }
  const properties = Object.keys(schema.properties ?? {});
  if (properties.length > 0) return <>{`object (${properties.join(", ")})`}</>;
  const type = [schema.type ?? "any JSON"].flat().join(" or ");
  return <>{schema.format === undefined ? type : `${type}, ${schema.format}`}</>;
}

/** Empty if nothing is to be said. */
function meaning(schema: JsonSchema): Child {
  const { description = "", minimum, maximum, maxLength } = schema;
  const notes = [
    minimum !== undefined && minimum > Number.MIN_SAFE_INTEGER && `at least ${minimum}`,
    maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER && `at most ${maximum}`,
    maxLength !== undefined && `at most ${maxLength} characters`,
    schema.default !== undefined && `${JSON.stringify(schema.default)} when left out`,
  ].filter((note) => note !== false);
  if (description === "" && notes.length === 0) return "";
  return (
    <>
      {description !== "" && <WithCode text={description} />}
      {notes.length > 0 && <small>{notes.join("; ")}</small>}
    </>
  );
}
