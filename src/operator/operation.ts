/**
 * An operation of the operator API: route, schemas, documentation and handler. The schemas validate requests, and make the
 * JSON of the answers and the OpenAPI document. So code and document cannot differ. Also all error codes of the API.
 */
import { asSent } from "../domain/json/json-value.ts";
import * as z from "zod";
import type { Context, Handler } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { Change, ControlDatabase } from "../d1/database.ts";
import type { Workspace } from "../d1/workspaces.ts";
import type { ApiToken } from "../d1/api-tokens.ts";
import { cut, grouped } from "../domain/text.ts";
import { describePlace } from "../domain/json/json-error.ts";
import { findJsonError, jsonShape } from "../domain/json/json-scan.ts";
import type { TokenScope } from "../domain/keys/api-token.ts";
import { withoutCredentials } from "../domain/keys/api-key.ts";
import type { Result } from "../domain/result.ts";
import { type AppEnv, configuredRate } from "../env.ts";
import { readBody } from "../http/body.ts";
import { problem, rejectionProblem, retryAfter } from "../http/problem.ts";
import { boundedText } from "../http/fields.ts";
import { REJECTIONS } from "../http/rejection-table.ts";
import { OPERATOR_HOLDER } from "../http/workspace-share.ts";
import { DESTINATIONS_MAX, JSON_MAX_DEPTH, JSON_MAX_VALUES, PAGE_DEFAULT_ITEMS, PAGE_MAX_ITEMS } from "../limits.ts";
import { signalStore, type WorkspaceContext } from "../use-cases/objects.ts";
import { LIMIT_COPY } from "../use-cases/rejection-copy.ts";
import type { ListQuery } from "../platform/list-page.ts";

export interface OperatorEnv extends AppEnv {
  Variables: AppEnv["Variables"] & {
    db: ControlDatabase;
    /** The API token of this call; null: the operator token. */
    token: ApiToken | null;
    by: Change;
    /** Set on every path below /workspaces/{workspace_id}. */
    workspace: Workspace;
  };
}

export function contextOf(c: Context<OperatorEnv>): WorkspaceContext {
  const { db, workspace, by } = c.var;
  return { env: c.env, db, workspaceId: workspace.id, by };
}

export function storeOf(c: Context<OperatorEnv>) {
  return signalStore(c.env, c.var.workspace.id);
}

export const OPERATOR_BODY_MAX_BYTES = 1024 * 1024;

export const TAGS = [
  "Ingestion",
  "Workspaces",
  "Health",
  "Members",
  "API keys",
  "API tokens",
  "Mapping rules",
  "Exclusions",
  "Signals",
  "Accounts",
  "Data care",
  "Destinations",
  "Quota",
  "Plans",
  "Service",
] as const;
type Tag = (typeof TAGS)[number];

type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

interface Description<Body extends z.ZodType, Query extends z.ZodObject, Json extends z.ZodType, Conflict> {
  summary: string;
  description?: string;
  /** The scope with which an API token of the workspace may call the operation. Without it only the operator token may. */
  scope?: TokenScope;
  /** Strict, so that an unknown field is an error. */
  body?: Body;
  bodyExample?: unknown;
  bodyMaxBytes?: number;
  query?: Query;
  /** Describes the effect of an `Idempotency-Key`; undefined: it is ignored. */
  idempotencyKey?: string;
  /** Successful answers by status. The handler's values are sent with the lowest. */
  answers: { [status: number]: string };
  /** Schema of the JSON answer. A 204 has none. */
  schema?: Json;
  /** Schemas of other answers than JSON, by media type. */
  content?: { [mediaType: string]: z.ZodType };
  conflicts?: readonly Conflict[];
}

/** The validated input of a handler, with names in camelCase. Nested objects are as they were sent. */
interface Input<Body extends z.ZodType, Query extends z.ZodType> {
  body: CamelKeys<z.output<Body>>;
  query: CamelKeys<z.output<Query>>;
}

