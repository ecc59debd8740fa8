import type { Preset } from "./preset.ts";

export const ZENDESK: Preset = {
  id: "zendesk",
  name: "Zendesk",
  template: [
    { target: "event", paths: ["type", "event", "event_type", "event_name"] },
    { target: "event", text: "Zendesk trigger" },
    {
      target: "email",
      paths: [
        "detail.email",
        "ticket.requester.email",
        "requester.email",
        "requester_email",
        "ticket.requester_email",
        "detail.requester.email",
        "user.email",
        "email",
      ],
    },
    { target: "user_id", text: "zendesk:{[subject=zen:user:*].detail.id}" },
    { target: "user_id", text: "zendesk:{detail.requester_id}" },
    { target: "user_id", text: "zendesk:{ticket.requester.id}" },
    { target: "id", text: "{type}:{id}" },
    { target: "occurred_at", paths: ["time", "occurred_at", "detail.updated_at", "ticket.updated_at", "updated_at"] },
    { target: "name", paths: ["ticket.requester.name", "requester.name", "requester_name"] },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/zendesk/{key}",
  setUp: [
    "Open the Admin Center, Apps and integrations, Webhooks, and create one with the address of the key.",
    "Connect it to Zendesk events, or to a trigger.",
    "In a trigger write a JSON body with `event` and `requester_email`.",
  ],
  documentation: "https://developer.zendesk.com/api-reference/webhooks/event-types/webhook-event-types/",
  fieldsFrom: "page",
  events: "the type, such as `zen:event-type:user.created`; of a trigger its `event`",
  person: "the user's or the requester's address, and the Zendesk user",
  note: "Ticket events hold the requester's id alone. Agents are users too.",
  rule: { name: "Opened a ticket", event: "zen:event-type:ticket.created", scoringSignal: "ticket_opened", points: 5 },
  sample: {
    body: {
      type: "zen:event-type:user.created",
      account_id: 12514403,
      id: "2b24ef10-19d4-4740-93cf-8f98ec4776c0",
      time: "2026-07-04T05:33:18Z",
      subject: "zen:user:6596848315901",
      detail: { id: "6596848315901", email: "user@example.com", role: "end-user" },
      event: {},
    },
  },
};
