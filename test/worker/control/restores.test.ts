/** Restores of workspaces as D1 records them. */
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { controlDatabase } from "../../../src/control/database.ts";
import {
  acknowledgeRestore,
  beginRestoring,
  createRestore,
  endRestore,
  findRestore,
  openRestores,
} from "../../../src/control/restores.ts";
import { newWorkspace } from "../../support/workspace.ts";

const db = controlDatabase(env.DB);
const objects = { quota_counter: "a", signal_store: "b", destinations: "c" };
const BEFORE = { target: objects, undo: objects, highestRow: 0, accepted: {} };

async function newRestores() {
  const { id: workspaceId } = await newWorkspace({ key: null });
  let nowMs = Date.UTC(2031, 0, 1);
  const context = () => ({ db, workspaceId, by: { actor: "operator", nowMs: (nowMs += 60_000) } });
  return {
    workspaceId,
    create: () => createRestore(context(), { atMs: Date.UTC(2030, 11, 31) }),
    acknowledge: (id: string) => acknowledgeRestore(context(), id),
    open: async () => (await openRestores(db, [workspaceId])).get(workspaceId),
  };
}

test("an unfinished restore cannot be acknowledged, so that health goes on showing it", async () => {
  const { create, acknowledge, open } = await newRestores();
  const restore = await create();
  await beginRestoring(db, restore, BEFORE);
  expect(await acknowledge(restore.id)).toMatchObject({ state: "restoring", acknowledgedAt: null });
  expect(await open()).toMatchObject([{ id: restore.id, isFinished: false }]);
});

test("only the latest restore reports losses, because its number includes those of earlier restores", async () => {
  const { workspaceId, create, acknowledge, open } = await newRestores();
  const restoreLosing = async (lost: number) => {
    const restore = await create();
    await beginRestoring(db, restore, BEFORE);
    await endRestore(db, restore, lost, Date.UTC(2031, 0, 2));
    return restore;
  };
  const first = await restoreLosing(3);
  expect(await open()).toEqual([{ id: first.id, isFinished: true, lost: 3 }]);
  const acknowledged = await acknowledge(first.id);
  const second = await restoreLosing(5);
  expect(await open()).toEqual([{ id: second.id, isFinished: true, lost: 5 }]);
  await restoreLosing(0);
  expect(await open()).toBeUndefined();
  expect(await findRestore(db, workspaceId, first.id)).toEqual(acknowledged);
});

test("a restore that was interrupted while preparing is refused when the next one is requested", async () => {
  const { workspaceId, create } = await newRestores();
  const interrupted = await create();
  const next = await create();
  const stateOf = async (id: string) => (await findRestore(db, workspaceId, id))?.state;
  expect([await stateOf(interrupted.id), await stateOf(next.id)]).toEqual(["refused", "preparing"]);
});
