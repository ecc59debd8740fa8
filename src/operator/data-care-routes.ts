/** Deletion of a person with its receipt, and exports of a workspace's records. */
import type { Context } from "hono";
import * as z from "zod";
import { emailAsStored } from "../domain/signal/identity.ts";
import { DELETION_REMEMBERED_DAYS } from "../limits.ts";
import type { DeletionReceipt, ExportRange } from "../store/protocol/store-operations.ts";
import { deletePerson } from "../use-cases/delete-person.ts";
import { DOWNLOADS } from "../http/workspace-share.ts";
import { exportFile } from "../use-cases/export-file.ts";
import { count, idOf, instant, contextOf, operationsOf, storeOf, tooMany, type OperatorEnv } from "./operation.ts";

const operation = operationsOf("Data care", "deletion");

const DOWNLOAD_WAIT_MS = 10_000;
const TOO_MANY_DOWNLOADS = `A workspace may have ${DOWNLOADS.each} downloads under way. Finish or end one, then send again after Retry-After seconds.`;

const deletion = z
  .object({
    id: idOf("del", "Of the deletion. The audit log names it too."),
    email: z.string(),
    requested_at: instant,
    finished_at: instant.nullable(),
    complete: z.boolean().describe("False while the deletion runs, also in cold storage. The counts grow."),
    people: count.describe("0: no person had this address."),
    identities: count,
    signals: count.describe("Signals of the person, including identify calls and linked signals."),
    anonymous: count.describe("Signals of the person's ids that were not linked yet."),
    held: count,
    dead_letters: count,
    scoring_signals: count,
    cold_objects: count.describe("Objects of cold storage that held a copy of a deleted signal."),
  })
  .meta({ id: "Deletion" });

const DELETED =
  "Deletes the person with all linked data: signals, held signals, dead letters that name the person, scoring signals, " +
  "identities, anonymous signals of their ids, copies in cold storage. Of each signal and its duplicates, only the id, the " +
  "event name and the place in the books remain, and the source of a duplicate if it identifies no person. Signals that were received " +
  "before and are still on their way are deleted when they arrive. Signals that are received later create a new person. " +
  "Account data is not searched. A repeated call is harmless.";

export const deletionRoutes = [
  operation("DELETE", "/workspaces/:workspace_id/people/:person_email", {
    summary: "Delete a person",
    scope: "delete",
    description: DELETED,
    answers: { 200: "The receipt. While `complete` is false, get it again." },
    schema: deletion,
    async handle(c) {
      const email = emailAsStored(c.req.param("person_email"));
      return withEmail(await deletePerson(contextOf(c), email), email);
    },
  }),
  operation("GET", "/workspaces/:workspace_id/people/:person_email/deletion", {
    summary: "Get the receipt of a person's deletion",
    scope: "delete",
    description: `The latest receipt, for ${DELETION_REMEMBERED_DAYS} days.`,
    answers: { 200: "The receipt." },
    schema: deletion,
    async handle(c) {
      const email = emailAsStored(c.req.param("person_email"));
      const receipt = await storeOf(c).deletion(email);
      return receipt && withEmail(receipt, email);
    },
  }),
];

function withEmail(receipt: DeletionReceipt, email: string) {
  return { ...receipt, email, complete: receipt.finishedAtMs !== null };
}

const exportQuery = z.strictObject({
  format: z
    .enum(["ndjson", "csv"])
    .default("ndjson")
    .describe(
      "`ndjson`: one JSON object per line. `csv`: RFC 4180 with a header. Texts that begin with `=`, `+`, `-` or `@` get a leading `'`, so that no spreadsheet reads them as formulas.",
    ),
});

const STREAMED =
  "In the order of recording, as of the time of the call. A transfer that ends without its final chunk is incomplete: repeat the call.";

export const exportRoutes = [
  operation("GET", "/workspaces/:workspace_id/export/signals", {
    summary: "Export signals",
    scope: "export",
    ...exportOf("signals", "Every stored signal. In NDJSON, payloads are exactly as they were sent."),
  }),
  operation("GET", "/workspaces/:workspace_id/export/people", {
    summary: "Export people",
    scope: "export",
    ...exportOf("people", "All people with their scores and linked ids."),
  }),
  operation("GET", "/workspaces/:workspace_id/export/scoring-signals", {
    summary: "Export scoring signals",
    scope: "export",
    ...exportOf("scoring_signals", "Every scoring signal: its person, signal, rule and version of the rule."),
  }),
];

function exportOf(records: ExportRange["records"], description: string) {
  return {
    description: `${description} ${STREAMED}`,
    query: exportQuery,
    answers: { 200: "The file." },
    content: { "application/x-ndjson": z.string(), "text/csv": z.string() },
    async handle(c: Context<OperatorEnv>, { query }: { query: z.output<typeof exportQuery> }) {
      const file = await exportFile(contextOf(c), c.var.workspace.slug, { records, ...query });
      if (file === null) return tooMany(c, DOWNLOAD_WAIT_MS, TOO_MANY_DOWNLOADS);
      const { name, contentType, body } = file;
      return c.body(body, 200, {
        "content-type": contentType,
        "content-disposition": `attachment; filename="${name}"`,
        "x-content-type-options": "nosniff",
      });
    },
  };
}
