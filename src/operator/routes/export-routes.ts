/** What a workspace holds, as files. */
import * as z from "zod";
import type { Context } from "hono";
import type { ExportedRecords, ExportFormat } from "../../store/protocol/data-care.ts";
import { exportFile } from "../../workspace/export-file.ts";
import { byOperator, operator, type OperatorEnv } from "../environment.ts";
import { operation } from "../operation.ts";

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