/** Null and `not_found` become a 404, a conflict code a 409, invalid fields a 422. */
type Outcome<Value, Conflict> = Value | null | Result<Value, "not_found" | Conflict | readonly FieldError[]> | Response;

interface Implementation<
  Path extends string,
  Body extends z.ZodType,
  Query extends z.ZodObject,
  Json extends z.ZodType,
  Conflict,
> {
  /** Noun in the text of a 404. Default: the noun of the tag. */
  noun?: string;
  handle: (
    c: Context<OperatorEnv, Path>,
    input: Input<Body, Query>,
  ) => Promise<Outcome<DomainValue<z.output<Json>>, Conflict>> | Outcome<DomainValue<z.output<Json>>, Conflict>;
}

export interface Operation extends Description<z.ZodType, z.ZodObject, z.ZodType, ConflictCode> {
  tag: Tag;
  method: Method;
  path: string;
  handler: Handler<OperatorEnv>;
}

export function operationsOf(tag: Tag, tagNoun: string) {
  return <
    Path extends string,
    Body extends z.ZodType = z.ZodNever,
    Query extends z.ZodObject = z.ZodObject,
    Json extends z.ZodType = z.ZodUnknown,
    Conflict extends ConflictCode = never,
  >(
    method: Method,
    path: Path,
    operation: Description<Body, Query, Json, Conflict> & Implementation<Path, Body, Query, Json, Conflict>,
  ): Operation => {
    const { noun = tagNoun, handle, ...described } = operation;
    const handler: Handler<OperatorEnv, Path> = async (c) => {
      const input = await readInput(c, operation);
      if (input instanceof Response) return input;
      const outcome: unknown = await handle(c, input as Input<Body, Query>);
      if (outcome instanceof Response) return outcome;
      if (outcome === null) return notFound(c, noun);
      if (!isResult(outcome)) return answer(c, operation, outcome);
      return outcome.ok ? answer(c, operation, outcome.value) : rejected(c, outcome.rejection, noun);
    };
    return { tag, method, path, ...described, handler };
  };
}

type AnyDescription = Description<z.ZodType, z.ZodObject, z.ZodType, unknown>;

function isResult(outcome: unknown): outcome is Result<unknown, "not_found" | ConflictCode | readonly FieldError[]> {
  return typeof outcome === "object" && outcome !== null && "ok" in outcome;
}

function answer(c: Context<OperatorEnv>, { answers, schema }: AnyDescription, value: unknown): Response {
  if (schema === undefined) return c.body(null, 204);
  const status = Number(Object.keys(answers)[0]) as ContentfulStatusCode;
  return c.json(toJson(schema, value) as object, status);
}

async function readInput(
  c: Context<OperatorEnv>,
  { body, query, bodyMaxBytes = OPERATOR_BODY_MAX_BYTES }: AnyDescription,
): Promise<Response | { body: unknown; query: unknown }> {
  const input = { body: {}, query: {} };
  if (query !== undefined) {
    const parsed = query.safeParse(c.req.query());
    if (!parsed.success) return validationFailed(c, fieldErrors(parsed.error));
    input.query = camelKeys(parsed.data);
  }
  if (body !== undefined) {
    const json = await readJson(c, bodyMaxBytes);
    if (json instanceof Response) return json;
    const parsed = body.safeParse(json.value);
    if (!parsed.success) return validationFailed(c, fieldErrors(parsed.error));
    input.body = camelKeys(parsed.data as object);
  }
  return input;
}

