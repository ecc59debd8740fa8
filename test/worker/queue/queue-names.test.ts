/** Kinds of queues in environments with different queue names. */
import { createExecutionContext, createMessageBatch, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import worker from "../../../src/index.ts";
import { consumeMessages, messageOf } from "../../support/deliver.ts";
import { newWorkspace } from "../../support/workspace.ts";

describe("recognizes the queues of each environment by their name:", () => {
  test.each(["deliveries", "deliveries-staging", "staging-deliveries"])("deliveries in %s", async (queue) => {
    const asked: string[] = [];
    const getByName = () => ({ take: async ({ id }: { id: string }) => (asked.push(id), null) });
    const delivery = JSON.stringify({ workspaceId: "ws_1", destinationId: "dst_1", id: "dlv_1", attempt: 1 });
    const batch = createMessageBatch<string>(queue, [{ id: "0", timestamp: new Date(), attempts: 1, body: delivery }]);
    const context = createExecutionContext();
    await worker.queue(batch, { ...env, DESTINATIONS: { getByName } } as object as Env, context);
    await waitOnExecutionContext(context);
    expect(asked).toEqual(["dlv_1"]);
  });

  test.each([
    ["signals", "signals", { processed: 1, deadLettered: 0 }],
    ["signals", "signals-staging", { processed: 1, deadLettered: 0 }],
    ["dead letters", "signals-dlq", { processed: 0, deadLettered: 1 }],
    ["dead letters", "signals-staging-dlq", { processed: 0, deadLettered: 1 }],
    ["dead letters", "signals-dlq-staging", { processed: 0, deadLettered: 1 }],
  ])("%s in %s", async (_, queue, totals) => {
    const workspace = await newWorkspace();
    const signal = { id: "sig_1", payload: { email: "a@example.com", event: "Visit" } };
    await consumeMessages([messageOf(workspace.id, [signal])], { queue, attempts: queue === "signals" ? 1 : 2 });
    expect(await workspace.store.totals()).toMatchObject(totals);
  });
});
