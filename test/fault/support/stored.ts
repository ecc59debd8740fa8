/** A workspace's Signal Store, read directly from disk. */
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { StoredSignalLog } from "../../../src/store/log/stored-log.ts";
import { type OpenSignalLog, StoreState } from "../../../src/store/state/store-state.ts";
import { objectFile } from "./object-file.ts";
import type { Service } from "../../support/service.ts";

/** Functions of the runtime that Node has from version 25 on. The store's texts use the URL alphabet of base64. */
const bytes: object = Uint8Array;
if (!("fromBase64" in bytes)) {
  Object.assign(bytes, { fromBase64: (text: string) => new Uint8Array(Buffer.from(text, "base64url")) });
  Object.assign(Uint8Array.prototype, {
    setFromBase64(this: Uint8Array, text: string) {
      this.set(Buffer.from(text, "base64url"));
    },
    toHex(this: Uint8Array) {
      return Buffer.from(this).toString("hex");
    },
  });
}

function noR2(): never {
  throw new Error("no test reads R2 here");
}

export async function readStored<T>(service: Service, workspaceId: string, read: (state: StoreState) => T): Promise<T> {
  const database = new DatabaseSync(await objectFile(service, "SIGNAL_STORE", workspaceId), { readOnly: true });
  try {
    // One transaction, so that all rows are from the same moment.
    database.exec("BEGIN");
    const storage = { sql: asSqlStorage(database) } as DurableObjectStorage;
    const openSignalLog: OpenSignalLog = (options) =>
      new StoredSignalLog(storage, { ...options, objects: noR2, isHalfFull: () => false });
    return read(new StoreState(storage.sql, openSignalLog));
  } finally {
    database.close();
  }
}

/** Node's database with the part of the platform's interface that the store uses to read. */
function asSqlStorage(database: DatabaseSync): SqlStorage {
  const exec = (query: string, ...bindings: SQLInputValue[]) => {
    const rows = database
      .prepare(query)
      .all(...bindings)
      .map(withBuffers);
    const raw = (): unknown[][] => rows.map((row) => Object.values(row));
    return Object.assign(rows, { toArray: () => rows, one: () => only(rows), raw });
  };
  return { exec } as unknown as SqlStorage;
}

/** The platform returns buffers, Node returns views of them. */
function withBuffers(row: Record<string, unknown>): Record<string, unknown> {
  const entries = Object.entries(row).map(([name, value]) => [
    name,
    value instanceof Uint8Array ? new Uint8Array(value).buffer : value,
  ]);
  return Object.fromEntries(entries) as Record<string, unknown>;
}

function only<Row>(rows: readonly Row[]): Row {
  const [row] = rows;
  if (row === undefined || rows.length > 1) throw new Error(`${rows.length} rows instead of one`);
  return row;
}
