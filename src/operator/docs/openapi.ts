/**
 * The OpenAPI 3.1 document: the operator API from the descriptions that its routes carry, the ingestion endpoints, and the
 * webhooks. The ingestion schemas only describe; domain/ validates the calls.
 */
import * as z from "zod";
import {
  createDocument,
  type ZodOpenApiOperationObject,
  type ZodOpenApiPathItemObject,
  type ZodOpenApiPathsObject,
  type ZodOpenApiResponsesObject,
} from "zod-openapi";
import { NOTIFICATION_DATA } from "../../domain/notifications/notification-data.ts";
import {
  exampleNotification,
  destinationNotificationTypes,
  notificationTypes,
  NOTIFICATION_CATALOGUE,
  type AnyNotificationType,
} from "../../domain/notifications/notification.ts";
import { envelopeOf } from "../../domain/notifications/request-body.ts";
import type { RejectionCode } from "../../domain/keys/rejection.ts";
import { ADMITTED_VERDICTS, eachVerdict, VERDICTS } from "../../domain/quota/quota.ts";
import { CDP_CALL_TYPES } from "../../domain/signal/signal.ts";
import { boundedText } from "../../http/fields.ts";
import { explanationOf } from "../../http/problem.ts";
import { REJECTIONS } from "../../http/rejection-table.ts";
import {
  BODY_MAX_BYTES,
  BODY_MAX_SIGNALS,
  IDEMPOTENCY_KEY_MAX_LENGTH,
  NAME_MAX_CODE_POINTS,
  SIGNAL_MAX_BYTES,
} from "../../limits.ts";
import { idOf, isoInstant as instant, TAGS, allCodes, type Operation } from "../operation.ts";
import { type JsonSchema, type ApiDocument, resolve } from "./api-document.ts";

const PATH_PARAMETERS: Record<string, z.ZodType> = {
  apiKey: z.string().meta({ description: "The full key.", example: "sk_…" }),
  source: z.string().meta({ description: "Origin of the signal. Replaces the body's `source`.", example: "website" }),
  plan_id: z.string().meta({ description: "Of the plan.", example: "growth" }),
  workspace_id: idOf("ws", "Of the workspace."),
  email: z.string().meta({ description: "Of the member.", example: "jane@example.com" }),
  person_email: z.string().meta({ description: "Of the person.", example: "jane@example.com" }),
  key_id: idOf("key", "Of the key."),
  token_id: idOf("tok", "Of the token."),
  rule_id: idOf("rule", "Of the rule."),
  signal_id: idOf("sig", "Of the signal."),
  destination_id: idOf("dst", "Of the destination."),
  delivery_id: idOf("dlv", "Of the delivery."),
};

/** @param operations the operator API's. */
export function openApiDocument(operations: readonly Operation[]): ApiDocument {
  const paths: ZodOpenApiPathsObject = {};
  for (const [path, spec] of Object.entries(INGESTION)) paths[path] = ingestion(path, spec);
  for (const operation of operations) {
    const path = `/operator${operation.path.replace(/:(\w+)/g, "{$1}")}`;
    paths[path] = { ...paths[path], [operation.method.toLowerCase()]: toOpenApi(path, operation) };
  }
  paths["/healthz"] = { get: HEALTH };
  const document = createDocument(
    {
      openapi: "3.1.0",
      info: {
        title: "Signal ingestion",
        version: "1",
        description:
          "Accepts behavioural signals and account data over webhooks, authenticated by API keys in the path. Programs of a " +
          "workspace call the API with `Authorization: Bearer` and an API token of the workspace. The deployer's own systems " +
          "use the operator token, which is the Worker secret OPERATOR_TOKEN.",
      },
      servers: [{ url: "/" }],
      tags: TAGS.map((name) => ({ name })),
      paths,
      webhooks,
      components: {
        securitySchemes: {
          apiToken: {
            type: "http",
            scheme: "bearer",
            description:
              "An API token of the workspace in the path. The requirement of an operation names the scope that the token needs.",
          },
          operator: { type: "http", scheme: "bearer", description: "The Worker secret OPERATOR_TOKEN." },
        },
      },
      "x-error-codes": allCodes(),
    },
    {
      override({ jsonSchema, zodSchema, io }) {
        // Omit the patterns of times: they are long and add nothing to the format.
        if (jsonSchema.format === "date-time") delete jsonSchema.pattern;
        // Answers may gain fields, unless their schema is strict.
        const { def } = zodSchema._zod;
        if (io === "output" && def.type === "object" && def.catchall === undefined)
          delete jsonSchema.additionalProperties;
      },
    },
  );
  return fillInExamples(JSON.parse(JSON.stringify(document)) as ApiDocument);
}

