/**
 * The Signal Store's own tables. `npm run migrations` generates migrations/signal-store from this file. Times are
 * milliseconds since 1970. Each index earns its place: a row is written for each of them with every signal.
 */
export * from "./accounts/tables.ts";
export * from "./schema/cold-storage.ts";
export * from "./schema/data-care.ts";
export * from "./schema/people.ts";
export * from "./schema/rules.ts";
export * from "./schema/signals.ts";
