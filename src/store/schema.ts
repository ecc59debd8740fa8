/**
 * The tables of the Signal Store, which the parts of it declare. `npm run migrations` generates the migrations from here; the
 * numbers are SQLite's own keys, and times are milliseconds since 1970. Some tables are WITHOUT ROWID, which the generator does not
 * know: the migration says so by hand, and one that makes such a table anew has to say it again.
 */
export * from "./accounts/tables.ts";
export * from "./deletion/tables.ts";
export * from "./events/tables.ts";
export * from "./log/tables.ts";
export * from "./people/tables.ts";
export * from "./record/tables.ts";
export * from "./returns/tables.ts";
export * from "./rules/tables.ts";
export * from "./state/tables.ts";
