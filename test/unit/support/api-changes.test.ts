/** Which changes of the API break a program that was written for the release before. */
import { expect, test } from "vitest";
import type { ApiDocument, JsonSchema } from "../../../src/operator/docs/api-document.ts";
import { brokenPromises } from "../../support/api-changes.ts";

const json = (schema: JsonSchema) => ({ content: { "application/json": { schema } } });
const object = (properties: Record<string, JsonSchema>, required: string[] = []): JsonSchema => {
  return { type: "object", properties, required };
};
const KEY = object({ id: { type: "string" }, note: { type: "string" } }, ["id"]);
const SENT = object({ name: { type: "string" }, role: { enum: ["owner", "member"] } }, ["name"]);

interface Made {
  path?: string;
  key?: JsonSchema;
  sent?: JsonSchema;
  status?: string;
  parameters?: ApiDocument["paths"][string][string]["parameters"];
  notification?: string;
}

function apiOf({
  path = "/keys/{id}",
  key = KEY,
  sent = SENT,
  status = "200",
  parameters = [],
  notification = "key.made",
}: Made = {}) {
  const operation = { operationId: "o", summary: "s", tags: [] };
  const answer = { description: "The keys.", ...json({ type: "array", items: { $ref: "#/components/schemas/Key" } }) };
  const post = { ...operation, requestBody: json(sent), responses: { [status]: answer }, parameters };
  const notified = { ...operation, requestBody: json(object({ key })), responses: {} };
  const document = { paths: { [path]: { post } }, webhooks: { [notification]: { post: notified } } };
  return { ...document, components: { schemas: { Key: key } } } as unknown as ApiDocument;
}

test.each<[string, Made, string[]]>([
  ["nothing", {}, []],
  ["another name of a parameter of the path", { path: "/keys/{key_id}" }, []],
  ["another path", { path: "/key/{id}" }, ["POST /keys/{} is gone"]],
  ["another status", { status: "201" }, ["POST /keys/{} 200 is gone"]],
  ["another notification", { notification: "key.new" }, ["notification key.made is gone"]],
  ["one more field in answers", { key: { ...KEY, properties: { ...KEY.properties, more: { type: "string" } } } }, []],
  [
    "a field less in answers",
    { key: object({ id: { type: "string" } }, ["id"]) },
    ["POST /keys/{} 200[].note is gone", "notification key.made.key.note is gone"],
  ],
  [
    "a field that answers may leave out",
    { key: { ...KEY, required: [] } },
    ["POST /keys/{} 200[].id may be missing", "notification key.made.key.id may be missing"],
  ],
  [
    "a field that may be null",
    { key: object({ id: { type: ["string", "null"] }, note: { type: "string" } }, ["id"]) },
    ["POST /keys/{} 200[].id is also of type null", "notification key.made.key.id is also of type null"],
  ],
  ["an optional field in requests", { sent: { ...SENT, properties: { ...SENT.properties, more: {} } } }, []],
  [
    "a required field in requests",
    { sent: { ...SENT, required: ["name", "role"] } },
    ["POST /keys/{}.role is required"],
  ],
  [
    "a field less in requests",
    { sent: object({ name: { type: "string" } }, ["name"]) },
    ["POST /keys/{}.role is gone"],
  ],
  [
    "a value less in requests",
    { sent: object({ name: { type: "string" }, role: { enum: ["owner"] } }, ["name"]) },
    ['POST /keys/{}.role is no longer "member"'],
  ],
  [
    "another type in requests",
    { sent: object({ name: { type: "number" }, role: { enum: ["owner", "member"] } }, ["name"]) },
    ["POST /keys/{}.name is no longer of type string"],
  ],
  [
    "a choice in requests",
    {
      sent: object({ name: { anyOf: [{ type: "null" }, { type: "string" }] }, role: { enum: ["owner", "member"] } }, [
        "name",
      ]),
    },
    [],
  ],
  [
    "a choice in answers",
    { key: object({ id: { anyOf: [{ type: "null" }, { type: "string" }] }, note: { type: "string" } }, ["id"]) },
    ["POST /keys/{} 200[].id takes other forms", "notification key.made.key.id takes other forms"],
  ],
  [
    "a required parameter",
    { parameters: [{ name: "since", in: "query", required: true }] },
    ["POST /keys/{} ?since is required"],
  ],
])("%s", (_, changed, broken) => {
  expect(brokenPromises(apiOf(), apiOf(changed))).toEqual(broken);
});