function pathParameters(path: string): z.ZodObject {
  const names = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name = ""]) => name);
  return z.object(Object.fromEntries(names.map((name) => [name, PATH_PARAMETERS[name] ?? z.string()])));
}

function toOpenApi(path: string, operation: Operation): ZodOpenApiOperationObject {
  const { method, tag, summary, description, scope, body, bodyExample, query, schema, content, conflicts } = operation;
  const { idempotencyKey } = operation;
  const parameters = pathParameters(path);
  const errors: { [status: string]: string[] } = {
    "401": ["operator_unauthorized"],
    "403": [scope === undefined ? "operator_only" : "insufficient_scope"],
    "429": ["rate_limited"],
  };
  if (Object.keys(parameters.shape).some((name) => name !== "plan_id")) errors["404"] = ["not_found"];
  if (conflicts !== undefined) errors["409"] = [...conflicts];
  if (body !== undefined) {
    errors["400"] = ["body_not_json", "body_unreadable"];
    errors["413"] = ["body_too_large"];
    errors["415"] = ["content_encoding_unsupported"];
    errors["503"] = ["unavailable"];
  }
  if (body !== undefined || query !== undefined) errors["422"] = ["validation_failed"];
  const types = Object.entries({ ...content, ...(schema !== undefined && { "application/json": schema }) });
  const contentOf = Object.fromEntries(types.map(([mediaType, type]) => [mediaType, { schema: type }]));
  const answers = Object.entries(operation.answers).map(([status, meaning]) => [
    status,
    { description: meaning, ...(status !== "204" && { content: contentOf }) },
  ]);
  return {
    tags: [tag],
    operationId: method.toLowerCase() + pascalCase(path.slice("/operator".length)),
    summary,
    ...(description !== undefined && { description }),
    security: [{ operator: [] }, ...(scope === undefined ? [] : [{ apiToken: [scope] }])],
    requestParams: {
      path: parameters,
      ...(query !== undefined && { query }),
      ...(idempotencyKey !== undefined && { header: idempotencyHeader(idempotencyKey) }),
    },
    ...(body !== undefined && {
      requestBody: {
        required: true,
        content: { "application/json": { schema: body, example: bodyExample } },
      },
    }),
    responses: Object.fromEntries([
      ...answers,
      ...Object.entries(errors).map(([status, codes]) => [status, problemResponse(codes)]),
    ]),
  };
}

function idempotencyHeader(description: string): z.ZodObject {
  return z.object({
    "Idempotency-Key": boundedText(IDEMPOTENCY_KEY_MAX_LENGTH).optional().describe(description),
  });
}

