/** Point-in-time recovery of a workspace. */
import * as z from "zod";
import { acknowledgeRestore, listRestores } from "../control/restores.ts";
import { counted } from "../domain/text.ts";
import { recordId, time } from "../http/fields.ts";
import { recoverWorkspace, restoreWorkspace, type RestoreRefusal } from "../workspace/restore-workspace.ts";
import { count, idOf, isoInstant, conflict, contextOf, operationsOf, storeOf } from "./operation.ts";

const operation = operationsOf("Workspaces", "restore");

const RESTORES_LISTED = 50;

const force = z
  .boolean()
  .default(false)
  .describe("Restore although accepted signals wait to be recorded. They are lost.");
const restoreId = idOf("rst", "Of the restore.");
const body = z.union([
  z.strictObject({ at: time.describe("A time of the last thirty days."), force }),
  z.strictObject({ undo: recordId.describe("Id of the restore to undo."), force }),
]);

const recovered = z.object({
  lost: count
    .nullable()
    .describe("Accepted signals that this and earlier restores have lost. Null: there was no restore to finish."),
  deletions_repeated: count.describe("Deletions of people since that time that were started again."),
  revoked: count.describe("Deactivated keys that were active in the restored Quota Counter."),
  rule_versions_raised: z.boolean().describe("Whether mapping rules got later versions."),
});
const restored = z.object({ id: restoreId, ...recovered.shape });

const restore = z
  .object({
    id: restoreId,
    requested_at: isoInstant,
    to: isoInstant
      .nullable()
      .describe("The time that the workspace is restored to. Null: the restore undoes `undoes`."),
    undoes: z.string().nullable(),
    state: z
      .enum(["preparing", "restoring", "done", "refused"])
      .describe("`restoring`: it has begun and not finished. `refused`: nothing was changed."),
    lost: count.nullable(),
    acknowledged_at: isoInstant.nullable(),
  })
  .meta({ id: "Restore" });
const restoreList = z.object({ items: z.array(restore) });

export const restoreRoutes = [
  operation("POST", "/workspaces/:workspace_id/restore", {
    summary: "Roll back a workspace",
    description:
      "Restores counts, signals, people and notifications together to one time, with the platform's point-in-time " +
      "recovery. Signals accepted since then are lost, and the books show how many. Deletions of people are repeated. Senders " +
      "get 503 for some seconds. Repeat a failed call unchanged: it continues. The local runtime has no such recovery.",
    body,
    bodyExample: { at: "2026-11-22T03:00:00.000Z" },
    answers: { 200: "The workspace is restored." },
    schema: restored,
    conflicts: ["not_restorable", "signals_wait", "restore_unfinished"],
    async handle(c, { body: { force: isForced, ...wanted } }) {
      const target = "at" in wanted ? { atMs: Date.parse(wanted.at) } : wanted;
      const done = await restoreWorkspace(contextOf(c), target, isForced);
      if (done.ok) return { id: done.value.id, ...done.value.recovered };
      const { refusal } = done;
      return refusal.reason === "no_such_restore" ? null : conflict(c, refusal.reason, detailOf(refusal));
    },
  }),
  operation("POST", "/workspaces/:workspace_id/recover", {
    summary: "Finish a restore",
    description:
      "Call this after D1 was restored from a backup: deactivated keys stay deactivated, the plan takes effect again, and " +
      "mapping rules get versions that the Signal Store has not seen yet. It also finishes a restore of the workspace that " +
      "has restored all objects. A healthy workspace does not change.",
    answers: { 200: "What was done." },
    schema: recovered,
    handle: (c) => recoverWorkspace(contextOf(c)),
  }),
  operation("GET", "/workspaces/:workspace_id/restores", {
    summary: "List the restores of a workspace",
    scope: "read",
    answers: { 200: `The latest ${RESTORES_LISTED} restores.` },
    schema: restoreList,
    handle: async (c) => ({ items: await listRestores(c.var.db, c.var.workspace.id, RESTORES_LISTED) }),
  }),
  operation("POST", "/workspaces/:workspace_id/restores/:restore_id/acknowledge", {
    summary: "Acknowledge what a restore has lost",
    description:
      "Health no longer shows the loss; the books still do. Payloads in R2 that the restored workspace does not know are " +
      "deleted, so that the restore can no longer be undone completely.",
    answers: { 200: "The restore." },
    schema: restore,
    async handle(c) {
      const acknowledged = await acknowledgeRestore(contextOf(c), c.req.param("restore_id"));
      if (acknowledged?.state !== "done") return null;
      await storeOf(c).removeUnknownObjects();
      return acknowledged;
    },
  }),
];

function detailOf(refusal: Exclude<RestoreRefusal, { reason: "no_such_restore" }>): string {
  switch (refusal.reason) {
    case "not_restorable":
      return `The platform cannot restore to this time, and nothing was changed. It says: ${refusal.detail}`;
    case "signals_wait":
      return `${counted(refusal.signals, "accepted signal waits", "accepted signals wait")} to be recorded and would be lost. Send the call again later, or with \`force\`.`;
    case "restore_unfinished":
      return `The restore ${refusal.restore.id} to ${refusal.restore.to ?? `the moment before ${refusal.restore.undoes}`} has not finished. Send that call again first.`;
  }
}
