/** Schema parts that several resources of the operator API share. */
import * as z from "zod";
import { iso } from "../control/database.ts";
import { PAGE_DEFAULT_ITEMS, PAGE_MAX_ITEMS } from "../limits.ts";
import type { Page, PageOf } from "../platform/list-page.ts";

/**
 * The shortest retention, in days: the longest billing period, so that a held signal has reached its end before. That is
 * also far beyond the duplicates window of 7 days, the 14 that a queue may keep a message, and the outbox's re-send every
 * 15 minutes: a signal that has been deleted is never delivered again.
 */
export const RETENTION_MIN_DAYS = 31;
/** The longest retention short of for ever, in days. */
const RETENTION_MAX_DAYS = 3_650;

export { email as emailAddress, memberAddress, name, time } from "../workspace/input-schemas.ts";

// --- Requests ---

const PAGE = {
  cursor: z.string().max(8_192).optional().meta({ description: "`next` of the page before." }),
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(PAGE_MAX_ITEMS)
    .default(PAGE_DEFAULT_ITEMS)
    .meta({ description: "Items on a page." }),
};

export const pageQuery = z.strictObject(PAGE);

export function filteredPageQuery<Filter extends z.ZodRawShape>(filter: Filter) {
  return z.strictObject({ ...filter, ...PAGE });
}

export function pageAsked(query: { cursor?: string | undefined; limit: number }): Page {
  return { cursor: query.cursor ?? null, limit: query.limit };
}

/** Days for which a plan keeps signals; null: forever. */
export const retentionDays = z.int().min(RETENTION_MIN_DAYS).max(RETENTION_MAX_DAYS).nullable();

// --- Answers ---

export const instant = z.string().meta({ format: "date-time", example: "2026-11-01T00:00:00.000Z" });

export const count = z.int().min(0);

export function idOf(prefix: string, description: string) {
  return z.string().meta({ description, example: `${prefix}_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d6f` });
}

export function listOf<Item extends z.ZodType>(item: Item) {
  return z.object({
    items: z.array(item),
    next: z.string().nullable().meta({ description: "Cursor of the next page; null on the last one.", example: null }),
  });
}

export function mapPage<From, To>(page: PageOf<From>, to: (item: From) => To): PageOf<To> {
  return { items: page.items.map(to), next: page.next };
}

export function isoOrNull(ms: number | null): string | null {
  return ms === null ? null : iso(ms);
}

/** RFC 9457, with the members of this service. */
export const problemDetails = z
  .object({
    type: z.string().meta({ description: "Where the code is explained." }),
    title: z.string(),
    status: z.int(),
    detail: z.string().meta({ description: "What was wrong with this request, and what to do." }),
    code: z.string().meta({ description: "Stable, for programs." }),
    request_id: z.string(),
    errors: z
      .array(z.object({ path: z.string(), message: z.string() }))
      .optional()
      .meta({ description: "With `validation_failed`: every field that is wrong, of very many the first hundred." }),
  })
  .meta({ id: "Problem", description: "RFC 9457 problem details." });
