/** The generated OpenAPI document as far as it is read here, and examples made from its schemas. */

export interface JsonSchema {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  example?: unknown;
  const?: unknown;
  default?: unknown;
  enum?: unknown[];
  properties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  additionalProperties?: boolean | JsonSchema;
}

export interface ApiContent {
  [mediaType: string]: { schema?: JsonSchema; example?: unknown };
}

export interface ApiParameter {
  name: string;
  in: "path" | "query" | "header";
  description?: string;
  required?: boolean;
  schema?: JsonSchema;
}

export interface ApiOperation {
  operationId: string;
  summary: string;
  description?: string;
  tags: string[];
  security?: Record<string, string[]>[];
  parameters?: ApiParameter[];
  requestBody?: { content: ApiContent };
  responses: { [status: string]: { description: string; content?: ApiContent } };
}

export interface ApiDocument {
  openapi: string;
  info: { title: string; description: string; version: string };
  tags: { name: string }[];
  paths: { [path: string]: { [method: string]: ApiOperation } };
  /** The requests that webhooks of others are sent, by type of event. */
  webhooks: { [type: string]: { post: ApiOperation } };
  components: { schemas: Record<string, JsonSchema> };
  "x-error-codes": { code: string; status: number; when: string }[];
}

/** Gives every answer that has no example one; the example of a problem shows its first code. */
export function fillInExamples(document: ApiDocument): ApiDocument {
  for (const operation of Object.values(document.paths).flatMap((item) => Object.values(item))) {
    for (const [status, { description, content = {} }] of Object.entries(operation.responses)) {
      for (const [mediaType, media] of Object.entries(content)) {
        media.example ??=
          mediaType === "application/problem+json"
            ? problemExample(Number(status), /`(\w+)`/.exec(description)?.[1] ?? "", document)
            : exampleOf(media.schema ?? {}, document);
      }
    }
  }
  return document;
}

export function schemaName({ $ref }: JsonSchema): string | undefined {
  return $ref?.split("/").at(-1);
}

export function resolve(schema: JsonSchema, document: ApiDocument): JsonSchema {
  const name = schemaName(schema);
  return name === undefined ? schema : (document.components.schemas[name] ?? {});
}

/** A value that fits the schema: its own example, else one made of its parts. */
function exampleOf(reference: JsonSchema, document: ApiDocument): unknown {
  const schema = resolve(reference, document);
  if (schema.example !== undefined) return schema.example;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  const choice = (schema.anyOf ?? schema.oneOf)?.[0];
  if (choice !== undefined) return exampleOf(choice, document);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  switch (type) {
    case "object":
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([name, property]) => [name, exampleOf(property, document)]),
      );
    case "array":
      return schema.items === undefined ? [] : [exampleOf(schema.items, document)];
    case "integer":
    case "number":
      return Math.max(schema.minimum ?? 0, 0);
    case "boolean":
      return false;
    case "string":
      return "text";
    default:
      return null;
  }
}

function problemExample(status: number, code: string, document: ApiDocument): unknown {
  const detail = document["x-error-codes"].find((described) => described.code === code)?.when ?? "";
  const requestId = "req_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d6f";
  return { type: `/docs#${code}`, title: "…", status, detail, code, request_id: requestId };
}
