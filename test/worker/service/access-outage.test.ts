/** An outage of Cloudflare Access: only the pages fail (docs/operate.md). */
import { createExecutionContext, createMessageBatch, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import worker from "../../../src/index.ts";
import { messageOf } from "../../support/deliver.ts";
import { expectLogged } from "../../support/logged.ts";
import { newWorkspace } from "../../support/workspace.ts";

const SIGNAL = { email: "a@example.com", event: "Visit" };
const behindAccess = { ...env, SIGN_IN: "access", ACCESS_AUD: "aud" } as Env;

/** What Access gives a request: nothing, or an identity that cannot be read. */
const OUTAGES = [{}, { access: { aud: "aud", getIdentity: () => Promise.reject(new Error("Access is down")) } }];

test.each(OUTAGES)(
  "while Access fails, pages are closed; senders, queues and the operator API work",
  async (outage) => {
    expectLogged("error");
    const workspace = await newWorkspace();
    const call = async (path: string, init: RequestInit = {}) => {
      const context = Object.assign(createExecutionContext(), outage);
      const answer = await worker.fetch(new Request(`https://signals.example${path}`, init), behindAccess, context);
      await waitOnExecutionContext(context);
      return answer.status;
    };
    expect([401, 503]).toContain(await call("/w/acme"));
    const signal = { method: "POST", body: JSON.stringify(SIGNAL) };
    expect(await call(`/api/signal-staging/webhook/${workspace.key.key}`, signal)).toBe(202);
    const authorization = `Bearer ${env.OPERATOR_TOKEN}`;
    expect(await call(`/operator/workspaces/${workspace.id}/books`, { headers: { authorization } })).toBe(200);
    const body = messageOf(workspace.id, [{ id: "sig_1", payload: { ...SIGNAL, event: "Other" } }]);
    const batch = createMessageBatch("signals", [{ id: "0", timestamp: new Date(), attempts: 1, body }]);
    const before = (await workspace.store.totals()).processed;
    await worker.queue(batch, behindAccess, createExecutionContext());
    expect((await workspace.store.totals()).processed).toBeGreaterThan(before);
  },
);
