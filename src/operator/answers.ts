/** JSON answers of the operator API: schema parts that resources share, and the mapping of domain values to JSON. */
import type { Context } from "hono";
import * as z from "zod";
import { PAGE_DEFAULT_ITEMS, PAGE_MAX_ITEMS } from "../limits.ts";
import type { Page, PageOf } from "../platform/list-page.ts";
import { notFound } from "./operation.ts";
import type { OperatorEnv } from "./environment.ts";

const dateTime = z.string().meta({ format: "date-time", example: "2026-11-01T00:00:00.000Z" });

/** A time that the domain has in milliseconds since 1970, in a field whose name ends with `Ms`. */
export const instant = dateTime.brand<"instant">();

/** A time that the domain has as ISO 8601 text too. */
export const isoInstant = dateTime;

export const count = z.int().min(0);

export function idOf(prefix: string, description: string) {
  return z.string().meta({ description, example: `${prefix}_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d6f` });
}

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

function camelCase(name: string): string {
  return name.replaceAll(/_(\w)/g, (_, first: string) => first.toUpperCase());
}

/** The JSON of a domain value. Only fields of the schema are in it, so a new domain field stays private. */
export function toJson<Schema extends z.ZodType>(
  schema: Schema,
  value: DomainValue<z.output<Schema>>,
): z.output<Schema> {
  return jsonOf(schema, value) as z.output<Schema>;
}

function jsonOf(schema: z.core.$ZodType, value: unknown): unknown {
  if (value === null || value === undefined) return value;
  if (schema instanceof z.ZodNullable || schema instanceof z.ZodOptional) return jsonOf(schema.unwrap(), value);
  if (schema instanceof z.ZodArray) return (value as unknown[]).map((item) => jsonOf(schema.element, item));
  if (!(schema instanceof z.ZodObject)) return value;
  const fields = value as Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(schema.shape).map(([name, field]) => {
      const domainName = camelCase(name);
      if (domainName in fields) return [name, jsonOf(field, fields[domainName])];
      const ms = fields[`${domainName}Ms`];
      return [name, typeof ms === "number" ? new Date(ms).toISOString() : ms];
    }),
  );
}

/** A request body with its names in camelCase. Nested objects stay as they are. */
export function camelKeys<Body extends object>(
  body: Body,
): { [Name in keyof Body as Camel<Name & string>]: Body[Name] } {
  const entries = Object.entries(body).map(([name, value]) => [camelCase(name), value] as const);
  return Object.fromEntries(entries) as { [Name in keyof Body as Camel<Name & string>]: Body[Name] };
}

/** Answers with the JSON of a domain value. */
export function answer<Schema extends z.ZodType>(
  c: Context<OperatorEnv>,
  schema: Schema,
  value: DomainValue<z.output<Schema>>,
  status: 200 | 201 | 202 = 200,
): Response {
  return c.json(toJson(schema, value) as object, status);
}

/** Answers like `answer`, or with a 404 that names the `noun` if the value is null. */
export function answerFound<Schema extends z.ZodType>(
  c: Context<OperatorEnv>,
  schema: Schema,
  noun: string,
  value: DomainValue<z.output<Schema>> | null,
  status: 200 | 202 = 200,
): Response {
  return value === null ? notFound(c, noun) : answer(c, schema, value, status);
}

// --- Lists ---

const PAGE = {
  cursor: z.string().max(8_192).optional().describe("`next` of the previous page."),
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(PAGE_MAX_ITEMS)
    .default(PAGE_DEFAULT_ITEMS)
    .describe("Maximum number of items."),
};

export const pageQuery = z.strictObject(PAGE);

export function filteredPageQuery<Filter extends z.ZodRawShape>(filter: Filter) {
  return z.strictObject({ ...filter, ...PAGE });
}

type PageQuery = { out: { query: z.output<typeof pageQuery> } };

/** The page of a list that a validated query asks for. */
export function askedPage(c: Context<OperatorEnv, string, PageQuery>): Page {
  const { cursor = null, limit } = c.req.valid("query");
  return { cursor, limit };
}

/** The schema of a list. */
export function listOf<Item extends z.ZodType>(item: Item) {
  return z.object({
    items: z.array(item),
    next: z.string().nullable().meta({ description: "Cursor of the next page; null on the last page.", example: null }),
  });
}

/** Answers with a page of a list. */
export function answerPage<Schema extends z.ZodType>(
  c: Context<OperatorEnv>,
  item: Schema,
  { items, next }: PageOf<DomainValue<z.output<Schema>>>,
): Response {
  return c.json({ items: items.map((value) => toJson(item, value)), next });
}
