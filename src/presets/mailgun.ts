import type { Preset } from "./preset.ts";

export const MAILGUN: Preset = {
  id: "mailgun",
  name: "Mailgun",
  template: [
    { target: "event", paths: ["event-data.event", "event"] },
    {
      target: "email",
      paths: [
        "event-data.recipient",
        "recipient",
        "event-data.member.address",
        "[event-data.event=rejected].event-data.message.headers.to",
      ],
    },
    { target: "id", text: "{event-data.event}:{event-data.id}" },
    { target: "occurred_at", paths: ["event-data.timestamp", "timestamp"] },
  ],
  misfits: "keep",
  answer: 200,
  address: "/webhook/mailgun/{key}",
  setUp: [
    "Open Sending and Webhooks, and choose the domain.",
    "Add a webhook with the address of the key for each kind of event.",
    "Send a test. Mailgun takes only 200 for success, and otherwise sends again for eight hours.",
  ],
  documentation: "https://documentation.mailgun.com/docs/mailgun/user-manual/events/webhooks",
  fieldsFrom: "page",
  events: "the event, such as `opened`, `clicked`, `failed`",
  person: "the recipient",
  note: "`stored` names nobody. Old webhooks send forms, which are read too; multipart is not.",
  rule: { name: "Clicked in an email", event: "clicked", scoringSignal: "email_clicked", points: 5 },
  sample: {
    body: {
      signature: { timestamp: "1529006854", token: "a8ce0edb", signature: "d2271d12" },
      "event-data": {
        event: "opened",
        timestamp: 1529006854.329574,
        id: "DACSsAdVSeGpLid7TN03WA",
        recipient: "alice@example.com",
      },
    },
  },
};
