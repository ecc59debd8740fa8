/**
 * One description per route: `operation({...})` stands between a path and its handler, validates the request with its
 * zod schemas, and is what openapi.ts makes the document from. So the two cannot differ.
 */
import type { Context, MiddlewareHandler } from "hono";
import type * as z from "zod";
import type { OperatorEnv } from "./environment.ts";
import { withoutCredentials } from "../domain/keys/echo.ts";
import type { ConflictCode } from "./error-codes.ts";
import { problem } from "../http/problem.ts";

/** What operations are grouped by, in the order of the documents. */
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
  query?: Query;
  /** Successful answers by status: `schema` describes a JSON answer, `content` others by media type. */
  answers: {
    [status: number]: { description: string; schema?: z.ZodType; content?: { [mediaType: string]: z.ZodType } };
  };
  /** The codes of the operation's 409 answers. */
  conflicts?: ConflictCode[];
}

const OPERATION = Symbol("operation");

export function operation<Body extends z.ZodType = z.ZodNever, Query extends z.ZodObject = z.ZodObject>(
  spec: Operation<Body, Query>,
): MiddlewareHandler<
  OperatorEnv,
  string,
  { in: { json: z.input<Body>; query: z.input<Query> }; out: { json: z.output<Body>; query: z.output<Query> } }
> {
  const validate: MiddlewareHandler<OperatorEnv> = async (c, next) => {
    if (spec.query !== undefined) {
      const query = spec.query.safeParse(c.req.query());
      if (!query.success) return validationFailed(c, fieldErrors(query.error));
      c.req.addValidatedData("query", query.data as object);
    }
    if (spec.body !== undefined) {
      // No body is read as an empty object: either that will do, or the 422 names the missing fields.
      const json = parseJson((await c.req.text()) || "{}");
      if ("error" in json) {
        return problem(c, { status: 400, code: "body_not_json", title: "The body is not JSON", detail: json.error });
      }
      const body = spec.body.safeParse(json.value);
      if (!body.success) return validationFailed(c, fieldErrors(body.error));
      c.req.addValidatedData("json", body.data as object);
    }
    return next();
  };
  return Object.assign(validate, { [OPERATION]: spec });
}

/** The description that a registered handler carries; undefined for other handlers. */
export function operationOf(handler: object): Operation | undefined {
  return OPERATION in handler ? (handler[OPERATION] as Operation) : undefined;
}

export interface FieldError {
  /** Path of the wrong field, such as `conditions.0.path`; empty for the whole. */
  path: string;
  message: string;
}

/** The 422 answer, which names every wrong field. */
export function validationFailed(c: Context<OperatorEnv>, errors: FieldError[]): Response {
  return problem(c, {
    status: 422,
    code: "validation_failed",
    title: "The request is not valid",
    detail: errors.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`)).join("; "),
    more: { errors },
  });
}

export function notFound(c: Context<OperatorEnv>, what: string): Response {
  return problem(c, { status: 404, code: "not_found", title: "Not found", detail: `There is no such ${what}.` });
}

export function conflict(c: Context<OperatorEnv>, code: ConflictCode, detail: string): Response {
  return problem(c, { status: 409, code, title: "Conflict", detail });
}

/** Wrong fields that an answer names: more are not one mistake of somebody's, and would make it larger than the body. */
const NAMED_FIELDS = 100;
/** Characters of an unknown field's name that are repeated: it may be anything, an API key too. */
const UNKNOWN_NAME_CHARACTERS = 60;

function fieldErrors(error: z.core.$ZodError): FieldError[] {
  const errors = error.issues.flatMap((issue) => {
    const path = issue.path.map(String);
    if (issue.code !== "unrecognized_keys") return [{ path: path.join("."), message: issue.message }];
    return issue.keys.map((key) => ({ path: [...path, shownName(key)].join("."), message: "unknown field" }));
  });
  return errors.slice(0, NAMED_FIELDS);
}

function shownName(name: string): string {
  const shown = withoutCredentials(name).slice(0, UNKNOWN_NAME_CHARACTERS).toWellFormed();
  return name.length > UNKNOWN_NAME_CHARACTERS ? `${shown}…` : shown;
}

function parseJson(text: string): { value: unknown } | { error: string } {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { error: error instanceof Error ? error.message : "The body could not be parsed." };
  }
}
