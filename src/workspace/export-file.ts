/** Exports as they leave the Worker: a page of the store after the other, each when the receiver has taken the one before. */
import { writeAuditEntry } from "../control/audit.ts";
import type { Change, ControlDatabase } from "../control/database.ts";
import type { Workspace } from "../control/workspaces.ts";
import { withoutKeys } from "../domain/keys/api-key.ts";
import { within } from "../platform/time-limit.ts";
import type { ExportedRecords, ExportFormat } from "../store/protocol/store-operations.ts";
import { signalStore } from "./objects.ts";

/** CSV says that it has a header (RFC 4180); NDJSON has no registered type. */
const EXPORT_CONTENT_TYPES: Record<ExportFormat, string> = {
  ndjson: "application/x-ndjson",
  csv: "text/csv; charset=utf-8; header=present",
};

/** A page that takes longer breaks the file off: whoever loads it would wait for ever, and not know. Most take 20 ms. */
const PAGE_TIMEOUT_MS = 30_000;

export interface ExportFile {
  name: string;
  contentType: string;
  /** The file's text. It breaks off with an error when a page cannot be had, so that no half looks like a whole file. */
  body: ReadableStream<Uint8Array>;
}

/**
 * A file of what is recorded at this moment, with API keys in it masked. The audit entry is written before anything leaves.
 *
 * @throws when the store or D1 does not answer, before anything has been sent.
 */
export async function exportFile(
  env: Env,
  db: ControlDatabase,
  workspace: Workspace,
  { records, format }: { records: ExportedRecords; format: ExportFormat },
  by: Change,
): Promise<ExportFile> {
  // A new stub for each page: one that has failed stays broken.
  const read = (cursor: string | null) =>
    within(PAGE_TIMEOUT_MS, signalStore(env, workspace.id).exportPage({ records, format, cursor }));
  const first = await read(null);
  await writeAuditEntry(db, by, {
    workspaceId: workspace.id,
    action: "data.exported",
    target: workspace.id,
    detail: { records, format },
  });
  let page = first;
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        // A stream is not pulled again after a pull that gave nothing: empty pages are passed over here.
        // oxlint-disable-next-line no-await-in-loop -- each page names the next
        while (page.text === "" && page.next !== null) page = await read(page.next);
        if (page.text !== "") controller.enqueue(encoder.encode(withoutKeys(page.text)));
        if (page.next === null) controller.close();
        else page = await read(page.next);
      },
    },
    { highWaterMark: 0 },
  );
  return { name: fileName(workspace, records, format, by.nowMs), contentType: EXPORT_CONTENT_TYPES[format], body };
}

/** The file's name, such as `acme-signals-20261101T093000Z.csv`. */
function fileName({ slug }: Workspace, records: ExportedRecords, format: ExportFormat, nowMs: number): string {
  const at = new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, "");
  return `${slug}-${records.replace("_", "-")}-${at}.${format}`;
}
