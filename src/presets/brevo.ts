import type { Preset } from "./preset.ts";

export const BREVO: Preset = {
  id: "brevo",
  name: "Brevo",
  template: [
    { target: "event", paths: ["event", "msg_status"] },
    { target: "email", paths: ["email", "email[]"] },
    { target: "id", text: "{event}:{message-id}:{email}:{ts_event}:{link}" },
    { target: "id", text: "{event}:{message-id}:{email}:{ts_event}" },
    { target: "id", text: "{event}:{camp_id}:{email}:{ts_event}:{URL}" },
    { target: "id", text: "{event}:{camp_id}:{email}:{ts_event}" },
    { target: "occurred_at", paths: ["ts_epoch", "s_epoch", "ts_event", "ts", "date_event", "date"] },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/brevo/{key}",
  setUp: [
    "Open the settings and Webhooks, and add one for marketing or for transactional email.",
    "Enter the address of the key.",
    "Select the events. Both kinds of webhooks may use the same key.",
  ],
  documentation: "https://developers.brevo.com/docs/marketing-webhooks",
  fieldsFrom: "examples",
  events: "the event, such as `opened`, `click`, `list_addition`",
  person: "`email`, a text or a list",
  note: "The times without a zone are used last, because Brevo writes them in the zone of the account.",
  rule: { name: "Clicked in an email", event: "click", scoringSignal: "email_clicked", points: 5 },
  sample: {
    body: {
      id: 26224,
      camp_id: 7,
      email: "example@example.com",
      "campaign name": "My First Campaign",
      date_event: "2020-10-09 00:00:00",
      event: "click",
      ts_event: 1604933737,
      URL: "https://www.example.com",
    },
  },
};
