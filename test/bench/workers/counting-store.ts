/**
 * The Signal Store with a count of every row that it writes, and with an alarm that rings only on the filler's
 * command. Its behaviour is unchanged.
 */
import { moveToCold } from "../../../src/store/log/cold.ts";
import { nextLinkJobMs } from "../../../src/store/people/link-jobs.ts";
import type { RecordOptions, RecordResult, RowToRecord } from "../../../src/store/protocol/stored-signals.ts";
import { SignalStore as Store } from "../../../src/store/signal-store.ts";
import type { StoreSize, Written } from "../fill-order.ts";

type Part = "recording" | "linking" | "chores";

/** A limit that only a bug can reach. */
const MOST_TURNS = 1_000;
const WRITES = /^\s*(INSERT|UPDATE|DELETE|REPLACE)\b(?:\s+OR\s+\w+)?(?:\s+(?:INTO|FROM))?\s+[`"]?(\w+)/i;
const NEVER = Number.POSITIVE_INFINITY;

/** The rows written, by cause. */
class Counter {
  part: Part = "linking";
  alarmAtMs = NEVER;
  written = nothing();

  constructor(storage: DurableObjectStorage) {
    const { sql } = storage;
    const exec = sql.exec.bind(sql);
    sql.exec = ((query: string, ...bindings: unknown[]) => {
      const cursor = exec(query, ...bindings);
      const [, verb, table] = WRITES.exec(query) ?? [];
      if (table !== undefined) this.#count(`${verb?.toUpperCase()} ${table}`, cursor.rowsWritten);
      return cursor;
    }) as typeof sql.exec;
    storage.setAlarm = (at) => {
      this.alarmAtMs = Number(at);
      this.written.alarms++;
      return Promise.resolve();
    };
  }

  take(): Written {
    const { written } = this;
    this.written = nothing();
    return written;
  }

  #count(statement: string, rows: number): void {
    this.written[this.part] += rows;
    this.written.statements[statement] = (this.written.statements[statement] ?? 0) + rows;
  }
}

function nothing(): Written {
  return { recording: 0, linking: 0, chores: 0, alarms: 0, statements: {} };
}

export class SignalStore extends Store {
  readonly #counter: Counter;

  constructor(ctx: DurableObjectState, env: Env) {
    const counter = new Counter(ctx.storage);
    super(ctx, env);
    this.#counter = counter;
  }

  override record(rows: RowToRecord[], options?: RecordOptions): RecordResult {
    this.#counter.part = "recording";
    try {
      return super.record(rows, options);
    } finally {
      this.#counter.part = "linking";
    }
  }

  /** Since the last request. */
  written(): Written {
    return this.#counter.take();
  }

  /** Does the work of the alarms that are due by now. */
  async ring(): Promise<void> {
    const counter = this.#counter;
    for (let turns = 0; counter.alarmAtMs <= Date.now() && turns < MOST_TURNS; turns++) {
      counter.alarmAtMs = NEVER;
      counter.part = "chores";
      // oxlint-disable-next-line no-await-in-loop -- each turn is what the one before it left
      await this.alarm();
    }
    counter.part = "linking";
  }

  /** Links all earlier signals of visitors who are known by now. */
  async linkAll(): Promise<void> {
    for (let turns = 0; nextLinkJobMs(this.ctx.storage.sql) !== null && turns < MOST_TURNS; turns++) {
      // oxlint-disable-next-line no-await-in-loop -- the same
      await this.link();
    }
  }

  async cool(): Promise<void> {
    const work = { storage: this.ctx.storage, log: this.state.signals, objects: this.coldObjects() };
    const payloads = () => this.ctx.storage.sql.exec("SELECT 1 FROM signals_payloads LIMIT 1").toArray().length;
    for (let turns = 0; payloads() > 0 && turns < MOST_TURNS; turns++) {
      // oxlint-disable-next-line no-await-in-loop -- one object at a time
      await moveToCold(work, Number.MAX_SAFE_INTEGER);
    }
  }

  async size(): Promise<StoreSize> {
    const { sql } = this.ctx.storage;
    const size: StoreSize = {
      databaseBytes: sql.databaseSize,
      coldBytes: 0,
      segments: sql.exec<{ n: number }>("SELECT count(*) AS n FROM signals_segments").one().n,
      longestRow: { table: "", bytes: 0 },
      tables: {},
    };
    const tables = sql.exec<{ name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
    );
    for (const { name } of tables.toArray()) {
      const columns = sql.exec<{ name: string }>(`SELECT name FROM pragma_table_info('${name}')`).toArray();
      const bytes = columns.map((column) => `ifnull(length(CAST("${column.name}" AS BLOB)), 0)`).join(" + ");
      const { longest, all } = sql
        .exec<{ longest: number; all: number }>(
          `SELECT ifnull(max(${bytes}), 0) AS longest, ifnull(sum(${bytes}), 0) AS "all" FROM "${name}"`,
        )
        .one();
      size.tables[name] = all;
      if (longest > size.longestRow.bytes) size.longestRow = { table: name, bytes: longest };
    }
    for (let cursor: string | undefined; ;) {
      const prefix = `cold/${this.workspaceId}/`;
      // oxlint-disable-next-line no-await-in-loop -- pages of a list
      const page = await this.env.COLD.list({ prefix, ...(cursor === undefined ? {} : { cursor }) });
      for (const object of page.objects) size.coldBytes += object.size;
      if (!page.truncated) return size;
      cursor = page.cursor;
    }
  }
}
