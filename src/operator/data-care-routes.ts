/** Deletion of a person with its receipt, and exports of a workspace's records. */
import type { Context } from "hono";
import * as z from "zod";
import { iso } from "../control/database.ts";
import { DELETION_REMEMBERED_DAYS } from "../limits.ts";
import { byOperator, operator, type OperatorEnv } from "./environment.ts";
import { notFound, operation } from "./operation.ts";
import { count, idOf, instant, isoOrNull } from "./schema-parts.ts";
import type { DeletionReceipt, ExportFormat, ExportedRecords } from "../store/protocol/store-operations.ts";
import { deletePerson } from "../workspace/delete-person.ts";
import { exportFile } from "../workspace/export-file.ts";
import { signalStore } from "../workspace/objects.ts";

const receiptAnswer = z
  .object({
    id: idOf("del", "Of the deletion; the audit log has it too."),
    email: z.string(),
    requested_at: instant,
    finished_at: instant.nullable(),
    complete: z.boolean().meta({ description: "False while it is under way, in cold storage too: the counts grow." }),
    people: count.meta({ description: "0 when nobody had this address." }),
    identities: count,
    signals: count.meta({ description: "Of the person, identify calls and linked signals included." }),
    anonymous: count.meta({ description: "Of the person's ids, not linked yet." }),
    held: count,
    dead_letters: count,
    scoring_signals: count,
    cold_objects: count.meta({ description: "Objects of cold storage that held a copy of one of these signals." }),
  })
  .meta({ id: "Deletion" });

const DELETED =
  "With everything that is linked to them: signals, held ones too, dead letters that name them, scoring signals, identities, what " +
  "their ids have sent anonymously, copies in cold storage. Of each signal, and of its duplicates, only the id, the name of its " +
  "event and its place in the books stay; of a duplicate also its source, where that names nobody. Signals that were received " +
  "before and are still on their way are deleted as they arrive; what is received later makes a new person. Account data is not " +
  "searched. Repeating it is harmless.";

export const deletionRoutes = operator
  .createApp()
  .delete(
    "/workspaces/:workspace_id/people/:person_email",
    operation({
      tag: "Data care",
      summary: "Delete a person",
      description: DELETED,
      answers: {
        200: { description: "The receipt; while `complete` is false, ask for it again.", schema: receiptAnswer },
      },
    }),
    async (c) => {
      const email = addressOf(c.req.param("person_email"));
      const receipt = await deletePerson(c.env, c.get("db"), c.get("workspace").id, email, byOperator());
      return c.json(receiptJson(receipt, email));
    },
  )
  .get(
    "/workspaces/:workspace_id/people/:person_email/deletion",
    operation({
      tag: "Data care",
      summary: "Get the receipt of a person's deletion",
      description: `The latest one, for ${DELETION_REMEMBERED_DAYS} days.`,
      answers: { 200: { description: "The receipt.", schema: receiptAnswer } },
    }),
    async (c) => {
      const email = addressOf(c.req.param("person_email"));
      const receipt = await signalStore(c.env, c.get("workspace").id).deletion(email);
      return receipt === null ? notFound(c, "deletion") : c.json(receiptJson(receipt, email));
    },
  );

/** An email as the store has it. */
function addressOf(text: string): string {
  return text.trim().toLowerCase();
}

function receiptJson(receipt: DeletionReceipt, email: string): z.infer<typeof receiptAnswer> {
  return {
    id: receipt.id,
    email,
    requested_at: iso(receipt.requestedAtMs),
    finished_at: isoOrNull(receipt.finishedAtMs),
    complete: receipt.finishedAtMs !== null,
    people: receipt.people,
    identities: receipt.identities,
    signals: receipt.signals,
    anonymous: receipt.anonymous,
    held: receipt.held,
    dead_letters: receipt.deadLetters,
    scoring_signals: receipt.scoringSignals,
    cold_objects: receipt.coldObjects,
  };
}

const exportQuery = z.strictObject({
  format: z.enum(["ndjson", "csv"]).default("ndjson").meta({
    description:
      "`ndjson`: one JSON object on each line. `csv`: RFC 4180 with a header; texts that begin with `=`, `+`, `-` or `@` get a `'` in front, so that no spreadsheet takes them for formulas.",
  }),
});

const STREAMED =
  "In the order of recording, as it stands when the call comes. A transfer that ends without its final chunk has broken off: ask again.";

const file = z.string();

function exportOf(records: string, description: string) {
  return operation({
    tag: "Data care",
    summary: `Export ${records}`,
    description: `${description} ${STREAMED}`,
    query: exportQuery,
    answers: { 200: { description: "The file.", content: { "application/x-ndjson": file, "text/csv": file } } },
  });
}

export const exportRoutes = operator
  .createApp()
  .get(
    "/workspaces/:workspace_id/export/signals",
    exportOf("signals", "Every stored signal; payloads in NDJSON exactly as they were sent."),
    (c) => answerFile(c, "signals", c.req.valid("query").format),
  )
  .get(
    "/workspaces/:workspace_id/export/people",
    exportOf("people", "Everybody with their score, and the ids that are linked to them."),
    (c) => answerFile(c, "people", c.req.valid("query").format),
  )
  .get(
    "/workspaces/:workspace_id/export/scoring-signals",
    exportOf("scoring signals", "What made the scores: whose, from which signal, by which version of which rule."),
    (c) => answerFile(c, "scoring_signals", c.req.valid("query").format),
  );

async function answerFile(c: Context<OperatorEnv>, records: ExportedRecords, format: ExportFormat): Promise<Response> {
  const asked = { records, format };
  const { name, contentType, body } = await exportFile(c.env, c.get("db"), c.get("workspace"), asked, byOperator());
  return c.body(body, 200, {
    "content-type": contentType,
    "content-disposition": `attachment; filename="${name}"`,
    "x-content-type-options": "nosniff",
  });
}
