/** Jobs that send held signals and dead letters through the queue again. */
import { expect, test, vi } from "vitest";
import { beginResend, deadSignals, resendProgress, stepResends } from "../../../src/store/resend-jobs.ts";
import { replaceReason } from "../../../src/store/state/dead-letters.ts";
import type { DeadLetterRow } from "../../../src/store/schema.ts";
import { inStore } from "../../support/store.ts";

test("a job that only waits for the audit log delays no other job", async () => {
  await inStore(async ({ state, sql }) => {
    const counter = { replay: vi.fn(() => Promise.resolve({ sent: 0, through: 0, next: "end" })) };
    const away = vi.fn(() => {
      throw new Error("D1 is away");
    });
    const env = { QUOTA_COUNTER: { getByName: () => counter }, DB: { prepare: away, batch: away } } as unknown as Env;
    const step = () => stepResends(state, env, "ws_1", Date.now() + 1_000);
    beginResend(state, "aud_1", { kind: "replay", ids: null }, Date.now() - 2_000);
    await expect(step()).rejects.toThrow("D1 is away");
    expect(resendProgress(sql, "aud_1").isUnderWay).toBe(false);
    beginResend(state, "aud_2", { kind: "replay", ids: ["sig_1"] }, Date.now());
    await expect(step()).rejects.toThrow("D1 is away");
    expect(resendProgress(sql, "aud_2").isUnderWay).toBe(false);
  });
});

test("a replay of all dead letters includes those that are there when a later call joins it", () =>
  inStore((store) => {
    const dead = () => store.record(Date.now(), { payload: "{", dead: true });
    const replayAll = (auditId: string) => {
      const id = beginResend(store.state, auditId, { kind: "replay", ids: null }, Date.now());
      const job = store.sql.exec<{ cursor: number; last: number }>("SELECT * FROM resend_jobs WHERE id = ?", id).one();
      return deadSignals(store.state, job, 10).map(({ admission }) => admission.id);
    };
    const ids = dead();
    expect(replayAll("aud_1")).toEqual(ids);
    ids.push(...dead());
    expect(replayAll("aud_2")).toEqual(ids);
    expect(store.sql.exec("SELECT id FROM resend_jobs").toArray()).toEqual([{ id: "aud_1" }]);
  }));

test.each([
  { kind: "release", periodStartMs: 1, periodEndMs: 2, overages: false, most: null } as const,
  { kind: "replay", ids: null } as const,
])("a $kind goes on if another call joins it while the counter answers that it ends", (scope) =>
  inStore(async ({ state, sql }) => {
    beginResend(state, "aud_1", scope, Date.now());
    const send = vi.fn(() => {
      if (send.mock.calls.length === 1) beginResend(state, "aud_2", scope, Date.now());
      return Promise.resolve({ sent: 3, through: 9, next: "end" });
    });
    const env = { QUOTA_COUNTER: { getByName: () => ({ [scope.kind]: send }) } } as unknown as Env;
    await stepResends(state, env, "ws_1", Date.now() + 1_000).catch(() => undefined);
    expect(send).toHaveBeenCalledTimes(2);
    // Signals of the batch that had no room are read again.
    expect(send.mock.calls.map(([batch]: unknown[]) => batch)).toMatchObject([{ batch: 1 }, { batch: 2 }]);
    expect(sql.exec("SELECT id, joined, sent, ended_at IS NULL AS runs FROM resend_jobs").toArray()).toEqual([
      { id: "aud_1", joined: '["aud_2"]', sent: 3, runs: 0 },
    ]);
  }),
);

test("a replay that fails for another reason keeps the time of the dead letter, unless it is a misfit now", () =>
  inStore((store) => {
    const { state, sql } = store;
    store.record(1_000, { payload: "{", dead: true });
    const row = () => sql.exec<DeadLetterRow>("SELECT * FROM dead_letters").one();
    replaceReason(state, row(), { kind: "dead", reason: "Too many steps" }, 5_000);
    expect(row()).toMatchObject({ reason: "Too many steps", recorded_at: 1_000, misfit_bytes: null });
    replaceReason(state, row(), { kind: "dead", reason: "No template fits", isMisfit: true }, 9_000);
    expect(row()).toMatchObject({ reason: "No template fits", recorded_at: 9_000 });
    expect(row().misfit_bytes).toBeGreaterThan(0);
  }));