async function readJson(c: Context<OperatorEnv>, maxBytes: number): Promise<{ value: unknown } | Response> {
  const body = await readBody(c.req.raw, {
    maxBytes,
    holder: c.var.token?.workspaceId ?? OPERATOR_HOLDER,
    rate: configuredRate(c.env),
  });
  if (!body.ok) return problem(c, rejectionProblem(body.rejection));
  try {
    const tooMuch = problemOfShape(body.bytes);
    if (tooMuch !== null) {
      return problem(c, { status: 413, code: "body_too_large", title: "Too large", detail: tooMuch });
    }
    // A missing body becomes an empty object, which may suffice; otherwise the 422 names the missing fields.
    return { value: JSON.parse(new TextDecoder().decode(body.bytes) || "{}") };
  } catch {
    // The runtime's own message quotes the body, which may have a key there.
    const error = findJsonError(body.bytes, 0, body.bytes.length);
    const where = error === null ? "" : `: it goes wrong at ${describePlace(body.bytes, 0, error.position)}`;
    const detail = `The body is not valid JSON${where}. Send a JSON object.`;
    return problem(c, { status: 400, code: "body_not_json", title: "The body is not JSON", detail });
  } finally {
    body.release();
  }
}

function problemOfShape(bytes: Uint8Array): string | null {
  const [maxDepth, maxValues] = [JSON_MAX_DEPTH, JSON_MAX_VALUES];
  const { depth, values } = jsonShape(bytes, { maxDepth, maxValues });
  if (depth > maxDepth)
    return `A body is nested at most ${maxDepth} levels deep. Send the fields that /docs/api describes.`;
  return values > maxValues
    ? `A body has at most ${grouped(maxValues)} values. Send the fields that /docs/api describes, in several requests.`
    : null;
}

export interface FieldError {
  /** Path of the wrong field, such as `conditions.0.path`; empty for the whole. */
  path: string;
  message: string;
}

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

export function workspaceEnded(c: Context<OperatorEnv>): Response {
  const detail = "The workspace has ended. GET …/end shows the receipt.";
  return problem(c, { status: 410, code: "workspace_ended", title: "The workspace has ended", detail });
}

export function workspaceImporting(c: Context<OperatorEnv>): Response {
  const detail = "The workspace is being imported. Finish the import, or end the workspace.";
  return problem(c, { status: 409, code: "workspace_importing", title: "Conflict", detail });
}

export function conflict(c: Context<OperatorEnv>, code: ConflictCode, detail: string = CONFLICTS[code]): Response {
  return problem(c, { status: 409, code, title: "Conflict", detail });
}

export function tooMany(c: Context<OperatorEnv>, waitMs: number, detail: string): Response {
  const headers = retryAfter(waitMs);
  return problem(c, { status: 429, code: "rate_limited", title: "Too many requests", detail, headers });
}

function rejected(
  c: Context<OperatorEnv>,
  rejection: "not_found" | ConflictCode | readonly FieldError[],
  noun: string,
): Response {
  if (rejection === "not_found") return notFound(c, noun);
  return typeof rejection === "string" ? conflict(c, rejection) : validationFailed(c, rejection);
}

/** Maximum number of invalid fields in a 422. */
const NAMED_FIELDS = 100;
/** Maximum characters of all paths and messages. Each takes up to six bytes and is sent twice: less than 100 KB. */
const NAMED_CHARACTERS = 8_000;
const TEXT_CHARACTERS = 400;
/** Maximum characters of a sent name in a path: a name may be anything, even an API key. */
const NAME_CHARACTERS = 60;

function firstErrors(all: Iterable<FieldError>): FieldError[] {
  const errors: FieldError[] = [];
  let characters = 0;
  for (const error of all) {
    const shown = { path: cut(error.path, TEXT_CHARACTERS), message: cut(error.message, TEXT_CHARACTERS) };
    characters += shown.path.length + shown.message.length;
    if (errors.length === NAMED_FIELDS || characters > NAMED_CHARACTERS) break;
    errors.push(shown);
  }
  return errors;
}

/** Lazy, because one issue may name tens of thousands of unknown fields. */
export function* fieldErrors(error: z.core.$ZodError): Generator<FieldError> {
  for (const issue of error.issues) {
    const path = issue.path.map((name) => shownName(String(name)));
    if (issue.code !== "unrecognized_keys") yield { path: path.join("."), message: issue.message };
    else for (const key of issue.keys) yield { path: [...path, shownName(key)].join("."), message: "unknown field" };
  }
}

