/** Restores of a workspace as D1 records them. */
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { controlDatabase } from "../../../src/control/database.ts";
import { acknowledgeRestore, beginRestoring, createRestore, openRestores } from "../../../src/control/restores.ts";
import { newWorkspace } from "../../support/workspace.ts";

test("an unfinished restore cannot be acknowledged, so that health goes on showing it", async () => {
  const { id: workspaceId } = await newWorkspace({ key: null });
  const db = controlDatabase(env.DB);
  const context = { db, workspaceId, by: { actor: "operator", nowMs: Date.UTC(2031, 0, 1) } };
  const restore = await createRestore(context, { atMs: Date.UTC(2030, 11, 31) });
  const objects = { quota_counter: "a", signal_store: "b", destinations: "c" };
  const before = { target: objects, undo: objects, highestRow: 0, accepted: {} };
  await beginRestoring(db, restore, before);
  expect(await acknowledgeRestore(context, restore.id)).toMatchObject({ state: "restoring", acknowledgedAt: null });
  expect((await openRestores(db, [workspaceId])).get(workspaceId)).toMatchObject([
    { id: restore.id, isFinished: false },
  ]);
});
