/**
 * Records every statement of the Durable Objects of this file's workspaces and of the control plane's database. Also
 * records SQLite's plan for each statement, with the schema and indexes of production.
 */
import { runInDurableObject } from "cloudflare:test";
import { intercept, type Call } from "./intercept.ts";

export interface Plan {
  query: string;
  /** A line of EXPLAIN QUERY PLAN, such as `SEARCH signals USING INDEX signals_id (id=?)`. */
  detail: string;
}

export interface Statements {
  plans(): Plan[];
  stop(): void;
}

/**
 * Records from now on, in all objects, including those started later. Each plan is read at that moment from the same
 * object.
 *
 * @param stub of any object: all of them share the class of their `sql`.
 */
export async function recordStatements(stub: DurableObjectStub): Promise<Statements> {
  return runInDurableObject(stub, (_, { storage: { sql } }) => {
    const prototype = Object.getPrototypeOf(sql) as SqlStorage;
    const exec = Reflect.get(prototype, "exec") as SqlStorage["exec"];
    const plans = new Map<string, Plan[]>();
    Reflect.set(prototype, "exec", function record(this: SqlStorage, query: string, ...bindings: SqlStorageValue[]) {
      if (!plans.has(query) && /^\s*(with|select|update|delete|insert)\b/i.test(query)) {
        const rows = Reflect.apply(exec, this, [`EXPLAIN QUERY PLAN ${query}`, ...bindings]) as SqlStorageCursor<{
          detail: string;
        }>;
        plans.set(
          query,
          [...rows].map(({ detail }) => ({ query, detail })),
        );
      }
      return Reflect.apply(exec, this, [query, ...bindings]) as unknown;
    });
    return { plans: () => [...plans.values()].flat(), stop: () => Reflect.set(prototype, "exec", exec) };
  });
}

/**
 * The control plane's database, with a record of each statement.
 *
 * `plans` returns SQLite's plan for each, with its bound values.
 */
export function recordD1(d1: D1Database): { d1: D1Database; queries: () => string[]; plans: () => Promise<Plan[]> } {
  const executed: Call["statements"] = [];
  const recorder = intercept(d1, ({ statements, make }) => {
    executed.push(...statements);
    return make();
  });
  const planOf = async ({ query, bindings }: Call["statements"][number]): Promise<Plan[]> => {
    const explained = d1.prepare(`EXPLAIN QUERY PLAN ${query}`).bind(...bindings);
    return (await explained.all<{ detail: string }>()).results.map(({ detail }) => ({ query, detail }));
  };
  return {
    d1: recorder,
    queries: () => executed.map(({ query }) => query),
    plans: async () => (await Promise.all(executed.map(planOf))).flat(),
  };
}

/**
 * Plans that read a table or an index from end to end, or sort rows that an index could return in order. `json_each`
 * of a parameter is no table. A statement with a limit and no condition reads only that many rows. Sorting rows with
 * the same place in an index is sorting a few.
 *
 * @param exceptions tables and statements that may be read whole.
 */
export function wholeReads(plans: readonly Plan[], exceptions: readonly string[]): Plan[] {
  const allowed = new Set(exceptions.map((exception) => oneLine(exception)));
  return plans.filter(({ query, detail }) => {
    if (allowed.has(oneLine(query))) return false;
    if (detail.startsWith("USE TEMP B-TREE")) return !/ FOR LAST /.test(detail);
    // A minimum or maximum without an index is reported as a search, but reads the whole table.
    const table = /^(?:SCAN|SEARCH(?= \S+$)) (\S+)/.exec(detail)?.[1];
    if (table === undefined || detail.includes("VIRTUAL TABLE") || detail === "SCAN CONSTANT ROW") return false;
    const isLimited = /\slimit\s+\S+\s*$/i.test(query) && !/\swhere\s/i.test(query);
    return !isLimited && !exceptions.includes(table);
  });
}

/** A statement on one line, for comparison and messages. */
export function oneLine(query: string): string {
  return query.replaceAll(/\s+/g, " ").trim();
}
