/** Streams an export from the Worker: reads the store slice by slice, as fast as the receiver takes them. */
import { auditEntry } from "../control/audit.ts";
import { withoutKeys } from "../domain/keys/api-key.ts";
import { within } from "../platform/time-limit.ts";
import type { ExportedRecords, ExportFormat } from "../store/protocol/store-operations.ts";
import { signalStore, type WorkspaceContext } from "./objects.ts";

/** CSV declares its header (RFC 4180); NDJSON has no registered type. */
const EXPORT_CONTENT_TYPES: Record<ExportFormat, string> = {
  ndjson: "application/x-ndjson",
  csv: "text/csv; charset=utf-8; header=present",
};

/** Time limit of one slice, which usually takes 20 ms. After it the download fails visibly instead of hanging. */
const PAGE_TIMEOUT_MS = 30_000;

interface ExportFile {
  name: string;
  contentType: string;
  /** Fails if a slice cannot be read, so that a partial file never looks complete. */
  body: ReadableStream<Uint8Array>;
}

/**
 * A file of the data recorded now, with API keys masked. The audit entry is written before the first byte is sent.
 *
 * @throws before anything is sent, if the store or D1 does not answer.
 */
export async function exportFile(
  { env, db, workspaceId, by }: WorkspaceContext,
  slug: string,
  { records, format }: { records: ExportedRecords; format: ExportFormat },
): Promise<ExportFile> {
  // Use a new stub for each slice: a stub that failed once stays broken.
  const read = (cursor: string | null) =>
    within(PAGE_TIMEOUT_MS, signalStore(env, workspaceId).exportPage({ records, format, cursor }));
  let page = await read(null);
  const detail = { records, format };
  await auditEntry(db, by, { workspaceId, action: "data.exported", target: workspaceId, detail });
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        // Skip empty slices here: the platform does not pull a stream again after an empty pull.
        // oxlint-disable-next-line no-await-in-loop -- each slice names the next
        while (page.text === "" && page.next !== null) page = await read(page.next);
        if (page.text !== "") controller.enqueue(encoder.encode(withoutKeys(page.text)));
        if (page.next === null) controller.close();
        else page = await read(page.next);
      },
    },
    { highWaterMark: 0 },
  );
  return { name: fileName(slug, records, format, by.nowMs), contentType: EXPORT_CONTENT_TYPES[format], body };
}

/** File name, such as `acme-signals-20261101T093000Z.csv`. */
function fileName(slug: string, records: ExportedRecords, format: ExportFormat, nowMs: number): string {
  const at = new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, "");
  return `${slug}-${records.replace("_", "-")}-${at}.${format}`;
}
