import type { Preset } from "./preset.ts";

export const MAILJET: Preset = {
  id: "mailjet",
  name: "Mailjet",
  template: [
    { target: "event", path: "event" },
    { target: "email", path: "email" },
    { target: "id", text: "{event}:{Message_GUID}:{email}:{time}:{url}" },
    { target: "id", text: "{event}:{Message_GUID}:{email}:{time}" },
    { target: "id", text: "{event}:{MessageID}:{email}:{time}:{url}" },
    { target: "id", text: "{event}:{MessageID}:{email}:{time}" },
    { target: "occurred_at", path: "time" },
  ],
  misfits: "keep",
  answer: 200,
  address: "/webhook/mailjet/{key}",
  setUp: [
    "Open the account's settings and Event notifications.",
    "Enter the address of the key for each kind of event, and group the events.",
    "Mailjet sends again for a day after another answer than 200.",
  ],
  documentation: "https://dev.mailjet.com/email/guides/webhooks/",
  fieldsFrom: "page",
  events: "`sent`, `open`, `click`, `bounce`, `blocked`, `spam`, `unsub`",
  person: "`email`",
  rule: { name: "Clicked in an email", event: "click", scoringSignal: "email_clicked", points: 5 },
  sample: {
    body: [
      {
        event: "click",
        time: 1433334653,
        MessageID: 19421777836302,
        Message_GUID: "1ab23cd4-e567-8901-2345-6789f0gh1i2j",
        email: "api@example.com",
        url: "https://www.example.com",
      },
    ],
  },
};
