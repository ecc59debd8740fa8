/** An object that an operator puts back to how it was. The local runtime keeps no backups: what it would be asked is seen here. */
import { runInDurableObject } from "cloudflare:test";
import { expect, test, vi } from "vitest";
import { call, newWorkspace } from "../../support/workspace.ts";
import type { TestWorkspace } from "../../support/workspace.ts";
import { env } from "cloudflare:workers";

const AT = "2026-11-22T03:00:00.000Z";

/** A platform that has backups of this object, and what it was asked for. */
async function withBackups(object: TestWorkspace["counter"] | TestWorkspace["store"]): Promise<unknown[]> {
  const asked: unknown[] = [];
  await runInDurableObject(object, (_, { storage }) => {
    vi.spyOn(storage, "getBookmarkForTime").mockImplementation(async (at) => `bookmark of ${Number(at)}`);
    vi.spyOn(storage, "onNextSessionRestoreBookmark").mockImplementation(async (bookmark) => {
      asked.push(bookmark);
      return "bookmark of now";
    });
    Object.assign(storage, { isFromBefore: true });
  });
  return asked;
}

async function isNew(object: TestWorkspace["counter"] | TestWorkspace["store"]): Promise<boolean> {
  return runInDurableObject(object, (_, { storage }) => !("isFromBefore" in storage));
}

test.each([
  ["quota_counter", (workspace: TestWorkspace) => workspace.counter],
  ["signal_store", (workspace: TestWorkspace) => workspace.store],
] as const)("%s starts anew as it was at a moment, or by the bookmark that undoes that", async (name, objectOf) => {
  const workspace = await newWorkspace();
  for (const [body, bookmark] of [
    [{ at: AT }, `bookmark of ${Date.parse(AT)}`],
    [{ bookmark: "bookmark of now" }, "bookmark of now"],
  ] as const) {
    const asked = await withBackups(objectOf(workspace));
    const restored = await workspace.operator("POST", "/restore", { object: name, ...body });
    expect([restored, asked]).toEqual([{ undo: "bookmark of now" }, [bookmark]]);
    expect(await isNew(objectOf(workspace))).toBe(true);
  }
  const { results } = await env.DB.prepare(
    "SELECT target, detail FROM audit_log WHERE workspace_id = ? AND action = 'workspace.restored' ORDER BY id",
  )
    .bind(workspace.id)
    .all();
  expect(results).toEqual([
    { target: name, detail: JSON.stringify({ atMs: Date.parse(AT), undo: "bookmark of now" }) },
    { target: name, detail: JSON.stringify({ bookmark: "bookmark of now", undo: "bookmark of now" }) },
  ]);
});

test("where the platform has no backup of an object, the answer says why, and the object goes on as it is", async () => {
  const workspace = await newWorkspace();
  await workspace.send({ event: "Visit", email: "a@example.com" });
  const answer = await call(`/operator/workspaces/${workspace.id}/restore`, {
    method: "POST",
    headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}` },
    body: JSON.stringify({ object: "signal_store", at: AT }),
  });
  expect(answer.status).toBe(409);
  expect(await answer.json()).toMatchObject({
    code: "not_restorable",
    detail: expect.stringContaining("does not implement point-in-time recovery"),
  });
  expect(await workspace.settled()).toMatchObject({ accepted: 1, processed: 1, balanced: true });
});
