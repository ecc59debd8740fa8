/**
 * Exports of the whole workspace as parts in R2 (wire/workspace-file.ts). While an export is written the store records nothing and its
 * chores rest, so that all parts show one moment: the consumer retries, and the counter's outbox keeps what arrives. Signals that the
 * counter has admitted and the store has not recorded are in the file as rows of the outbox.
 *
 * A note of each export is stored before and after each part, so an export goes on after a crash. Each slice takes at most 50 ms.
 */
import { DAY_MS } from "../../domain/duration.ts";
import { readRows, type TableLine, type TablePlace } from "../../platform/table-rows.ts";
import { within } from "../../platform/time-limit.ts";
import { CALL_TIMEOUT_MS } from "../../limits.ts";
import type { FileHeader } from "../../d1/workspace-file.ts";
import {
  type FileLine,
  type FileManifest,
  type FileOrigin,
  type FilePart,
  LEFT_OUT,
  PART_BYTES,
  PART_TEXT_BYTES,
  partKey,
  STORE_TABLES,
} from "../../wire/workspace-file.ts";

/** The store is paused no longer. Then the export has failed. */
export const PAUSE_MAX_MS = 5 * 60_000;
const KEPT_MS = 7 * DAY_MS;
/** Values of a slice: some 15 ms with base64 and gzip. */
const SLICE_BYTES = 400_000;
const LINES_AT_ONCE = 500;
/** Some 6 ms of gzip. An object of R2 is one line of up to 3 MB. */
const PIECE_BYTES = 256 * 1024;
const PAUSE_MS = 2;
const NOTES_KEY = "exports";

/** Where an export goes on. `objects`: the key of the last object of R2. */
type Place =
  | { stage: "d1" }
  | { stage: "audit"; after: string }
  | { stage: "counter"; place: CounterPlace | null }
  | { stage: "destinations" }
  | { stage: "store"; place: TablePlace }
  | { stage: "objects"; after: string };

/** Null at first: the counter's moment is its next call. */
export interface CounterPlace extends TablePlace {
  lastRow: number;
}

interface Note {
  id: string;
  requestedAtMs: number;
  /** Null: not begun. */
  pausedAtMs: number | null;
  state: "waiting" | "writing" | "complete" | "failed";
  error: string | null;
  /** Null: all lines are written. */
  place: Place | null;
  header: FileHeader | null;
  exportedAtMs: number;
  payloadsMissing: number;
  parts: FilePart[];
}

export type ExportProgress = Pick<Note, "id" | "requestedAtMs" | "state" | "error"> & { parts: number; bytes: number };

export interface ExportSources {
  workspaceId: string;
  bucket: R2Bucket;
  storage: DurableObjectStorage;
  d1: D1Database;
  counterRows: (place: CounterPlace | null) => Promise<{ lines: TableLine[]; next: CounterPlace | null }>;
  destinationRows: () => Promise<TableLine[]>;
  /** Waits until nothing changes the store any more, and writes what waits in memory. */
  settle: () => Promise<void>;
}

export class ExportJobs {
  readonly #kv: SyncKvStorage;
  #notes: Note[];

  constructor(storage: DurableObjectStorage) {
    this.#kv = storage.kv;
    this.#notes = storage.kv.get<Note[]>(NOTES_KEY) ?? [];
  }

  /** Whether the store must not change. */
  get isWriting(): boolean {
    return this.#notes.some(({ state }) => state === "writing");
  }

  /** When the last interrupted write may have begun; 0: there is none. */
  get lastWriteMs(): number {
    const interrupted = this.#notes.filter(({ state }) => state === "writing" || state === "failed");
    return Math.max(0, ...interrupted.map(({ pausedAtMs }) => (pausedAtMs ?? 0) + PAUSE_MAX_MS));
  }

