/** Design §6, §7: calls of edge and control plane to the Quota Counter, with retries where they can help. */
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import type { AdmitCall } from "../../../src/quota/protocol.ts";
import { expectLogged } from "../../support/logged.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

/** The real bindings, except these calls of a workspace's counter. */
function withCounter({ counter }: TestWorkspace, calls: Record<string, (...given: never[]) => unknown>): Env {
  const getByName = () =>
    new Proxy(counter, {
      get: (target, name) => calls[String(name)] ?? (Reflect.get(target, name) as unknown),
    });
  return { ...env, QUOTA_COUNTER: { getByName } } as unknown as Env;
}

const BULK = "/api/signal-staging/bulk/{key}";

describe("a failing call of the counter", () => {
  test.each([
    { fault: { retryable: true }, calls: 3, status: 202 },
    { fault: { retryable: true, overloaded: true }, calls: 1, status: 503 },
    { fault: {}, calls: 1, status: 503 },
  ])("with $fault is made $calls times: $status", async ({ fault, calls, status }) => {
    expectLogged("admit_failed");
    const workspace = await newWorkspace();
    let made = 0;
    const admit = async (call: AdmitCall) => {
      if (++made < 3) throw Object.assign(new Error("lost"), fault);
      return workspace.counter.admit(call);
    };
    const answer = await workspace.send([{ event: "x" }], { path: BULK, bindings: withCounter(workspace, { admit }) });
    await answer.body?.cancel();
    expect([made, answer.status]).toEqual([calls, status]);
  });
});

test("lists the invalid signals of a body once", async () => {
  const workspace = await newWorkspace();
  const signals = Array.from({ length: 40 }, (_, n) => ({ event: n % 10 === 3 ? "" : "x" }));
  const answer = await workspace.send(signals, { path: BULK });
  await answer.body?.cancel();
  expect(answer.status).toBe(202);
  const { items } = await workspace.operator<{ items: unknown[] }>("GET", "/rejections");
  expect(items).toMatchObject([{ code: "event_missing", calls: 1, signals: 4 }]);
  expect(await workspace.books()).toMatchObject({ accepted: 36 });
});
