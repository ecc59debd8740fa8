/** Notifications by email, if the deployment has the platform's binding. */
import { createExecutionContext, runInDurableObject, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import type { AttemptResult } from "../../../src/domain/notifications/attempts.ts";
import { deliver } from "../../../src/notifications/delivery-consumer.ts";
import type { Parcel } from "../../../src/notifications/destination-calls.ts";
import {
  exampleNotification,
  type NotificationOf,
  type NotificationType,
} from "../../../src/domain/notifications/notification.ts";
import { requestBody } from "../../../src/domain/notifications/request-body.ts";
import {
  confirmDestination,
  createDestination,
  deliverAgain,
  findDelivery,
  offeredTypes,
  pauseDestination,
  resumeDestination,
  sendTest,
  updateDestination,
  type DestinationsContext,
} from "../../../src/use-cases/manage-destinations.ts";
import type { EmailBinding } from "../../../src/env.ts";
import { stopClock } from "../../support/clock.ts";
import { newWorkspace } from "../../support/workspace.ts";

const PARCEL: Parcel = {
  destinationId: "dst_1",
  type: "email",
  target: "ops@example.com",
  secrets: [],
  headers: [],
  pagesUrl: "https://signals.example/w/demo",
  notification: exampleNotification("key.expiring"),
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
  test("can be chosen, and an invalid address is rejected", async () => {
    const bound = withEmail(vi.fn<EmailBinding["send"]>());
    const workspace = (await newWorkspace()).context({ env: bound });
    const call: DestinationsContext = { ...workspace, slug: "demo", origin: "https://signals.example" };
    const notifications: NotificationType[] = ["usage.level"];
    const wanted = { name: "Ops", type: "email" as const, target: "ops@example.com", headers: [], notifications };
    expect(offeredTypes(bound)).toEqual(["webhook", "slack", "email"]);
    const made = await createDestination(call, wanted);
    expect(made).toMatchObject({ ok: true, value: { secret: null, destination: { maskedTarget: "ops@example.com" } } });
    for (const target of ["nobody", "a@b.example\r\nBcc: all@example.com", "https://example.com"]) {
      const rejected = await createDestination(call, { ...wanted, target });
      expect(rejected, target).toMatchObject({ ok: false, rejection: "not_an_email" });
    }
    const headers = [{ name: "X-Api-Key", value: "k" }];
    const rejected = await createDestination(call, { ...wanted, headers });
    expect(rejected).toEqual({ ok: false, rejection: "headers_of_webhooks_only" });
  });

  test("contains a sentence and a link, with an id derived from the notification", async () => {
    const send = vi.fn<EmailBinding["send"]>().mockResolvedValue(undefined);
    expect(await sent(withEmail(send))).toMatchObject({ status: null, error: null });
    expect(send.mock.lastCall?.[0]).toEqual({
      from: "signals@example.com",
      to: "ops@example.com",
      subject: expect.stringContaining("“Website” expires in 7 days or less"),
      text: expect.stringMatching(/\n\nhttps:\/\/signals\.example\/w\/demo\/settings\/api-keys\/key_[\w-]+\n$/),
      headers: { "X-Notification-Id": PARCEL.notification.id },
    });
  });

  test("fails with only the error code if the platform rejects it", async () => {
    const send = vi
      .fn<SendEmail["send"]>()
      .mockRejectedValue(Object.assign(new Error("ops@example.com"), { code: "E_SUPPRESSED" }));
    expect((await sent(withEmail(send)))?.error).toBe("The platform rejected the email: E_SUPPRESSED.");
  });
});

test("email cannot be chosen without the binding and a sender, and existing email destinations say so", async () => {
  expect(offeredTypes(env)).toEqual(["webhook", "slack"]);
  expect((await sent(env))?.error).toMatch(/sends no email/);
});