  /** When a step is due; null: nothing to do. */
  dueMs(nowMs: number): number | null {
    const times = this.#notes.map(({ state, requestedAtMs }) =>
      state === "waiting" || state === "writing" ? nowMs : requestedAtMs + KEPT_MS,
    );
    return times.length === 0 ? null : Math.min(...times);
  }

  /** Idempotent. A running export is joined. @returns its id. */
  begin(id: string, nowMs: number): string {
    const running = this.#notes.find(({ state }) => state === "waiting" || state === "writing");
    if (running !== undefined) return running.id;
    const begun = { id, requestedAtMs: nowMs, pausedAtMs: null, state: "waiting", error: null } as const;
    const empty = { place: { stage: "d1" }, header: null, exportedAtMs: nowMs, payloadsMissing: 0, parts: [] } as const;
    this.#save([...this.#notes, { ...begun, ...empty, parts: [] }]);
    return id;
  }

  /** Null: there is none, or not any more. */
  progress(id: string): ExportProgress | null {
    const note = this.#notes.find((candidate) => candidate.id === id);
    if (note === undefined) return null;
    const { requestedAtMs, state, error, parts } = note;
    return {
      id,
      requestedAtMs,
      state,
      error,
      parts: parts.length,
      bytes: parts.reduce((sum, { bytes }) => sum + bytes, 0),
    };
  }

  /** Writes one part, or deletes one old export. @throws if a source or R2 does not answer. */
  async step(sources: ExportSources): Promise<void> {
    const nowMs = Date.now();
    const current = this.#notes.find(({ state }) => state === "waiting" || state === "writing");
    if (current === undefined) {
      const old = this.#notes.find(({ requestedAtMs }) => requestedAtMs + KEPT_MS <= nowMs);
      if (old !== undefined) await this.#remove(sources, old);
      return;
    }
    const note = { ...current, parts: [...current.parts] };
    if (note.pausedAtMs === null) {
      Object.assign(note, { pausedAtMs: nowMs, state: "writing" });
      this.#put(note);
      await sources.settle();
    }
    if (nowMs > (note.pausedAtMs ?? nowMs) + PAUSE_MAX_MS) {
      this.#put({
        ...note,
        state: "failed",
        error: "The export took more than five minutes, for which scores may wait.",
      });
      return;
    }
    if (note.place !== null) await this.#writePart(sources, note);
    if (note.place === null) {
      await this.#writeManifest(sources, note);
      note.state = "complete";
    }
    this.#put(note);
  }

  async #writePart(sources: ExportSources, note: Note): Promise<void> {
    const { gzipSync } = process.getBuiltinModule("node:zlib");
    const packed: Buffer[] = [];
    let [bytes, text, lines] = [0, 0, 0];
    while (note.place !== null && bytes < PART_BYTES && text < PART_TEXT_BYTES) {
      // oxlint-disable-next-line no-await-in-loop -- a slice at a time is in memory
      const slice = await this.#readSlice(sources, note, note.place);
      for (let from = 0; from < slice.lines.length; from += LINES_AT_ONCE) {
        const some = slice.lines.slice(from, from + LINES_AT_ONCE);
        const written = Buffer.from(some.map((line) => `${JSON.stringify(line)}\n`).join(""));
        for (let at = 0; at < written.length; at += PIECE_BYTES) {
          const member = gzipSync(written.subarray(at, at + PIECE_BYTES), { level: 1 });
          packed.push(member);
          bytes += member.length;
          // oxlint-disable-next-line no-await-in-loop -- other calls run in between
          await scheduler.wait(PAUSE_MS);
        }
        text += written.length;
        lines += some.length;
      }
      note.place = slice.next;
    }
    const body = Buffer.concat(packed);
    const part = note.parts.length + 1;
    const key = partKey(sources.workspaceId, note.id, part);
    await within(CALL_TIMEOUT_MS, sources.bucket.put(key, body));
    note.parts.push({ part, bytes, sha256: sha256Of(body), lines });
  }

  async #readSlice(
    { workspaceId, bucket, storage, d1, counterRows, destinationRows }: ExportSources,
    note: Note,
    place: Place,
  ): Promise<{ lines: FileLine[]; next: Place | null }> {
    const linesOf = (from: FileOrigin, lines: readonly TableLine[]): FileLine[] =>
      lines.map((line) => ({ from, ...line }));
    const session = d1.withSession("first-primary");
    switch (place.stage) {
      case "d1": {
        const { readForFile } = await import("../../d1/workspace-file.ts");
        const { header, lines } = await within(CALL_TIMEOUT_MS, readForFile(session, workspaceId));
        note.header = header;
        return { lines: linesOf("d1", lines), next: { stage: "audit", after: "" } };
      }
      case "audit": {
        const { readAuditForFile } = await import("../../d1/workspace-file.ts");
        const { lines, next } = await within(CALL_TIMEOUT_MS, readAuditForFile(session, workspaceId, place.after));
        return {
          lines: linesOf("d1", lines),
          next: next === null ? { stage: "counter", place: null } : { stage: "audit", after: next },
        };
      }
      case "counter": {
        if (place.place === null) note.exportedAtMs = Date.now();
        const { lines, next } = await within(CALL_TIMEOUT_MS, counterRows(place.place));
        return {
          lines: linesOf("counter", lines),
          next: next === null ? { stage: "destinations" } : { stage: "counter", place: next },
        };
      }
      case "destinations": {
        const lines = linesOf("destinations", await within(CALL_TIMEOUT_MS, destinationRows()));
        return { lines, next: { stage: "store", place: { table: 0, after: null } } };
      }
      case "store": {
        const { lines, next } = readRows(storage.sql, STORE_TABLES, place.place, SLICE_BYTES);
        return {
          lines: linesOf("store", lines.map(withoutWanted)),
          next: next === null ? { stage: "objects", after: "" } : { stage: "store", place: next },
        };
      }
      case "objects": {
        const [object] = storage.sql
          .exec<{ key: string }>(
            "SELECT key FROM cold_objects WHERE key > ? AND state IN ('stored', 'gaps') ORDER BY key LIMIT 1",
            place.after,
          )
          .toArray();
        if (object === undefined) return { lines: [], next: null };
        const { key } = object;
        const next: Place = { stage: "objects", after: key };
        const found = await within(CALL_TIMEOUT_MS, bucket.get(`cold/${workspaceId}/${key}`));
        if (found === null) {
          note.payloadsMissing++;
          return { lines: [], next };
        }
        const base64 = Buffer.from(await within(CALL_TIMEOUT_MS, found.arrayBuffer())).toString("base64");
        return { lines: [{ from: "r2", table: "objects", row: { key, bytes: { base64 } } }], next };
      }
    }
  }

  /** The last object of an export, so an export with a manifest is complete. */
  async #writeManifest({ workspaceId, bucket }: ExportSources, note: Note): Promise<void> {
    if (note.header === null) throw new Error("the export has no header");
    const { FILE_VERSION } = await import("../../d1/file-version.ts");
    const manifest: FileManifest = {
      format: "workspace",
      version: FILE_VERSION,
      exportId: note.id,
      exportedAtMs: note.exportedAtMs,
      ...note.header,
      payloadsMissing: note.payloadsMissing,
      leftOut: LEFT_OUT,
      parts: note.parts,
    };
    await within(CALL_TIMEOUT_MS, bucket.put(partKey(workspaceId, note.id, "manifest"), JSON.stringify(manifest)));
  }

  async #remove({ workspaceId, bucket }: ExportSources, old: Note): Promise<void> {
    // The part after the last one may have been written before the export failed.
    const parts = [...old.parts.map(({ part }) => part), old.parts.length + 1, "manifest" as const];
    const keys = parts.map((part) => partKey(workspaceId, old.id, part));
    for (let from = 0; from < keys.length; from += 1_000) {
      // oxlint-disable-next-line no-await-in-loop -- R2 deletes up to 1,000 keys in a call
      await within(CALL_TIMEOUT_MS, bucket.delete(keys.slice(from, from + 1_000)));
    }
    this.#save(this.#notes.filter(({ id }) => id !== old.id));
  }

  #put(note: Note): void {
    this.#save(this.#notes.map((known) => (known.id === note.id ? note : known)));
  }

  #save(notes: Note[]): void {
    this.#kv.put(NOTES_KEY, notes);
    this.#notes = notes;
  }
}

/** Destinations of the new workspace are paused, so the types that the source's wanted are not in the file. */
function withoutWanted({ table, row }: TableLine): TableLine {
  const meta = row["meta"];
  if (table !== "heads" || typeof meta !== "string") return { table, row };
  const head = JSON.parse(meta) as object;
  return { table, row: { ...row, meta: JSON.stringify("wanted" in head ? { ...head, wanted: null } : head) } };
}

function sha256Of(bytes: Uint8Array): string {
  return process.getBuiltinModule("node:crypto").createHash("sha256").update(bytes).digest("hex");
}
