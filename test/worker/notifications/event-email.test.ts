/** Notifications by email, if the deployment has the platform's binding. */
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { controlDatabase } from "../../../src/control/database.ts";
import { sendEmail } from "../../../src/notifications/post.ts";
import type { Parcel } from "../../../src/notifications/destination-calls.ts";
import { exampleEvent } from "../../../src/domain/events/workspace-event.ts";
import { createDestination, offeredTypes, type DestinationsCall } from "../../../src/workspace/manage-destinations.ts";
import type { EmailBinding } from "../../../src/env.ts";
import { newWorkspace } from "../../support/workspace.ts";

const PARCEL: Parcel = {
  destinationId: "dst_1",
  type: "email",
  target: "ops@example.com",
  secrets: [],
  pagesUrl: "https://signals.example/w/demo",
  event: exampleEvent("key.expiring"),
};

function withEmail(send: EmailBinding["send"]): Env & { EMAIL: EmailBinding } {
  return { ...env, EMAIL_FROM: "signals@example.com", EMAIL: { send } };
}

describe("email, with a binding and a sender", () => {
  test("can be chosen, and an invalid address is refused", async () => {
    const bound = withEmail(vi.fn<EmailBinding["send"]>());
    const { id } = await newWorkspace();
    const by = { actor: "jane@example.com", nowMs: Date.now() };
    const call: DestinationsCall = {
      env: bound,
      db: controlDatabase(env.DB),
      workspace: { id, slug: "demo" },
      origin: "https://signals.example",
      by,
    };
    const wanted = { name: "Ops", type: "email", target: "ops@example.com", events: ["usage.level"] } as const;
    expect(offeredTypes(bound)).toEqual(["webhook", "slack", "email"]);
    const made = await createDestination(call, { ...wanted, events: ["usage.level"] });
    expect(made).toMatchObject({ ok: true, value: { secret: null, destination: { maskedTarget: "ops@example.com" } } });
    for (const target of ["nobody", "a@b.example\r\nBcc: all@example.com", "https://example.com"]) {
      const refused = await createDestination(call, { ...wanted, events: ["usage.level"], target });
      expect(refused, target).toMatchObject({ ok: false, refusal: "not_an_email" });
    }
  });

  test("contains a sentence and a link, with an id derived from the notification", async () => {
    const send = vi.fn<EmailBinding["send"]>().mockResolvedValue(undefined);
    expect(await sendEmail(withEmail(send), PARCEL)).toMatchObject({ status: null, error: null });
    expect(send.mock.lastCall?.[0]).toEqual({
      from: "signals@example.com",
      to: "ops@example.com",
      subject: expect.stringContaining("“Website” ends in 7 days or less"),
      text: expect.stringMatching(/\n\nhttps:\/\/signals\.example\/w\/demo\/settings\/api-keys\/key_[\w-]+\n$/),
      headers: { "X-Event-Id": PARCEL.event.id },
    });
  });

  test("fails with only the error code if the platform refuses it", async () => {
    const send = vi
      .fn<SendEmail["send"]>()
      .mockRejectedValue(Object.assign(new Error("ops@example.com"), { code: "E_SUPPRESSED" }));
    const { error } = await sendEmail(withEmail(send), PARCEL);
    expect(error).toBe("The platform refused the email: E_SUPPRESSED.");
  });
});

test("email cannot be chosen without the binding and a sender, and existing email destinations say so", async () => {
  expect(offeredTypes(env)).toEqual(["webhook", "slack"]);
  expect((await sendEmail(env, PARCEL)).error).toMatch(/sends no email/);
});
