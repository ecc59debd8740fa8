/** The OpenAPI 3.1 document: the operator API from the descriptions its routes carry, and the ingestion endpoints. */
import type { RouterRoute } from "hono/types";
import * as z from "zod";
import { createDocument, type ZodOpenApiOperationObject, type ZodOpenApiPathsObject } from "zod-openapi";
import { allCodes } from "../error-codes.ts";
import { fillInExamples, type ApiDocument } from "./openapi-examples.ts";
import { ingestPaths, problemResponse } from "./openapi-ingest.ts";
import { webhooks } from "./event-schemas.ts";
import { operationOf, TAGS, type Operation } from "../operation.ts";
import { idOf } from "../schema-parts.ts";

const PATH_PARAMETERS: Record<string, z.ZodType> = {
  plan_id: z.string().meta({ description: "Of the plan.", example: "growth" }),
  workspace_id: idOf("ws", "Of the workspace."),
  email: z.string().meta({ description: "Of the member.", example: "jane@example.com" }),
  person_email: z.string().meta({ description: "Of the person.", example: "jane@example.com" }),
  key_id: idOf("key", "Of the key."),
  rule_id: idOf("rule", "Of the rule."),
  signal_id: idOf("sig", "Of the signal."),
  destination_id: idOf("dst", "Of the destination."),
  delivery_id: idOf("dlv", "Of the delivery."),
};

/** @param routes the operator API's, as mounted at /operator. */
export function openApiDocument(routes: readonly RouterRoute[]): ApiDocument {
  const paths: ZodOpenApiPathsObject = { ...ingestPaths };
  for (const { method, path, handler } of routes) {
    const described = operationOf(handler);
    if (described === undefined) continue;
    const at = `/operator${path.replace(/:(\w+)/g, "{$1}")}`;
    paths[at] = { ...paths[at], [method.toLowerCase()]: toOpenApi(method, path, described) };
  }
  paths["/healthz"] = { get: HEALTH };
  const document = createDocument(
    {
      openapi: "3.1.0",
      info: {
        title: "Signal ingestion",
        version: "1",
        description:
          "Accepts behavioural signals and account data over webhooks, authenticated by API keys in the path. The " +
          "operator API is for the deployer's own systems: `Authorization: Bearer` with the Worker secret OPERATOR_TOKEN.",
      },
      servers: [{ url: "/" }],
      tags: TAGS.map((name) => ({ name })),
      paths,
      webhooks,
      components: {
        securitySchemes: {
          operator: { type: "http", scheme: "bearer", description: "The Worker secret OPERATOR_TOKEN." },
        },
      },
      "x-error-codes": allCodes(),
    },
    {
      override({ jsonSchema, zodSchema, io }) {
        // The patterns of times are long and say no more than their format.
        if (jsonSchema.format === "date-time") delete jsonSchema.pattern;
        // Answers may get further fields, unless their schema is a strict one.
        const { def } = zodSchema._zod;
        if (io === "output" && def.type === "object" && def.catchall === undefined)
          delete jsonSchema.additionalProperties;
      },
    },
  );
  return fillInExamples(JSON.parse(JSON.stringify(document)) as ApiDocument);
}

function toOpenApi(method: string, path: string, spec: Operation): ZodOpenApiOperationObject {
  const names = Array.from(path.matchAll(/:(\w+)/g), ([, name = ""]) => name);
  const errors: { [status: string]: string[] } = {
    "401": ["operator_unauthorized"],
    "429": ["rate_limited"],
  };
  if (names.some((name) => name !== "plan_id")) errors["404"] = ["not_found"];
  if (spec.conflicts !== undefined) errors["409"] = spec.conflicts;
  if (spec.body !== undefined) {
    errors["400"] = ["body_not_json", "body_unreadable"];
    errors["413"] = ["body_too_large"];
    errors["415"] = ["content_encoding_unsupported"];
    errors["503"] = ["unavailable"];
  }
  if (spec.body !== undefined || spec.query !== undefined) errors["422"] = ["validation_failed"];
  const answers = Object.entries(spec.answers).map(([status, { description, schema, content }]) => {
    const types = schema === undefined ? content : { "application/json": schema };
    if (types === undefined) return [status, { description }];
    return [status, { description, content: mapTypes(types) }];
  });
  return {
    tags: [spec.tag],
    operationId:
      method.toLowerCase() +
      path.replace(/[/:_]+(\w)/g, (_, first: string) => first.toUpperCase()).replaceAll(/\W/g, ""),
    summary: spec.summary,
    ...(spec.description !== undefined && { description: spec.description }),
    security: [{ operator: [] }],
    requestParams: {
      ...(names.length > 0 && {
        path: z.object(Object.fromEntries(names.map((name) => [name, PATH_PARAMETERS[name] ?? z.string()]))),
      }),
      ...(spec.query !== undefined && { query: spec.query }),
    },
    ...(spec.body !== undefined && {
      requestBody: {
        required: true,
        content: { "application/json": { schema: spec.body, example: spec.bodyExample } },
      },
    }),
    responses: Object.fromEntries([
      ...answers,
      ...Object.entries(errors).map(([status, codes]) => [status, problemResponse(codes)]),
    ]),
  };
}

function mapTypes(types: { [mediaType: string]: z.ZodType }) {
  return Object.fromEntries(Object.entries(types).map(([mediaType, schema]) => [mediaType, { schema }]));
}

const HEALTH: ZodOpenApiOperationObject = {
  tags: ["Service"],
  operationId: "getLiveness",
  summary: "Liveness",
  security: [],
  responses: {
    "200": {
      description: "The Worker answers.",
      content: { "application/json": { schema: z.object({ status: z.literal("ok") }) } },
    },
  },
};
