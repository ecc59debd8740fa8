/** Who is told what of a workspace, and how it is delivered. */
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { controlDatabase } from "../../src/control/database.ts";
import type { EventOf } from "../../src/domain/events/workspace-event.ts";
import { newId } from "../../src/platform/ids.ts";
import {
  createDestination,
  findDelivery,
  listDeliveries,
  type DestinationsCall,
} from "../../src/workspace/destinations.ts";
import { Receiver, listen } from "./receiver.ts";
import { newWorkspace, type TestWorkspace } from "./workspace.ts";

function callFor({ id }: TestWorkspace): DestinationsCall {
  const by = { actor: "jane@example.com", nowMs: Date.now() };
  const workspace = { id, slug: "demo" };
  return { env, db: controlDatabase(env.DB), workspace, origin: "https://signals.example", by };
}

function crossed(email = "jane@example.com"): EventOf<"person.score_crossed"> {
  const data = { email, threshold: 50, score: 52, score_before: 40, signal_id: newId("sig") };
  return { id: newId("evt"), type: "person.score_crossed", time: Date.now(), data };
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe("a webhook", () => {
  test("is sent each event that it wants once, signed so that the library verifies it", async () => {
    const workspace = await newWorkspace();
    const receiver = new Receiver();
    listen(receiver);
    const call = callFor(workspace);
    const wanted = { name: "CRM", type: "webhook", target: receiver.url, events: ["person.score_crossed"] } as const;
    const made = await createDestination(call, { ...wanted, events: [...wanted.events] });
    if (!made.ok) throw new Error(JSON.stringify(made.refusal));
    const event = crossed();
    const object = env.DESTINATIONS.getByName(workspace.id);
    await object.raise([event]);
    await object.raise([event]);
    await vi.waitFor(() => expect(receiver.received).toHaveLength(1));
    expect(receiver.verify(made.value.secret ?? "")).toEqual({
      id: event.id,
      type: "person.score_crossed",
      time: new Date(event.time).toISOString(),
      workspace: workspace.id,
      data: event.data,
    });
    await vi.waitFor(async () => {
      const page = await listDeliveries(env, workspace.id, made.value.destination.id, { cursor: null, limit: 10 });
      expect(page?.items).toMatchObject([{ state: "delivered", eventId: event.id }]);
      const [item] = page?.items ?? [];
      expect(await findDelivery(env, workspace.id, made.value.destination.id, item?.id ?? "")).toMatchObject({
        body: receiver.received[0]?.text,
        delivery: { attempts: [{ status: 200, error: null, answer: "thanks" }] },
      });
    });
  });
});