describe("a new email address gets a code, and nothing else until the code is entered", () => {
  async function newEmail(target = "ops@example.com") {
    const bound = withEmail(vi.fn<EmailBinding["send"]>().mockResolvedValue(undefined));
    const workspace = await newWorkspace({ key: null });
    const object = env.DESTINATIONS.getByName(workspace.id);
    const context: DestinationsContext = {
      ...workspace.context({ env: { ...bound, DELIVERIES: { sendBatch: () => Promise.resolve() } as never } }),
      slug: "demo",
      origin: "https://signals.example",
    };
    await runInDurableObject(object, (instance) => {
      Object.assign(instance, { env: { ...env, DELIVERIES: { sendBatch: () => Promise.resolve() } } });
    });
    const notifications: NotificationType[] = ["usage.level"];
    const wanted = { name: "BUY NOW", type: "email" as const, target, headers: [], notifications };
    const made = await createDestination(context, wanted);
    if (!made.ok) throw new Error(made.rejection);
    const { id } = made.value.destination;
    /** What the queue's consumer would send now, by the text of each message. */
    const mails = async (): Promise<string[]> => {
      const { items } = (await object.listDeliveries(id, { cursor: null, limit: 50 })) ?? { items: [] };
      const parcels = await Promise.all(
        items.map((delivery) => object.take({ destinationId: id, id: delivery.id, attempt: 1 })),
      );
      return parcels.flatMap((parcel) => (parcel === null ? [] : [requestBody(parcel, workspace.id)]));
    };
    const level = () =>
      object.raise([
        { ...(exampleNotification("usage.level") as NotificationOf<"usage.level">), id: `ntf_${crypto.randomUUID()}` },
      ]);
    return { workspace, object, context, wanted, id, mails, level };
  }
  const codeOf = (mail = "") => /code for notifications is (\d{8})\./.exec(mail)?.[1] ?? "";

  test("which is in no answer; then it gets notifications", async () => {
    const { object, context, id, mails, level, workspace } = await newEmail();
    expect(await object.find(id)).toMatchObject({ state: "active", confirmed: false });
    await level();
    const [mail, ...more] = await mails();
    expect(more).toEqual([]);
    expect(mail).not.toContain("BUY NOW");
    const code = codeOf(mail);
    expect(code).toHaveLength(8);
    const { items } = (await object.listDeliveries(id, { cursor: null, limit: 9 })) ?? { items: [] };
    const shown = await findDelivery(context.env, workspace.id, id, items[0]?.id ?? "");
    expect(JSON.stringify([items, shown, await object.find(id)])).not.toContain(code);
    for (const change of [pauseDestination, resumeDestination]) await change(context, id);
    await level();
    expect(await mails()).toEqual([]);
    expect(await deliverAgain(context, id, items[0]?.id ?? "")).toMatchObject({ rejection: "destination_not_active" });

    expect(await confirmDestination(context, id, "0")).toMatchObject({ ok: false, rejection: "code_wrong" });
    expect(await confirmDestination(context, id, code)).toMatchObject({ ok: true, value: { confirmed: true } });
    expect(await confirmDestination(context, id, "again")).toMatchObject({ ok: true, value: { confirmed: true } });
    await level();
    expect(await mails()).toEqual([expect.stringContaining("/usage")]);
    expect(await workspace.audit("destination.confirmed")).toMatchObject([{ target: id }]);
    // A changed address confirms again.
    await updateDestination(context, id, { target: " cto@example.com " });
    const changed = { confirmed: false, maskedTarget: "cto@example.com" };
    expect(await object.find(id)).toMatchObject(changed);
    expect(await workspace.audit("destination.updated")).toMatchObject([{ detail: { target_changed: true } }]);
  });

  test("that works for 24 hours and five tries; a test sends a new one", async () => {
    const { context, id, mails } = await newEmail();
    stopClock(Date.now());
    const first = codeOf((await mails())[0]);
    for (let tries = 0; tries < 5; tries++) {
      expect(await confirmDestination(context, id, "x")).toMatchObject({ rejection: "code_wrong" });
    }
    expect(await confirmDestination(context, id, first)).toMatchObject({ rejection: "code_wrong" });
    await sendTest(context, id);
    const second = codeOf((await mails())[0]);
    vi.setSystemTime(Date.now() + 24 * 3_600_000);
    expect(await confirmDestination(context, id, second)).toMatchObject({ rejection: "code_wrong" });
    await sendTest(context, id);
    expect(await confirmDestination(context, id, codeOf((await mails())[0]))).toMatchObject({ ok: true });
  });

  test("of which a workspace sends ten in 24 hours, to all addresses together", async () => {
    const { context, id, wanted } = await newEmail();
    for (let sentCodes = 1; sentCodes < 10; sentCodes++)
      expect(await sendTest(context, id)).toMatchObject({ ok: true });
    expect(await sendTest(context, id)).toMatchObject({ rejection: "too_many_codes" });
    expect(await createDestination(context, wanted)).toMatchObject({ rejection: "too_many_codes" });
    expect(await updateDestination(context, id, { target: "b@example.com" })).toMatchObject({
      rejection: "too_many_codes",
    });
    stopClock(Date.now() + 24 * 3_600_000);
    expect(await sendTest(context, id)).toMatchObject({ ok: true });
  });
});
