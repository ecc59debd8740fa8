/** The ingestion endpoints as the OpenAPI document describes them. They are validated by domain/, not by these schemas. */
import * as z from "zod";
import type { ZodOpenApiOperationObject, ZodOpenApiPathsObject, ZodOpenApiResponsesObject } from "zod-openapi";
import type { RefusalCode } from "../../domain/keys/refusal.ts";
import { CDP_CALL_TYPES, VERDICTS } from "../../domain/signal/signal.ts";
import {
  BATCH_MAX_BYTES,
  BATCH_MAX_SIGNALS,
  BULK_MAX_BYTES,
  BULK_MAX_SIGNALS,
  IDEMPOTENCY_KEY_MAX_LENGTH,
  NAME_MAX_CODE_POINTS,
  SIGNAL_MAX_BYTES,
} from "../../limits.ts";
import { REFUSALS } from "../../http/refusal-table.ts";
import { idOf, problemDetails } from "../schema-parts.ts";

const SIGNAL_EXAMPLE = {
  email: "jane@example.com",
  event: "Filled Out Form",
  source: "marketing-automation",
  properties: { form_name: "Request a demo", page_url: "https://example.com/demo" },
};

const universalSignal = z
  .looseObject({
    email: z.string().nullish().meta({ format: "email" }),
    event: z.string().meta({ description: "What mapping rules match on.", maxLength: NAME_MAX_CODE_POINTS }),
    source: z.string().nullish().meta({ description: "Where the signal comes from.", maxLength: NAME_MAX_CODE_POINTS }),
    properties: z.record(z.string(), z.unknown()).nullish().meta({ description: "Free-form, nested." }),
  })
  .meta({ id: "SignalPayload", description: "A universal signal (spec §2.2).", example: SIGNAL_EXAMPLE });

const cdpCall = z
  .looseObject({
    type: z.enum(CDP_CALL_TYPES),
    messageId: z.string().optional(),
    anonymousId: z.string().nullish(),
    userId: z.string().nullish(),
    event: z.string().optional().meta({ description: "Of a `track` call." }),
    name: z.string().optional().meta({ description: "Of a `page` call." }),
    properties: z.record(z.string(), z.unknown()).optional(),
    traits: z
      .looseObject({ email: z.string(), name: z.string(), company: z.unknown(), title: z.string() })
      .partial()
      .optional()
      .meta({ description: "Of an `identify` call; `context.traits` serves as well." }),
    context: z.record(z.string(), z.unknown()).optional(),
  })
  .meta({ id: "CdpCall", description: "A call of a customer data platform, as it delivers it (spec §6)." });

const signal = z.union([universalSignal, cdpCall]);
const signals = z.union([signal, z.array(signal), z.looseObject({ batch: z.array(signal) })]);
const account = z
  .looseObject({})
  .meta({ id: "AccountPayload", description: "Any object; the key's payload template says what its paths mean." });

const oneAnswer = z
  .object({ status: z.enum(VERDICTS), id: idOf("sig", "Identifies the signal everywhere.") })
  .meta({ id: "SignalAccepted", description: "Answer to one signal." });
const severalAnswer = z
  .object({
    status: z.enum(["accepted", "partial"]),
    accepted: z.int(),
    held: z.int(),
    rejected: z.int(),
    results: z.array(
      z.object({
        index: z.int(),
        status: z.enum([...VERDICTS, "rejected"]),
        id: z.string().optional(),
        code: z.string().optional(),
        detail: z.string().optional(),
      }),
    ),
  })
  .meta({ id: "SignalsAccepted", description: "Answer to an array or a batch: one result per signal, in order." });

const headers = z.object({
  "X-Api-Secret": z.string().optional().meta({ description: "The shared secret, when the key has one." }),
  "Idempotency-Key": z.string().max(IDEMPOTENCY_KEY_MAX_LENGTH).optional().meta({
    description:
      "A call that is repeated with the same value and API key, within seven days, scores nothing a second time.",
  }),
});

const apiKey = z.string().meta({ description: "The full key.", example: "sk_…" });
const source = z
  .string()
  .meta({ description: "Names the origin, in place of the body's `source`.", example: "website" });

const limits = z.object({
  RateLimit: z
    .string()
    .optional()
    .meta({ header: { description: "What is left of request rate and billing period." } }),
  "RateLimit-Policy": z
    .string()
    .optional()
    .meta({ header: { description: "The limits themselves." } }),
});
const retry = limits.extend({ "Retry-After": z.string().meta({ header: { description: "Seconds." } }) });

