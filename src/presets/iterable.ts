import type { Preset } from "./preset.ts";

export const ITERABLE: Preset = {
  id: "iterable",
  name: "Iterable",
  template: [
    { target: "event", path: "eventName" },
    { target: "email", paths: ["email", "dataFields.email"] },
    { target: "user_id", paths: ["userId", "dataFields.userId"] },
    { target: "id", text: "{eventName}:{dataFields.messageId}:{email}:{dataFields.createdAt}" },
    { target: "id", text: "{eventName}:{dataFields.messageId}:{userId}:{dataFields.createdAt}" },
    { target: "occurred_at", paths: ["dataFields.createdAt", "createdAt"] },
    { target: "first_name", path: "dataFields.firstName" },
    { target: "last_name", path: "dataFields.lastName" },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/iterable/{key}",
  setUp: [
    "Open Integrations and System Webhooks, and create a webhook.",
    "Enter the address of the key, and select the events that trigger it.",
    "Set its status to Enabled and save it.",
  ],
  documentation: "https://support.iterable.com/hc/en-us/articles/208013936-System-Webhooks",
  fieldsFrom: "examples",
  events: "the event's name, such as `emailClick`",
  person: "`email` and your own user id",
  rule: { name: "Clicked in an email", event: "emailClick", scoringSignal: "email_clicked", points: 5 },
  sample: {
    body: {
      email: "docs@example.com",
      userId: "1",
      eventName: "emailClick",
      dataFields: {
        createdAt: "2016-12-02 20:31:39 +00:00",
        campaignId: 59667,
        messageId: "d0aa7801f91f4824997a631f3ed583c3",
        url: "https://www.example.com",
      },
    },
  },
};
