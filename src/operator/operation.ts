/**
 * One description per route: `operation({...})` stands between path and handler, validates the request with its zod
 * schemas, and produces the OpenAPI document. So implementation and document cannot differ. Also defines all error
 * codes of the API.
 */
import type { Context, MiddlewareHandler } from "hono";
import type * as z from "zod";
import { cut, grouped } from "../domain/text.ts";
import { jsonShape } from "../domain/json/json-scan.ts";
import { withoutCredentials } from "../domain/keys/echo.ts";
import { readBody } from "../http/body.ts";
import { problem, refusalProblem } from "../http/problem.ts";
import { REFUSALS } from "../http/refusal-table.ts";
import { DESTINATIONS_MAX, JSON_MAX_DEPTH, JSON_MAX_VALUES } from "../limits.ts";
import { LIMIT_COPY } from "../workspace/refusal-copy.ts";
import type { OperatorEnv } from "./environment.ts";

/** Maximum size of a request body, unless its operation allows more. */
export const OPERATOR_BODY_MAX_BYTES = 1024 * 1024;

/** Groups of operations, in the order of the documents. */
export const TAGS = [
  "Ingestion",
  "Workspaces",
  "Health",
  "Members",
  "API keys",
  "Mapping rules",
  "Signals",
  "Accounts",
  "Data care",
  "Destinations",
  "Quota",
  "Plans",
  "Service",
] as const;

export interface Operation<Body extends z.ZodType = z.ZodType, Query extends z.ZodObject = z.ZodObject> {
  tag: (typeof TAGS)[number];
  summary: string;
  description?: string;
  /** Schema of the JSON body; a strict one, so that an unknown field is an error. */
  body?: Body;
  bodyExample?: unknown;
  /** Without it OPERATOR_BODY_MAX_BYTES. */
  bodyMaxBytes?: number;
  query?: Query;
  /** Successful answers by status: `schema` describes a JSON answer, `content` others by media type. */
  answers: {
    [status: number]: { description: string; schema?: z.ZodType; content?: { [mediaType: string]: z.ZodType } };
  };
  /** The codes of the operation's 409 answers. */
  conflicts?: ConflictCode[];
}

const OPERATION = Symbol("operation");

type Validation<Body extends z.ZodType, Query extends z.ZodObject> = MiddlewareHandler<
  OperatorEnv,
  string,
  { in: { json: z.input<Body>; query: z.input<Query> }; out: { json: z.output<Body>; query: z.output<Query> } }
>;

/** Returns the `operation` function of a tag. */
export function operationsOf(tag: Operation["tag"]) {
  return <Body extends z.ZodType = z.ZodNever, Query extends z.ZodObject = z.ZodObject>(
    spec: Omit<Operation<Body, Query>, "tag">,
  ): Validation<Body, Query> => operation({ tag, ...spec });
}

function operation<Body extends z.ZodType, Query extends z.ZodObject>(
  spec: Operation<Body, Query>,
): Validation<Body, Query> {
  const validate: MiddlewareHandler<OperatorEnv> = async (c, next) => {
    if (spec.query !== undefined) {
      const query = spec.query.safeParse(c.req.query());
      if (!query.success) return validationFailed(c, fieldErrors(query.error));
      c.req.addValidatedData("query", query.data as object);
    }
    if (spec.body !== undefined) {
      const json = await readJson(c, spec.bodyMaxBytes ?? OPERATOR_BODY_MAX_BYTES);
      if (json instanceof Response) return json;
      const body = spec.body.safeParse(json.value);
      if (!body.success) return validationFailed(c, fieldErrors(body.error));
      c.req.addValidatedData("json", body.data as object);
    }
    return next();
  };
  return Object.assign(validate, { [OPERATION]: spec });
}

/** The JSON value of the body, or the answer that refuses the body. The token has been checked before. */
async function readJson(c: Context<OperatorEnv>, maxBytes: number): Promise<{ value: unknown } | Response> {
  const body = await readBody(c.req.raw, { maxBytes, holder: "operator" });
  if (!body.ok) return problem(c, refusalProblem(body.refusal));
  try {
    const tooMuch = problemOfShape(body.bytes);
    if (tooMuch !== null) {
      return problem(c, { status: 413, code: "body_too_large", title: "Too large", detail: tooMuch });
    }
    // No body is read as an empty object: either that will do, or the 422 names the missing fields.
    return { value: JSON.parse(new TextDecoder().decode(body.bytes) || "{}") };
  } catch (error) {
    const detail = error instanceof Error ? error.message : "The body could not be parsed.";
    return problem(c, { status: 400, code: "body_not_json", title: "The body is not JSON", detail });
  } finally {
    body.place.letGo();
  }
}

function problemOfShape(bytes: Uint8Array): string | null {
  const [maxDepth, maxValues] = [JSON_MAX_DEPTH, JSON_MAX_VALUES];
  const { depth, values } = jsonShape(bytes, { maxDepth, maxValues });
  if (depth > maxDepth)
    return `A body is nested at most ${maxDepth} levels deep. Send the fields that /docs describes.`;
  return values > maxValues
    ? `A body has at most ${grouped(maxValues)} values. Send the fields that /docs describes, in several requests.`
    : null;
}

/** The description that a registered handler carries; undefined for other handlers. */
export function describedOperation(handler: object): Operation | undefined {
  return OPERATION in handler ? (handler[OPERATION] as Operation) : undefined;
}

interface FieldError {
  /** Path of the wrong field, such as `conditions.0.path`; empty for the whole. */
  path: string;
  message: string;
}