function shownName(name: string): string {
  // A key or secret that begins in the shown text is only recognised with the text that follows.
  const shown = withoutCredentials(name.slice(0, 4 * NAME_CHARACTERS))
    .slice(0, NAME_CHARACTERS)
    .toWellFormed();
  return name.length > NAME_CHARACTERS ? `${shown}…` : shown;
}

/** Codes of all addresses or of the operator API only. REJECTIONS has the codes of ingestion. */
const OTHER_CODES = {
  not_found: { status: 404, when: "There is nothing at this address, or no record with this id in this workspace." },
  method_not_allowed: { status: 405, when: "The address is known, the method is not; see `Allow`." },
  operator_unauthorized: { status: 401, when: "The token is missing, wrong, expired or revoked." },
  insufficient_scope: { status: 403, when: "The API token lacks the scope of the operation; see `scope`." },
  operator_only: { status: 403, when: "Only the operator token may call the operation, no API token of a workspace." },
  workspace_importing: { status: 409, when: "The workspace is being imported, and not complete yet." },
  workspace_ended: { status: 410, when: "The workspace has ended; `GET …/end` shows the receipt for 31 days." },
  loopback_only: {
    status: 403,
    when: "Local sign-in is on, so the service answers only to its own machine; see `detail`.",
  },
  not_ok: {
    status: 503,
    when: "A workspace is not `ok`, and the call had `expect=ok`; `detail` is its alarm's sentence.",
  },
  validation_failed: { status: 422, when: "Fields are missing, unknown or wrong; `errors` names each." },
};

/** Codes of 409 answers. */
const CONFLICTS = {
  plan_differs: "The deployment has no plan with the terms of the file.",
  file_version: "The file has another version than this release reads.",
  part_unknown: "The manifest has no such part.",
  part_differs: "The part is not the one of the manifest.",
  import_incomplete: "Parts of the file are missing.",
  source_active: "The exported workspace is in this deployment, and takes signals.",
  key_in_use: "Keys of the file belong to a workspace that takes signals.",
  already_imported: "Another workspace has the rules of the file.",
  deletions_unknown: "It is not known who was deleted after the export.",
  slug_differs: "The body must repeat the slug of the workspace that is to end.",
  slug_taken: "Another workspace has this slug.",
  email_taken: "The address is a member already. Change its role with PATCH.",
  key_inactive: "The key is deactivated or expired, so it cannot be rotated. Create a new key instead.",
  template_required: "A key for account updates needs a payload template. Change it, or deactivate the key.",
  idempotency_key_used:
    "A call with this Idempotency-Key made a key more than ten minutes ago. Send a new value to make another key.",
  last_owner: "A workspace keeps at least one owner. Make another member an owner first.",
  ...LIMIT_COPY,
  too_many_destinations: `The workspace has ${DESTINATIONS_MAX} destinations, the most it may have.`,
  destination_not_active: "The destination is paused or switched off. Resume it first.",
  code_wrong: "The code is wrong or expired, or was wrong five times. Send a test to get a new one.",
  too_many_codes:
    "The workspace has sent ten codes to email addresses in 24 hours, the most it may send. Try again later.",
  destination_without_secret: "Only deliveries to a webhook are signed.",
  rules_changed: "Mapping rules of the workspace are being changed at the same time. Send the import again.",
  exclusions_changed: "The exclusions have another version by now. Read them, and send the change again.",
  rule_changed: "The mapping rule is being changed at the same time. Send the change again.",
};
type ConflictCode = keyof typeof CONFLICTS;

interface DescribedCode {
  code: string;
  status: number;
  when: string;
}

export function allCodes(): DescribedCode[] {
  const described = Object.entries({ ...REJECTIONS, ...OTHER_CODES });
  const codes = described.map(([code, { status, when }]) => ({ code, status, when }));
  const conflicts = Object.entries(CONFLICTS).map(([code, when]) => ({ code, status: 409, when }));
  return [...codes, ...conflicts].sort((a, b) => a.status - b.status);
}