/** The error answers of ingestion by status: which codes there are, and what they mean. */
function refusals(): ZodOpenApiResponsesObject {
  const codes = Object.keys(REFUSALS) as RefusalCode[];
  const responses: ZodOpenApiResponsesObject = {
    "404": problemResponse(["not_found"]),
    "405": problemResponse(["method_not_allowed"]),
  };
  for (const [status, group] of Map.groupBy(codes, (code) => REFUSALS[code].status)) {
    const response = problemResponse(group);
    responses[`${status}` as "400"] = status === 429 || status === 503 ? { ...response, headers: retry } : response;
  }
  return responses;
}

export function problemResponse(codes: string[]) {
  return {
    description: codes.map((code) => `\`${code}\``).join(", "),
    content: { "application/problem+json": { schema: problemDetails } },
  };
}

interface Ingestion {
  operationId: string;
  summary: string;
  description: string;
  path: z.ZodObject;
  schema: z.ZodType;
  example: unknown;
  answer: z.ZodType;
  lines?: boolean;
}

function ingestion(spec: Ingestion): { post: ZodOpenApiOperationObject } {
  const { operationId, summary, description, path, schema, example, answer, lines = false } = spec;
  return {
    post: {
      tags: ["Ingestion"],
      operationId,
      summary,
      description,
      security: [],
      requestParams: { path, header: headers },
      requestBody: {
        required: true,
        content: {
          "application/json": { schema, example },
          ...(lines && {
            "application/x-ndjson": { schema: z.string().meta({ description: "One signal per line." }) },
          }),
        },
      },
      responses: {
        "202": {
          description: "Stored and counted. Held signals (between the limit and twice the limit) do not change scores.",
          headers: limits,
          content: { "application/json": { schema: answer } },
        },
        ...refusals(),
      },
    },
  };
}

const FORMS = 'Takes one object, a bare array, or `{"batch":[…]}`; `Content-Encoding: gzip` is accepted.';
const KINDS =
  "A universal signal, or a call of a customer data platform: `identify` links an anonymous id to an email and makes no " +
  "entry in the signal queue, `track` and `page` are stored as signals.";

export const ingestPaths: ZodOpenApiPathsObject = {
  "/api/signal-staging/webhook/{apiKey}": ingestion({
    operationId: "sendSignal",
    summary: "Send a signal",
    description: `${KINDS} ${FORMS} A signal has at most ${SIGNAL_MAX_BYTES} bytes.`,
    path: z.object({ apiKey }),
    schema: signals,
    example: SIGNAL_EXAMPLE,
    answer: z.union([oneAnswer, severalAnswer]),
  }),
  "/api/signal-staging/webhook/{source}/{apiKey}": ingestion({
    operationId: "sendSignalOfSource",
    summary: "Send a signal of a named source",
    description: `The source of the path goes before any other. ${FORMS}`,
    path: z.object({ source, apiKey }),
    schema: signals,
    example: SIGNAL_EXAMPLE,
    answer: z.union([oneAnswer, severalAnswer]),
  }),
  "/api/signal-staging/webhook/{apiKey}/batch": ingestion({
    operationId: "sendBatch",
    summary: "Send a batch of signals",
    description: `At most ${BATCH_MAX_SIGNALS} signals and ${BATCH_MAX_BYTES} bytes. Good signals are kept when others are bad. ${FORMS}`,
    path: z.object({ apiKey }),
    schema: signals,
    example: { batch: [SIGNAL_EXAMPLE] },
    answer: severalAnswer,
  }),
  "/api/signal-staging/bulk/{apiKey}": ingestion({
    operationId: "sendBulk",
    summary: "Send signals in bulk",
    description: `At most ${BULK_MAX_SIGNALS} signals and ${BULK_MAX_BYTES} bytes; also newline-delimited JSON. ${FORMS}`,
    path: z.object({ apiKey }),
    schema: signals,
    example: [SIGNAL_EXAMPLE],
    answer: severalAnswer,
    lines: true,
  }),
  "/api/product-orgs/webhook/{apiKey}": ingestion({
    operationId: "sendAccount",
    summary: "Send account data",
    description:
      "For Product Org Updates keys. One object is one account; an array is one update per element. The key's payload " +
      "template maps it, and the account with its external id is created or updated, field by field.",
    path: z.object({ apiKey }),
    schema: z.union([account, z.array(account), z.looseObject({ batch: z.array(account) })]),
    example: { company: { id: "acme-42", name: "Acme" }, plan: "growth", seats: 12 },
    answer: z.union([oneAnswer, severalAnswer]),
  }),
};
