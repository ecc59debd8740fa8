/** Streams an export from the Worker: reads the store part by part, each when the receiver has taken the one before. */
import { auditEntry } from "../d1/audit.ts";
import { withoutKeys } from "../domain/keys/api-key.ts";
import { downloads, turnOfPage, type Lease } from "../http/workspace-share.ts";
import { within } from "../platform/time-limit.ts";
import type { ExportedRecords, ExportFormat } from "../store/protocol/store-operations.ts";
import { signalStore, type WorkspaceContext } from "./objects.ts";

/** CSV declares its header (RFC 4180); NDJSON has no registered type. */
const EXPORT_CONTENT_TYPES: Record<ExportFormat, string> = {
  ndjson: "application/x-ndjson",
  csv: "text/csv; charset=utf-8; header=present",
};

/** Time limit of one part, which usually takes 20 ms. After it the download fails visibly instead of hanging. */
const PART_TIMEOUT_MS = 30_000;

/** The cost of a part, in pages (`turnOfPage`). */
const PART_UNITS = 2;
/** Characters of a chunk of the stream: a receiver that stops keeps one in memory. */
const CHUNK_CHARACTERS = 262_144;
/** Time in which the receiver takes a chunk, at least 9 KB a second. Then the download fails and its place is free. */
const CHUNK_TIMEOUT_MS = 30_000;

interface ExportFile {
  name: string;
  contentType: string;
  /** Fails if a part cannot be read, so that a partial file never looks complete. */
  body: ReadableStream<Uint8Array>;
}

/**
 * A file of the data recorded now, with API keys masked. The audit entry is written before the first byte is sent.
 *
 * @returns null: the workspace has too many downloads under way.
 * @throws before anything is sent, if the store or D1 does not answer.
 */
export async function exportFile(
  { env, db, workspaceId, by }: WorkspaceContext,
  slug: string,
  { records, format }: { records: ExportedRecords; format: ExportFormat },
): Promise<ExportFile | null> {
  const place = downloads.begin(workspaceId, by.nowMs, PART_TIMEOUT_MS);
  if (place === null) return null;
  // Use a new stub for each part: a stub that failed once stays broken.
  const read = async (cursor: string | null): Promise<Part> => {
    // Waits while the workspace has used its share.
    // oxlint-disable-next-line no-await-in-loop
    do place.untilMs = Date.now() + PART_TIMEOUT_MS;
    while ((await turnOfPage(workspaceId, PART_UNITS)) > 0);
    const part = await within(PART_TIMEOUT_MS, signalStore(env, workspaceId).exportPart({ records, format, cursor }));
    return { text: withoutKeys(part.text), next: part.next };
  };
  try {
    const first = await read(null);
    const detail = { records, format };
    await auditEntry(db, by, { workspaceId, action: "data.exported", target: workspaceId, detail });
    const body = streamOf(first, read, place);
    return { name: fileName(slug, records, format, by.nowMs), contentType: EXPORT_CONTENT_TYPES[format], body };
  } catch (error) {
    place.release();
    throw error;
  }
}

interface Part {
  text: string;
  next: string | null;
}

function streamOf(first: Part, read: (cursor: string) => Promise<Part>, place: Lease): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let { text, next } = first;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const end = (): void => {
    clearTimeout(timer);
    place.release();
    text = "";
  };
  return new ReadableStream<Uint8Array>(
    {
      // The platform asks for a chunk when the receiver has taken the one before.
      async pull(controller) {
        clearTimeout(timer);
        try {
          // The platform does not pull a stream again after an empty pull.
          // oxlint-disable-next-line no-await-in-loop -- each part names the next
          while (text === "" && next !== null) ({ text, next } = await read(next));
        } catch (error) {
          end();
          throw error;
        }
        if (text === "") {
          controller.close();
          end();
          return;
        }
        const cut = chunkEnd(text);
        controller.enqueue(encoder.encode(text.slice(0, cut)));
        text = text.slice(cut);
        place.untilMs = Date.now() + CHUNK_TIMEOUT_MS;
        timer = setTimeout(() => {
          end();
          controller.error(new Error("the receiver does not take the file"));
        }, CHUNK_TIMEOUT_MS);
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}

/** Not within a surrogate pair. */
function chunkEnd(text: string): number {
  const code = text.charCodeAt(CHUNK_CHARACTERS - 1);
  return code >= 0xd800 && code < 0xdc00 ? CHUNK_CHARACTERS - 1 : Math.min(text.length, CHUNK_CHARACTERS);
}

/** File name, such as `acme-signals-20261101T093000Z.csv`. */
function fileName(slug: string, records: ExportedRecords, format: ExportFormat, nowMs: number): string {
  const at = new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, "");
  return `${slug}-${records.replace("_", "-")}-${at}.${format}`;
}