// Schema parts that resources share, and the conversion of domain values to JSON.

const dateTime = z.string().meta({ format: "date-time", example: "2026-11-01T00:00:00.000Z" });

/** A time that the domain has in milliseconds since 1970, in a field whose name ends with `Ms`. */
export const instant = dateTime.brand<"instant">();

/** A time that the domain has as ISO 8601 text too. */
export const isoInstant = dateTime;

export const count = z.int().min(0);

export function idOf(prefix: string, description: string) {
  return z.string().meta({ description, example: `${prefix}_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d6f` });
}

const PAGE = {
  cursor: boundedText(8_192).optional().describe("`next` of the previous page."),
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(PAGE_MAX_ITEMS)
    .default(PAGE_DEFAULT_ITEMS)
    .describe("Maximum number of items."),
};

export const listQuery = z.strictObject(PAGE);

export function filteredPageQuery<Filter extends z.ZodRawShape>(filter: Filter) {
  return z.strictObject({ ...filter, ...PAGE });
}

export function listQueryOf(query: z.output<typeof listQuery>): ListQuery {
  return { cursor: query.cursor ?? null, limit: query.limit };
}

export function listOf<Item extends z.ZodType>(item: Item) {
  return z.object({
    items: z.array(item),
    next: z.string().nullable().meta({ description: "Cursor of the next page; null on the last page.", example: null }),
  });
}

/** The text of a payload in the domain, and the JSON that it is in an answer. */
export const sentPayload = z.unknown().describe("The JSON as the sender sent it, each number with all its digits.");

/** Whether an answer may show what the scope shows. The operator token may see everything. */
export function mayRead({ var: { token } }: Context<OperatorEnv>, scope: TokenScope): boolean {
  return token === null || token.scopes.includes(scope);
}

export const KEY_NAME = "Null: the API token lacks the scope `keys`, or there is no such key.";

/** The domain value of an answer: names in camelCase, and times as `instant` and `isoInstant` say. */
export type DomainValue<Json> =
  Json extends z.output<typeof instant>
    ? number
    : Json extends readonly (infer Item)[]
      ? readonly DomainValue<Item>[]
      : Json extends object
        ? { [Name in keyof Json as DomainName<Name & string, Json[Name]>]: DomainValue<Json[Name]> }
        : Json;
type DomainName<Name extends string, Json> =
  NonNullable<Json> extends z.output<typeof instant> ? `${Camel<Name>}Ms` : Camel<Name>;
type Camel<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Name;

/** The JSON of a domain value. Only fields of the schema are in it, so a new domain field stays private. */
export function toJson(schema: z.core.$ZodType, value: unknown): unknown {
  if (value === null || value === undefined) return value;
  if (schema === sentPayload) return asSent(value as string);
  if (schema instanceof z.ZodNullable || schema instanceof z.ZodOptional) return toJson(schema.unwrap(), value);
  if (schema instanceof z.ZodArray) return (value as unknown[]).map((item) => toJson(schema.element, item));
  if (!(schema instanceof z.ZodObject)) return value;
  const fields = value as Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(schema.shape).map(([name, field]) => {
      // What is stored as JSON, such as a condition, has its names already.
      const domainName = name in fields ? name : camelCase(name);
      if (domainName in fields) return [name, toJson(field, fields[domainName])];
      const ms = fields[`${domainName}Ms`];
      return [name, typeof ms === "number" ? new Date(ms).toISOString() : ms];
    }),
  );
}

/** An object with its names in camelCase. Nested objects stay as they are. */
type CamelKeys<Json> = Json extends object ? { [Name in keyof Json as Camel<Name & string>]: Json[Name] } : Json;

export function camelKeys<Json extends object>(json: Json): CamelKeys<Json> {
  return Object.fromEntries(
    Object.entries(json).map(([name, value]) => [camelCase(name), value] as const),
  ) as CamelKeys<Json>;
}

export function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function camelCase(name: string): string {
  return name.replaceAll(/_(\w)/g, (_, first: string) => first.toUpperCase());
}
