/** Design §8: D1 remembers deletions longer than it can be restored, for the import of an older file. */
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { controlDatabase } from "../../../src/d1/database.ts";
import { recordDeletion } from "../../../src/d1/deletions.ts";
import { deletionsAfter } from "../../../src/d1/imports.ts";
import { newId } from "../../../src/platform/ids.ts";
import { newWorkspace } from "../../support/workspace.ts";

const DAY_MS = 86_400_000;

test("a deletion is remembered for 31 days, however many follow", async () => {
  const { id: workspaceId } = await newWorkspace({ key: null });
  const db = controlDatabase(env.DB);
  const START = Date.UTC(2031, 0, 1);
  const deleteOn = async (day: number) => {
    const by = { actor: "owner@example.com", nowMs: START + day * DAY_MS };
    const id = newId("del", by.nowMs);
    await recordDeletion({ db, workspaceId, by }, { id, email: `day-${day}@example.com` });
    return id;
  };
  const kept = async () => (await deletionsAfter(db, workspaceId, 0)).map(({ id }) => id);
  const first = await deleteOn(0);
  const second = await deleteOn(30);
  expect(await kept()).toEqual([first, second]);
  const third = await deleteOn(32);
  expect(await kept()).toEqual([second, third]);
});
