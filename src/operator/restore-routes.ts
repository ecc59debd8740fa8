/** Point-in-time recovery of a workspace. */
import * as z from "zod";
import { acknowledgeRestore, listRestores, type Restore } from "../control/restores.ts";
import { counted } from "../domain/text.ts";
import { byOperator, operator } from "./environment.ts";
import { conflict, notFound, operation } from "./operation.ts";
import { count, idOf, instant, time } from "./schema-parts.ts";
import { signalStore } from "../workspace/objects.ts";
import {
  recoverWorkspace,
  type Recovered,
  restoreWorkspace,
  type RestoreRefusal,
} from "../workspace/restore-workspace.ts";

/** Restores of a workspace that are listed: there are hardly ever several. */
const LISTED = 50;

const force = z
  .boolean()
  .default(false)
  .meta({ description: "Restore although accepted signals wait to be recorded, which are lost then." });
const restoreId = idOf("rst", "Of the restore.");
const body = z.union([
  z.strictObject({ at: time.meta({ description: "A moment of the last thirty days." }), force }),
  z.strictObject({ undo: z.string().meta({ description: "Id of the restore to undo." }), force }),
]);

const recoveredFields = {
  lost: count.nullable().meta({
    description:
      "Accepted signals that this restore and earlier ones have lost, as the books say; null: there was no restore to finish.",
  }),
  deletions_repeated: count.meta({ description: "Deletions of persons since that moment, which were begun again." }),
  revoked: count.meta({ description: "Deactivated keys that the Quota Counter took for active." }),
  rules_passed_over: z.boolean().meta({ description: "Whether mapping rules got later versions." }),
};

const restoreAnswer = z
  .object({
    id: restoreId,
    requested_at: instant,
    to: instant
      .nullable()
      .meta({ description: "The moment restored to; null: `undoes` says which restore is undone." }),
    undoes: z.string().nullable(),
    state: z.enum(["preparing", "restoring", "done", "refused"]).meta({
      description: "`restoring`: it has begun and not finished. `refused`: nothing was changed.",
    }),
    lost: count.nullable(),
    acknowledged_at: instant.nullable(),
  })
  .meta({ id: "Restore" });

export const restoringRoutes = operator
  .createApp()
  .post(
    "/workspaces/:workspace_id/restore",
    operation({
      tag: "Workspaces",
      summary: "Roll back a workspace",
      description:
        "By the platform's point-in-time recovery: counts, signals, people and notifications together, as they were at one moment. " +
        "Signals accepted since then are lost, and the books say how many; deletions of persons are repeated. Senders get 503 for " +
        "some seconds. A call that failed is sent again as it was, and finishes. The local runtime has no such recovery.",
      body,
      bodyExample: { at: "2026-11-22T03:00:00.000Z" },
      answers: {
        200: { description: "It is as it was.", schema: z.object({ id: restoreId, ...recoveredFields }) },
      },
      conflicts: ["not_restorable", "signals_wait", "restore_unfinished"],
    }),
    async (c) => {
      const { force: isForced, ...wanted } = c.req.valid("json");
      const target = "at" in wanted ? { atMs: Date.parse(wanted.at) } : wanted;
      const by = { ...byOperator(), force: isForced };
      const restored = await restoreWorkspace(c.env, c.get("db"), c.get("workspace").id, target, by);
      if (restored.ok) return c.json({ id: restored.value.id, ...recoveredJson(restored.value.recovered) });
      const { refusal } = restored;
      if (refusal.reason === "no_such_restore") return notFound(c, "restore");
      return conflict(c, CODES[refusal.reason], detailOf(refusal));
    },
  )
  .post(
    "/workspaces/:workspace_id/recover",
    operation({
      tag: "Workspaces",
      summary: "Finish a restore",
      description:
        "After D1 was restored from a backup: deactivated keys stay so, the plan takes effect again, and mapping rules get " +
        "versions that the Signal Store has not seen yet. Finishes a restore of the workspace too that has restored all its " +
        "objects. A healthy workspace stays as it is.",
      answers: { 200: { description: "What has been done.", schema: z.object(recoveredFields) } },
    }),
    async (c) => {
      const recovered = await recoverWorkspace(c.env, c.get("db"), c.get("workspace").id, byOperator());
      return c.json(recoveredJson(recovered));
    },
  )
  .get(
    "/workspaces/:workspace_id/restores",
    operation({
      tag: "Workspaces",
      summary: "List the restores of a workspace",
      answers: { 200: { description: `The latest ${LISTED}.`, schema: z.object({ items: z.array(restoreAnswer) }) } },
    }),
    async (c) => {
      const found = await listRestores(c.get("db"), c.get("workspace").id, LISTED);
      return c.json({ items: found.map(restoreJson) });
    },
  )
  .post(
    "/workspaces/:workspace_id/restores/:restore_id/acknowledge",
    operation({
      tag: "Workspaces",
      summary: "Acknowledge what a restore has lost",
      description:
        "Health no longer tells of it; the books still do. Payloads in R2 that the restored workspace does not know are deleted, " +
        "so that the restore can no longer be undone in full.",
      answers: { 200: { description: "The restore.", schema: restoreAnswer } },
    }),
    async (c) => {
      const { id } = c.get("workspace");
      const restore = await acknowledgeRestore(c.get("db"), id, c.req.param("restore_id"), byOperator());
      if (restore?.state !== "done") return notFound(c, "restore");
      await signalStore(c.env, id).removeUnknownObjects();
      return c.json(restoreJson(restore));
    },
  );

const CODES = {
  not_restorable: "not_restorable",
  signals_wait: "signals_wait",
  unfinished: "restore_unfinished",
} as const;

function detailOf(refusal: Exclude<RestoreRefusal, { reason: "no_such_restore" }>): string {
  switch (refusal.reason) {
    case "not_restorable":
      return `The platform cannot restore that moment, and nothing was changed. It says: ${refusal.detail}`;
    case "signals_wait":
      return `${counted(refusal.signals, "accepted signal waits", "accepted signals wait")} to be recorded and would be lost. Send the call again later, or with \`force\`.`;
    case "unfinished":
      return `The restore ${refusal.restore.id} to ${refusal.restore.to ?? `the moment before ${refusal.restore.undoes}`} has not finished. Send that call again first.`;
  }
}

function recoveredJson({ lost, deletionsRepeated, revoked, rulesPassedOver }: Recovered) {
  return { lost, deletions_repeated: deletionsRepeated, revoked, rules_passed_over: rulesPassedOver };
}

function restoreJson(restore: Restore): z.infer<typeof restoreAnswer> {
  const { id, requestedAt, to, undoes, state, lost, acknowledgedAt } = restore;
  return { id, requested_at: requestedAt, to, undoes, state, lost, acknowledged_at: acknowledgedAt };
}
