/** Meters the bindings of a Worker: D1, queues, R2. */
import { queueOperations } from "../cost/usage.ts";
import { count, queued, waitedFor } from "./meter.ts";

const known = new WeakMap<object, object>();
/** The original statements of the metered ones, because a batch accepts no others. */
const statements = new WeakMap<object, { query: string; statement: D1PreparedStatement }>();

/** R2's calls by billing class; deletes are free. */
const CLASS_A = new Set(["put", "list", "createMultipartUpload"]);
const CLASS_B = new Set(["get", "head"]);

export function meteredEnv<Bindings extends object>(env: Bindings): Bindings {
  let metered = known.get(env) as Bindings | undefined;
  if (metered === undefined) {
    metered = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, meteredBinding(value)])) as Bindings;
    known.set(env, metered);
  }
  return metered;
}

function meteredBinding(binding: unknown): unknown {
  if (typeof binding !== "object" || binding === null) return binding;
  if ("createMultipartUpload" in binding) return meteredBucket(binding as R2Bucket);
  if ("sendBatch" in binding) return meteredQueue(binding as Queue);
  if ("withSession" in binding) return meteredDatabase(binding as D1Database);
  return binding;
}

/** The target with some members replaced. */
function replaced<T extends object>(target: T, members: Partial<T>): T {
  return new Proxy(target, {
    get(_, name) {
      const value: unknown = name in members ? members[name as keyof T] : target[name as keyof T];
      return typeof value === "function" && !(name in members) ? (value.bind(target) as unknown) : value;
    },
  });
}

function meteredDatabase(database: D1Database): D1Database {
  return replaced(database, {
    ...sessionMembers(database),
    withSession: (constraint) => {
      const session = database.withSession(constraint);
      return replaced(session, sessionMembers(session));
    },
  });
}

function sessionMembers(session: D1Database | D1DatabaseSession): Pick<D1DatabaseSession, "prepare" | "batch"> {
  return {
    prepare: (query) => meteredStatement(query, session.prepare(query)),
    batch: async <T>(metered: D1PreparedStatement[]) => {
      const behind = metered.map((statement) => statements.get(statement));
      const found = behind.filter((statement) => statement !== undefined);
      const results = await waitedFor(session.batch<T>(found.map(({ statement }) => statement)));
      for (const [index, { meta }] of results.entries()) noteD1(found[index]?.query ?? "", meta);
      return results;
    },
  };
}

function meteredStatement(query: string, statement: D1PreparedStatement): D1PreparedStatement {
  const all = async <T>(): Promise<D1Result<T>> => {
    const result = await waitedFor(statement.all<T>());
    noteD1(query, result.meta);
    return result;
  };
  const metered = replaced(statement, {
    bind: (...values) => meteredStatement(query, statement.bind(...values)),
    all,
    run: all,
    first: (async (column?: string) => {
      const [row] = (await all<Record<string, unknown>>()).results;
      return row === undefined ? null : column === undefined ? row : row[column];
    }) as D1PreparedStatement["first"],
    raw: (async (options?: { columnNames?: false }) => {
      // Only the other calls report the rows read, so that a reading statement runs a second time for this figure.
      const writes = /\s/.test(statementOf(query));
      if (writes) throw new Error("a statement that writes, and whose rows written are unknown");
      await all();
      return waitedFor(statement.raw(options));
    }) as D1PreparedStatement["raw"],
  });
  statements.set(metered, { query, statement });
  return metered;
}

function noteD1(query: string, meta: D1Meta): void {
  const statement = `D1 ${statementOf(query)}`;
  if (meta.rows_written > 0) count("d1_rows_written", statement, meta.rows_written);
  if (meta.rows_read > 0) count("d1_rows_read", statement, meta.rows_read);
}

function meteredQueue(queue: Queue): Queue {
  const written = (body: unknown): void => {
    count("queue_operations", "write", queueOperations(bytesOf(body)));
    queued(1);
  };
  return replaced(queue, {
    send: (body, options) => {
      written(body);
      return waitedFor(queue.send(body, options));
    },
    sendBatch: (messages, options) => {
      const sent = [...messages];
      for (const { body } of sent) written(body);
      return waitedFor(queue.sendBatch(sent, options));
    },
  });
}

/** A batch as a consumer gets it; it is settled when the consumer returns. */
export function meteredBatch<Body>(batch: MessageBatch<Body>): { batch: MessageBatch<Body>; settle: () => void } {
  const again = new Set<Message<Body>>();
  const messages = batch.messages.map((message) => {
    count("queue_operations", "read", queueOperations(bytesOf(message.body)));
    return replaced(message, {
      retry: (options) => {
        again.add(message);
        message.retry(options);
      },
    });
  });
  const settle = (): void => {
    for (const message of batch.messages) {
      if (again.has(message)) continue;
      count("queue_operations", "delete", queueOperations(bytesOf(message.body)));
      queued(-1);
    }
  };
  return { batch: replaced(batch, { messages }), settle };
}

function bytesOf(body: unknown): number {
  if (body instanceof ArrayBuffer || body instanceof Uint8Array) return body.byteLength;
  return Buffer.byteLength(typeof body === "string" ? body : JSON.stringify(body));
}

function meteredBucket(bucket: R2Bucket): R2Bucket {
  return new Proxy(bucket, {
    get(_, name) {
      const value: unknown = bucket[name as keyof R2Bucket];
      if (typeof value !== "function") return value;
      const call = value.bind(bucket) as (...args: unknown[]) => Promise<unknown>;
      return (...args: unknown[]) => {
        if (CLASS_A.has(String(name))) count("r2_class_a", String(name));
        if (CLASS_B.has(String(name))) count("r2_class_b", String(name));
        return waitedFor(call(...args));
      };
    },
  });
}

const WRITES = /^\s*(INSERT|UPDATE|DELETE|REPLACE)\b(?:\s+OR\s+\w+)?(?:\s+(?:INTO|FROM))?\s+[`"]?(\w+)/i;

/** Verb and table of a writing statement; otherwise its first word. */
export function statementOf(query: string): string {
  const [, verb, table] = WRITES.exec(query) ?? [];
  return verb === undefined || table === undefined
    ? (/\w+/.exec(query)?.[0]?.toUpperCase() ?? "")
    : `${verb.toUpperCase()} ${table}`;
}
