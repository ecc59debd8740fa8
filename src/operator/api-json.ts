/** The JSON of the operator API: schema parts that resources share, and the conversion of domain values. */
import * as z from "zod";
import { PAGE_DEFAULT_ITEMS, PAGE_MAX_ITEMS } from "../limits.ts";
import type { Page } from "../platform/list-page.ts";

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

/** The page of a list that a query asks for. */
export function askedPage(query: z.output<typeof pageQuery>): Page {
  return { cursor: query.cursor ?? null, limit: query.limit };
}

/** The schema of a list. */
export function listOf<Item extends z.ZodType>(item: Item) {
  return z.object({
    items: z.array(item),
    next: z.string().nullable().meta({ description: "Cursor of the next page; null on the last page.", example: null }),
  });
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

/** The JSON of a domain value. Only fields of the schema are in it, so a new domain field stays private. */
export function toJson(schema: z.core.$ZodType, value: unknown): unknown {
  if (value === null || value === undefined) return value;
  if (schema instanceof z.ZodNullable || schema instanceof z.ZodOptional) return toJson(schema.unwrap(), value);
  if (schema instanceof z.ZodArray) return (value as unknown[]).map((item) => toJson(schema.element, item));
  if (!(schema instanceof z.ZodObject)) return value;
  const fields = value as Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(schema.shape).map(([name, field]) => {
      const domainName = camelCase(name);
      if (domainName in fields) return [name, toJson(field, fields[domainName])];
      const ms = fields[`${domainName}Ms`];
      return [name, typeof ms === "number" ? new Date(ms).toISOString() : ms];
    }),
  );
}

/** An object with its names in camelCase. Nested objects stay as they are. */
export type CamelKeys<Json> = Json extends object ? { [Name in keyof Json as Camel<Name & string>]: Json[Name] } : Json;

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
