/** Parameters and JSON Schemas as tables of the /docs page. */
import type { Child } from "hono/jsx";
import { schemaName, type ApiParameter, type JsonSchema } from "./openapi-examples.ts";

export function Parameters({ parameters }: { parameters: ApiParameter[] }) {
  return (
    <DocsTable head={["Parameter", "In", "Type", "Meaning"]}>
      {parameters.map(({ name, in: place, required, schema = {}, description }) => (
        <tr>
          <td>
            <code>{name}</code>
            {required === true && <em> required</em>}
          </td>
          <td>{place}</td>
          <td>
            <Type schema={schema} />
          </td>
          <td>{meaning({ ...schema, description: description ?? schema.description ?? "" })}</td>
        </tr>
      ))}
    </DocsTable>
  );
}

export function Fields({ schema }: { schema: JsonSchema }) {
  if (schema.properties === undefined || Object.keys(schema.properties).length === 0) {
    return (
      <p>
        <Type schema={schema} />
      </p>
    );
  }
  return (
    <DocsTable head={["Field", "Type", "Meaning"]}>
      {Object.entries(schema.properties).map(([name, field]) => (
        <tr>
          <td>
            <code>{name}</code>
            {schema.required?.includes(name) === true && <em> required</em>}
          </td>
          <td>
            <Type schema={field} />
          </td>
          <td>{meaning(field)}</td>
        </tr>
      ))}
    </DocsTable>
  );
}

/** A schema's type: a link where the schema is named, else what it is made of. */
export function Type({ schema }: { schema: JsonSchema }): Child {
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

export function DocsTable({ head, children }: { head: string[]; children: Child }) {
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

/** Renders the `code` in a text. */
export function marked(text: string): Child {
  return <>{text.split("`").map((part, index) => (index % 2 === 1 ? <code>{part}</code> : part))}</>;
}
