/** Cold storage while other work happens at the same time. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, onTestFinished, test } from "vitest";
import { beginDeletion } from "../../../../src/store/deletion/person-deletions.ts";
import { COLD_AFTER_MS, moveToCold, scrubCold } from "../../../../src/store/log/cold.ts";
import { textOfBucket } from "../../../support/everything.ts";
import { bucketWith, coldState, ring } from "../../../support/cold.ts";
import { DAY, deliver } from "../../../support/deliver.ts";
import { TestStore } from "../../../support/store.ts";
import { rowsRead } from "../../../support/sql-cost.ts";
import { until } from "../../../support/until.ts";
import { newWorkspace } from "../../../support/workspace.ts";

const NOW = Date.UTC(2026, 5, 1, 12);

function inStore(act: (store: TestStore) => Promise<void>, bucket?: R2Bucket): Promise<void> {
  const workspaceId = crypto.randomUUID();
  return runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), (_, { storage }) =>
    act(new TestStore(workspaceId, storage, bucket)),
  );
}

const signalOf = (email: string) => ({ payload: { event: "E", email, text: `said by ${email}` } });

describe("a rewritten object of cold storage", () => {
  test("has nothing of a person who is deleted while another segment is being read", async () => {
    let reads = 0;
    let between = () => {};
    const bucket = bucketWith({ before: (name) => void (name === "get" && ++reads === 2 && between()) });
    await inStore(async (store) => {
      for (const email of ["ann@example.com", "bob@example.com", "cleo@example.com"]) {
        store.record(NOW, signalOf(email), signalOf("zoe@example.com"));
        store.seal();
      }
      const work = { storage: store.storage, log: store.state.signals, objects: store.objects };
      await moveToCold(work, NOW + COLD_AFTER_MS);
      beginDeletion(store.state, "del_1", "cleo@example.com", NOW + COLD_AFTER_MS);
      between = () => {
        between = () => {};
        beginDeletion(store.state, "del_2", "ann@example.com", NOW + COLD_AFTER_MS);
      };
      await store.workOnCold(NOW + COLD_AFTER_MS);
      const left = await textOfBucket(store.workspaceId);
      expect(left).toContain("said by bob");
      expect(left).not.toContain("said by cleo");
      expect(left).not.toContain("said by ann");
    }, bucket);
  });
});

test("removing a person from one object of cold storage reads no rows of the others", () =>
  inStore(async (store) => {
    const { sql } = store;
    for (let n = 0; n < 400; n++) {
      store.record(NOW, signalOf("zoe@example.com"));
      store.seal();
      sql.exec("INSERT INTO cold_objects VALUES (?, 'stored', ?, ?, ?)", `cold_${n}`, NOW, n + 1, n + 1);
      sql.exec("UPDATE signals_segments SET cold = ? WHERE first_seq = ?", `cold_${n}`, n + 1);
    }
    const rows = store.state.signals
      .rows("cold IS NOT NULL ORDER BY first_seq")
      .map(({ first_seq: firstSeq, cold: coldObject }) => ({ firstSeq, coldObject }));
    let objects = 0;
    expect(rowsRead(sql, () => void (objects = scrubCold(sql, rows)))).toBeLessThan(6_000);
    expect(objects).toBe(400);
    expect(scrubCold(sql, rows)).toBe(0);
  }));

test("an unreadable object of cold storage delays only removals from itself", async () => {
  let lost = "";
  const bucket = bucketWith({
    before: (name, key) => {
      if (name === "get" && String(key).endsWith(lost)) throw new Error("it is gone");
    },
  });
  const workspace = await newWorkspace();
  const send = (n: number, email: string) =>
    deliver(workspace.id, [{ id: `sig_${n}`, payload: signalOf(email).payload, at: Date.now() - 3 * DAY + n }]);
  await send(1, "ann@example.com");
  await ring(workspace.id);
  lost = (await coldState(workspace.id)).objects[0]?.key ?? "none";
  await send(2, "bob@example.com");
  await ring(workspace.id);
  await send(3, "cleo@example.com");
  // The platform may restart the object for an alarm at any moment, and must see this bucket too.
  const real = env.COLD;
  Object.assign(env, { COLD: bucket });
  onTestFinished(() => void Object.assign(env, { COLD: real }));
  await workspace.store.deletePerson("del_1", "ann@example.com");
  await workspace.store.deletePerson("del_2", "bob@example.com");
  // A platform alarm in progress when the object was evicted counts as abandoned a little later.
  await until(async () => {
    // Ends the rest of the failed chore.
    await evictDurableObject(workspace.store);
    await ring(workspace.id);
    const { objects, cold, warm } = await coldState(workspace.id);
    expect([warm, cold]).toEqual([[], [1, 2, 3]]);
    expect(objects.map(({ state }) => state)).toEqual(["stored", "stored", "stored"]);
    expect(await textOfBucket(workspace.id, real)).not.toContain("said by bob");
  });
  expect(await textOfBucket(workspace.id, real)).toContain("said by ann");
  expect((await workspace.store.deletion("ann@example.com"))?.finishedAtMs).toBeNull();
});