function pascalCase(path: string): string {
  return path.replace(/[/{}_]+(\w)/g, (_, first: string) => first.toUpperCase()).replaceAll(/\W/g, "");
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

const SIGNAL_EXAMPLE = {
  email: "jane@example.com",
  event: "Filled Out Form",
  source: "marketing-automation",
  properties: { form_name: "Request a demo", page_url: "https://example.com/demo" },
};

const universalSignal = z
  .looseObject({
    email: z.string().nullish().meta({ format: "email" }),
    event: z.string().meta({ description: "Mapping rules match on it.", maxLength: NAME_MAX_CODE_POINTS }),
    source: z.string().nullish().meta({ description: "Origin of the signal.", maxLength: NAME_MAX_CODE_POINTS }),
    properties: z.record(z.string(), z.unknown()).nullish().describe("Any JSON object."),
  })
  .meta({ id: "SignalPayload", description: "A universal signal (spec §2.2).", example: SIGNAL_EXAMPLE });

const cdpCall = z
  .looseObject({
    type: z.enum(CDP_CALL_TYPES),
    messageId: z.string().optional(),
    anonymousId: z.string().nullish(),
    userId: z.string().nullish(),
    event: z.string().optional().describe("Of a `track` call."),
    name: z.string().optional().describe("Of a `page` call."),
    properties: z.record(z.string(), z.unknown()).optional(),
    traits: z
      .looseObject({ email: z.string(), name: z.string(), company: z.unknown(), title: z.string() })
      .partial()
      .optional()
      .describe("Of an `identify` call. `context.traits` is accepted too."),
    context: z.record(z.string(), z.unknown()).optional(),
  })
  .meta({ id: "CdpCall", description: "A call in the format of customer data platforms (spec §6)." });

const signal = z.union([universalSignal, cdpCall]);
const signals = z.union([signal, z.array(signal), z.looseObject({ batch: z.array(signal) })]);
const account = z
  .looseObject({})
  .meta({ id: "AccountPayload", description: "Any object. The key's payload template maps its paths." });

const signalAccepted = z
  .object({ status: z.enum(ADMITTED_VERDICTS), id: idOf("sig", "Identifies the signal everywhere.") })
  .meta({ id: "SignalAccepted", description: "Answer to one signal." });
const signalsAccepted = z
  .object({
    status: z.enum(["accepted", "partial"]),
    ...eachVerdict(() => z.int()),
    results: z.array(
      z.object({
        index: z.int(),
        status: z.enum(VERDICTS),
        id: z.string().optional(),
        code: z.string().optional(),
        detail: z.string().optional(),
      }),
    ),
  })
  .meta({ id: "SignalsAccepted", description: "Answer to an array or a batch, with one result per signal, in order." });

const requestHeaders = z.object({
  "X-Api-Secret": z.string().optional().describe("The shared secret, if the key has one."),
  "Idempotency-Key": boundedText(IDEMPOTENCY_KEY_MAX_LENGTH)
    .optional()
    .describe(
      "If a call is repeated with the same value and API key within seven days, its signals are duplicates and score nothing.",
    ),
});

const limitHeaders = z.object({
  RateLimit: z
    .string()
    .optional()
    .meta({ header: { description: "The remaining request rate and quota." } }),
  "RateLimit-Policy": z
    .string()
    .optional()
    .meta({ header: { description: "The limits themselves." } }),
});
const retryHeaders = limitHeaders.extend({
  "Retry-After": z.string().meta({ header: { description: "In seconds." } }),
});

function rejections(): ZodOpenApiResponsesObject {
  const codes = Object.keys(REJECTIONS) as RejectionCode[];
  const responses: ZodOpenApiResponsesObject = {
    "404": problemResponse(["not_found"]),
    "405": problemResponse(["method_not_allowed"]),
  };
  for (const [status, group] of Map.groupBy(codes, (code) => REJECTIONS[code].status)) {
    const response = problemResponse(group);
    responses[`${status}` as "400"] =
      status === 429 || status === 503 ? { ...response, headers: retryHeaders } : response;
  }
  return responses;
}

/** RFC 9457, with the members of this service. */
const problemDetails = z
  .object({
    type: z.string().describe("Link to the explanation of the code."),
    title: z.string(),
    status: z.int(),
    detail: z.string().describe("The problem of this request and its solution."),
    code: z.string().describe("Stable, for programs."),
    request_id: z.string(),
    errors: z
      .array(z.object({ path: z.string(), message: z.string() }))
      .optional()
      .describe("With `validation_failed`: every field that is wrong, of very many the first hundred."),
  })
  .meta({ id: "Problem", description: "RFC 9457 problem details." });

function problemResponse(codes: string[]) {
  return {
    description: codes.map((code) => `\`${code}\``).join(", "),
    content: { "application/problem+json": { schema: problemDetails } },
  };
}

interface Ingestion extends Pick<ZodOpenApiOperationObject, "operationId" | "summary" | "description"> {
  schema: z.ZodType;
  example: unknown;
  answer: z.ZodType;
  lines?: boolean;
}

function ingestion(path: string, spec: Ingestion): ZodOpenApiPathItemObject {
  const { schema, example, answer, lines = false, ...texts } = spec;
  return {
    post: {
      tags: ["Ingestion"],
      ...texts,
      security: [],
      requestParams: { path: pathParameters(path), header: requestHeaders },
      requestBody: {
        required: true,
        content: {
          "application/json": { schema, example },
          ...(lines && {
            "application/x-ndjson": { schema: z.string().describe("One signal per line.") },
          }),
        },
      },
      responses: {
        "202": {
          description: "Stored and counted. Held signals (between the limit and twice the limit) change no scores.",
          headers: limitHeaders,
          content: { "application/json": { schema: answer } },
        },
        ...rejections(),
      },
    },
  };
}

const BODY_FORMS = 'Accepts one object, an array, or `{"batch":[…]}`, also with `Content-Encoding: gzip`.';
const SIGNAL_KINDS =
  "A universal signal, or a call of a customer data platform. `identify` links an anonymous id to an email and is not listed " +
  "in the signal queue. `track` and `page` are stored as signals.";

const INGESTION: Record<string, Ingestion> = {
  "/api/signal-staging/webhook/{apiKey}": {
    operationId: "sendSignal",
    summary: "Send a signal",
    description: `${SIGNAL_KINDS} ${BODY_FORMS} A signal has at most ${SIGNAL_MAX_BYTES} bytes.`,
    schema: signals,
    example: SIGNAL_EXAMPLE,
    answer: z.union([signalAccepted, signalsAccepted]),
  },
  "/api/signal-staging/webhook/{source}/{apiKey}": {
    operationId: "sendSignalOfSource",
    summary: "Send a signal from a named source",
    description: `The source in the path replaces all others. ${BODY_FORMS}`,
    schema: signals,
    example: SIGNAL_EXAMPLE,
    answer: z.union([signalAccepted, signalsAccepted]),
  },
  "/api/signal-staging/webhook/{apiKey}/batch": {
    operationId: "sendBatch",
    summary: "Send a batch of signals",
    description: `At most ${BODY_MAX_SIGNALS} signals and ${BODY_MAX_BYTES} bytes. Valid signals are stored even if others are invalid. ${BODY_FORMS}`,
    schema: signals,
    example: { batch: [SIGNAL_EXAMPLE] },
    answer: signalsAccepted,
  },
  "/api/signal-staging/bulk/{apiKey}": {
    operationId: "sendBulk",
    summary: "Send signals in bulk",
    description: `At most ${BODY_MAX_SIGNALS} signals and ${BODY_MAX_BYTES} bytes. ${BODY_FORMS} Also accepts newline-delimited JSON.`,
    schema: signals,
    example: [SIGNAL_EXAMPLE],
    answer: signalsAccepted,
    lines: true,
  },
  "/api/product-orgs/webhook/{apiKey}": {
    operationId: "sendAccount",
    summary: "Send account data",
    description:
      "For keys with the endpoint type Product Org Updates. An object updates one account, an array one account per element. " +
      "The key's payload template maps the fields and the external id. An account with a new external id is created.",
    schema: z.union([account, z.array(account), z.looseObject({ batch: z.array(account) })]),
    example: { company: { id: "acme-42", name: "Acme" }, plan: "growth", seats: 12 },
    answer: z.union([signalAccepted, signalsAccepted]),
  },
};

/** Adds an example to every answer without one. A problem's example shows its first code. */
function fillInExamples(document: ApiDocument): ApiDocument {
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.values(item).map((operation) => [path.startsWith("/operator/"), operation] as const),
  );
  for (const [isOfOperator, operation] of operations) {
    for (const [status, { description, content = {} }] of Object.entries(operation.responses)) {
      for (const [mediaType, media] of Object.entries(content)) {
        media.example ??=
          mediaType === "application/problem+json"
            ? problemExample(Number(status), /`(\w+)`/.exec(description)?.[1] ?? "", isOfOperator, document)
            : exampleOf(media.schema ?? {}, document);
      }
    }
  }
  return document;
}

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

