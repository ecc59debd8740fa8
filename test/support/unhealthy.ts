/** Faults that the alarms of a workspace report. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { TestCounter } from "./counter.ts";
import { consumeMessages } from "./deliver.ts";
import { expectLogged } from "./logged.ts";
import type { TestWorkspace } from "./workspace.ts";

/** A signal that cannot be recorded. */
export async function leaveDeadLetter(workspace: TestWorkspace, email = "a@example.com"): Promise<void> {
  expectLogged("record_failed");
  await new TestCounter(workspace.id).sendTo((messages) =>
    consumeMessages(
      messages.map(({ body }) => body),
      { attempts: 2 },
    ),
  );
  await runInDurableObject(workspace.store, (_, { storage }) => {
    storage.sql.exec(
      "CREATE TRIGGER IF NOT EXISTS reject BEFORE INSERT ON people BEGIN SELECT raise(ABORT, 'broken'); END",
    );
  });
  await workspace.send({ event: "Visit", email });
  await workspace.settled();
}

/** An outbox row that the queue does not take. */
export async function leaveWaiting(workspace: TestWorkspace): Promise<void> {
  await runInDurableObject(workspace.counter, (instance) => {
    Object.assign(instance, { env: { ...env, SIGNALS: { sendBatch: () => Promise.reject(new Error("away")) } } });
  });
  expect((await workspace.send({ event: "Visit", email: "a@example.com" })).status).toBe(202);
}