/** The 422 answer, which names every wrong field, as far as an answer of less than 100 KB can. */
export function validationFailed(c: Context<OperatorEnv>, all: Iterable<FieldError>): Response {
  const errors = firstErrors(all);
  return problem(c, {
    status: 422,
    code: "validation_failed",
    title: "The request is not valid",
    detail: errors.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`)).join("; "),
    more: { errors },
  });
}

export function notFound(c: Context<OperatorEnv>, noun: string): Response {
  return problem(c, { status: 404, code: "not_found", title: "Not found", detail: `There is no such ${noun}.` });
}

export function conflict(
  c: Context<OperatorEnv>,
  code: ConflictCode,
  detail: string = { ...CONFLICTS, ...LIMIT_COPY }[code],
): Response {
  return problem(c, { status: 409, code, title: "Conflict", detail });
}

/** Answers a refused change: 404 for `not_found`, 409 for a code. */
export function refused(c: Context<OperatorEnv>, noun: string, refusal: "not_found" | ConflictCode): Response {
  return refusal === "not_found" ? notFound(c, noun) : conflict(c, refusal);
}

/**
 * Maximum number of invalid fields in an answer. More are rarely one person's mistake, and the answer could exceed
 * the body.
 */
const NAMED_FIELDS = 100;
/** Characters of all that an answer says of wrong fields: of at most six bytes each, and said twice, they are less than 100 KB. */
const NAMED_CHARACTERS = 8_000;
/** Characters of a field's path that are repeated, and of each name in it: a name may be anything, an API key too. */
const PATH_CHARACTERS = 200;
const MESSAGE_CHARACTERS = 400;
const NAME_CHARACTERS = 60;

function firstErrors(all: Iterable<FieldError>): FieldError[] {
  const errors: FieldError[] = [];
  let characters = 0;
  for (const error of all) {
    const shown = { path: cut(error.path, PATH_CHARACTERS), message: cut(error.message, MESSAGE_CHARACTERS) };
    characters += shown.path.length + shown.message.length;
    if (errors.length === NAMED_FIELDS || characters > NAMED_CHARACTERS) break;
    errors.push(shown);
  }
  return errors;
}

/** Describes errors field by field, lazily: one issue may name tens of thousands of unknown fields. */
function* fieldErrors(error: z.core.$ZodError): Generator<FieldError> {
  for (const issue of error.issues) {
    const path = issue.path.map((name) => shownName(String(name)));
    if (issue.code !== "unrecognized_keys") yield { path: path.join("."), message: issue.message };
    else for (const key of issue.keys) yield { path: [...path, shownName(key)].join("."), message: "unknown field" };
  }
}

function shownName(name: string): string {
  // A key or secret at the end of the shown text is only recognised with the text that follows.
  const shown = withoutCredentials(name.slice(0, 4 * NAME_CHARACTERS))
    .slice(0, NAME_CHARACTERS)
    .toWellFormed();
  return name.length > NAME_CHARACTERS ? `${shown}…` : shown;
}

/** Codes beside those of ingestion: all addresses or the operator API answer with them. */
const OTHER_CODES = {
  not_found: { status: 404, when: "There is nothing at this address, or no record with this id in this workspace." },
  method_not_allowed: { status: 405, when: "The address is known, the method is not; see `Allow`." },
  operator_unauthorized: { status: 401, when: "The operator token is missing or wrong." },
  validation_failed: { status: 422, when: "Fields are missing, unknown or wrong; `errors` names each." },
};

/** Codes of the operator API's 409 answers, with their details. LIMIT_COPY has the details of limits. */
const CONFLICTS = {
  slug_taken: "Another workspace has this slug.",
  email_taken: "The address is a member already. Change its role with PATCH.",
  key_inactive: "The key is deactivated or expired, so it cannot be rotated. Create a new key instead.",
  too_many_keys: "The workspace has as many active API keys as it may have.",
  too_many_keys_a_day: "The workspace has created as many API keys in 24 hours as it may create.",
  templates_too_large: "All payload templates of the workspace together would have too many bytes.",
  last_owner: "A workspace keeps at least one owner. Make another member an owner first.",
  too_many_members: "The workspace has as many members as it may have.",
  too_many_rules: "The workspace has as many mapping rules as it may have.",
  rules_too_large: "All mapping rules of the workspace together would have too many values.",
  too_many_destinations: `The workspace has ${DESTINATIONS_MAX} destinations, the most it may have.`,
  destination_not_active: "The destination is paused or switched off. Resume it first.",
  destination_without_secret: "Only deliveries to a webhook are signed.",
  rules_changed: "Mapping rules of the workspace are being changed at the same time. Send the import again.",
  not_restorable: "The platform has no backup of that moment. The detail says why.",
  signals_wait: "Accepted signals wait to be recorded, and the restore would lose them.",
  restore_unfinished: "Another restore of the workspace has begun and not finished.",
  rule_changed: "The mapping rule is being changed at the same time. Send the change again.",
};
type ConflictCode = keyof typeof CONFLICTS;

interface DescribedCode {
  code: string;
  status: number;
  when: string;
}

export function allCodes(): DescribedCode[] {
  const refusals = Object.entries(REFUSALS).map(([code, { status, when }]) => ({ code, status, when }));
  const otherCodes = Object.entries(OTHER_CODES).map(([code, { status, when }]) => ({ code, status, when }));
  const conflicts = Object.entries(CONFLICTS).map(([code, when]) => ({ code, status: 409, when }));
  return [...refusals, ...otherCodes, ...conflicts].sort((a, b) => a.status - b.status);
}
