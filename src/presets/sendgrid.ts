import type { Preset } from "./preset.ts";

export const SENDGRID: Preset = {
  id: "sendgrid",
  name: "SendGrid",
  template: [
    { target: "event", path: "event" },
    { target: "email", path: "email" },
    { target: "id", text: "{event}:{sg_event_id}" },
    { target: "occurred_at", path: "timestamp" },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/sendgrid/{key}",
  setUp: [
    "Open Settings, Mail Settings and Event Webhook.",
    "Enter the address of the key as the Post URL.",
    "Select the events and enable the webhook.",
  ],
  documentation: "https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event",
  fieldsFrom: "page",
  events: "the event, such as `open`, `click`, `group_unsubscribe`",
  person: "`email`",
  rule: { name: "Clicked in an email", event: "click", scoringSignal: "email_clicked", points: 5 },
  sample: {
    body: [
      {
        email: "example@example.com",
        timestamp: 1513299569,
        event: "click",
        sg_event_id: "kCAi1KttyQdEKHhdC-nuEA==",
        sg_message_id: "14c5d75ce93.dfd.64b469.filter0001.16648.5515E0B88.0",
        url: "https://www.example.com/",
      },
    ],
  },
};
