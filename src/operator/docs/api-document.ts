/** The OpenAPI document as data. */

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
  maxLength?: number;
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
  webhooks: { [type: string]: { post: ApiOperation } };
  components: { schemas: Record<string, JsonSchema> };
  "x-error-codes": { code: string; status: number; when: string }[];
}

export function schemaName({ $ref }: JsonSchema): string | undefined {
  return $ref?.split("/").at(-1);
}

export function resolve(schema: JsonSchema, document: ApiDocument): JsonSchema {
  const name = schemaName(schema);
  return name === undefined ? schema : (document.components.schemas[name] ?? {});
}

/** The schema of `data` in the body of a notification. */
export function dataOf({ requestBody }: ApiOperation, document: ApiDocument): JsonSchema {
  const envelope = requestBody?.content["application/json"]?.schema ?? {};
  return resolve(envelope, document).properties?.["data"] ?? {};
}

/** Without the workspace's id, which almost every path has: a guide explains it once. */
export function ownParameters({ parameters = [] }: ApiOperation): ApiParameter[] {
  return parameters.filter(({ name }) => name !== "workspace_id");
}

/** The schemas among which a value may choose; of any other schema itself. */
export function choicesOf(schema: JsonSchema): JsonSchema[] {
  return schema.anyOf ?? schema.oneOf ?? [schema];
}