function problemExample(status: number, code: string, isOfOperator: boolean, document: ApiDocument): unknown {
  const detail = document["x-error-codes"].find((described) => described.code === code)?.when ?? "";
  const requestId = "req_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d6f";
  return { type: explanationOf(code, isOfOperator), title: "…", status, detail, code, request_id: requestId };
}

const DESCRIPTION =
  "Signed as the Standard Webhooks specification says: verify the raw body with one of its libraries and the destination's " +
  "secret. Deliveries arrive at least once, in any order. `webhook-id` is the same at each attempt, so ignore known ids. Answer " +
  "with a 2xx within 10 seconds. Failed deliveries are tried again for about three days. A 410 switches the destination off.";

const webhookHeaders = z.object({
  "webhook-id": idOf("ntf", "Of the event. The same at each attempt."),
  "webhook-timestamp": z
    .string()
    .meta({ description: "Of the attempt, in seconds since 1970.", example: "1763645220" }),
  "webhook-signature": z.string().meta({
    description:
      "`v1,` and an HMAC-SHA256 in base64. Two of them, separated by a space, during the overlap of a secret rotation.",
    example: "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
  }),
});

const webhooks: Record<string, ZodOpenApiPathItemObject> = Object.fromEntries(
  [...notificationTypes, ...destinationNotificationTypes].map((type) => [type, { post: webhook(type) }]),
);

function webhook(type: AnyNotificationType): ZodOpenApiOperationObject {
  const schema = z
    .object({
      id: idOf("ntf", "Of the event."),
      type: z.literal(type),
      time: instant.describe("When the event happened."),
      workspace: idOf("ws", "Of the workspace."),
      data: NOTIFICATION_DATA[type],
    })
    .meta({ id: `Event_${type.replaceAll(/\W/g, "_")}` });
  const example = envelopeOf(exampleNotification(type), "ws_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d6f");
  return {
    tags: ["Destinations"],
    operationId: `on_${type.replaceAll(/\W/g, "_")}`,
    summary: `${NOTIFICATION_CATALOGUE[type].label}. ${NOTIFICATION_CATALOGUE[type].when}`,
    description: DESCRIPTION,
    security: [],
    requestParams: { header: webhookHeaders },
    requestBody: { required: true, content: { "application/json": { schema, example } } },
    responses: {
      "2XX": { description: "Delivered." },
      "410": { description: "The receiver wants no more deliveries: the destination is switched off." },
    },
  };
}
