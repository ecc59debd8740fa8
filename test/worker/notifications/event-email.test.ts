/** Notifications by email, if the deployment has the platform's binding. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import type { AttemptResult } from "../../../src/domain/events/attempts.ts";
import { deliver } from "../../../src/notifications/delivery-consumer.ts";
import type { Parcel } from "../../../src/notifications/destination-calls.ts";
import { exampleEvent, type EventType } from "../../../src/domain/events/workspace-event.ts";
import {
  createDestination,
  offeredTypes,
  type DestinationsContext,
} from "../../../src/workspace/manage-destinations.ts";
import type { EmailBinding } from "../../../src/env.ts";
import { newWorkspace } from "../../support/workspace.ts";

const PARCEL: Parcel = {
  destinationId: "dst_1",
  type: "email",
  target: "ops@example.com",
  secrets: [],
  headers: [],
  pagesUrl: "https://signals.example/w/demo",
  event: exampleEvent("key.expiring"),
};

function withEmail(send: EmailBinding["send"]): Env & { EMAIL: EmailBinding } {
  return { ...env, EMAIL_FROM: "signals@example.com", EMAIL: { send } };
}

/** The result that the consumer reports for the parcel. */
async function sent(bound: Env): Promise<AttemptResult | undefined> {
  const report = vi.fn<(due: object, result: AttemptResult) => Promise<void>>().mockResolvedValue();
  const destinations = { getByName: () => ({ take: () => Promise.resolve(PARCEL), report }) };
  const body = JSON.stringify({ workspaceId: "ws_1", destinationId: PARCEL.destinationId, id: "dlv_1", attempt: 1 });
  const ctx = createExecutionContext();
  const batch = { messages: [{ body }] } as unknown as MessageBatch<string>;
  deliver(batch, { ...bound, DESTINATIONS: destinations as unknown as Env["DESTINATIONS"] }, ctx);
  await waitOnExecutionContext(ctx);
  return report.mock.lastCall?.[1];
}

describe("email, with a binding and a sender", () => {
  test("can be chosen, and an invalid address is refused", async () => {
    const bound = withEmail(vi.fn<EmailBinding["send"]>());
    const workspace = (await newWorkspace()).context({ env: bound });
    const call: DestinationsContext = { ...workspace, slug: "demo", origin: "https://signals.example" };
    const events: EventType[] = ["usage.level"];
    const wanted = { name: "Ops", type: "email" as const, target: "ops@example.com", headers: [], events };
    expect(offeredTypes(bound)).toEqual(["webhook", "slack", "email"]);
    const made = await createDestination(call, wanted);
    expect(made).toMatchObject({ ok: true, value: { secret: null, destination: { maskedTarget: "ops@example.com" } } });
    for (const target of ["nobody", "a@b.example\r\nBcc: all@example.com", "https://example.com"]) {
      const refused = await createDestination(call, { ...wanted, target });
      expect(refused, target).toMatchObject({ ok: false, refusal: "not_an_email" });
    }
    const headers = [{ name: "X-Api-Key", value: "k" }];
    const refused = await createDestination(call, { ...wanted, headers });
    expect(refused).toEqual({ ok: false, refusal: "headers_of_webhooks_only" });
  });

  test("contains a sentence and a link, with an id derived from the notification", async () => {
    const send = vi.fn<EmailBinding["send"]>().mockResolvedValue(undefined);
    expect(await sent(withEmail(send))).toMatchObject({ status: null, error: null });
    expect(send.mock.lastCall?.[0]).toEqual({
      from: "signals@example.com",
      to: "ops@example.com",
      subject: expect.stringContaining("“Website” expires in 7 days or less"),
      text: expect.stringMatching(/\n\nhttps:\/\/signals\.example\/w\/demo\/settings\/api-keys\/key_[\w-]+\n$/),
      headers: { "X-Event-Id": PARCEL.event.id },
    });
  });

  test("fails with only the error code if the platform refuses it", async () => {
    const send = vi
      .fn<SendEmail["send"]>()
      .mockRejectedValue(Object.assign(new Error("ops@example.com"), { code: "E_SUPPRESSED" }));
    expect((await sent(withEmail(send)))?.error).toBe("The platform refused the email: E_SUPPRESSED.");
  });
});

test("email cannot be chosen without the binding and a sender, and existing email destinations say so", async () => {
  expect(offeredTypes(env)).toEqual(["webhook", "slack"]);
  expect((await sent(env))?.error).toMatch(/sends no email/);
});
