import type { Preset } from "./preset.ts";

export const POSTMARK: Preset = {
  id: "postmark",
  name: "Postmark",
  template: [
    // Received email has no RecordType, and the stream `inbound`.
    { target: "event", paths: ["RecordType", "MessageStream"] },
    { target: "email", paths: ["Recipient", "Email", "FromFull.Email"] },
    { target: "id", text: "{RecordType}:{ID}:{MessageID}" },
    { target: "id", text: "{RecordType}:{MessageID}:{Recipient}:{ReceivedAt}:{OriginalLink}" },
    { target: "id", text: "{RecordType}:{MessageID}:{Recipient}:{ReceivedAt}" },
    { target: "id", text: "{RecordType}:{MessageID}:{Recipient}:{DeliveredAt}" },
    { target: "id", text: "{RecordType}:{Recipient}:{ChangedAt}" },
    { target: "occurred_at", paths: ["DeliveredAt", "BouncedAt", "ReceivedAt", "ChangedAt"] },
  ],
  misfits: "keep",
  answer: 200,
  address: "/webhook/postmark/{key}",
  setUp: [
    "Choose the server and its message stream, and open Webhooks.",
    "Add a webhook with the address of the key, and check the kinds of events.",
    "Send a test. Postmark takes only 200 for success.",
  ],
  documentation: "https://postmarkapp.com/developer/webhooks/webhooks-overview",
  fieldsFrom: "examples",
  events: "`Delivery`, `Bounce`, `SpamComplaint`, `Open`, `Click`, `SubscriptionChange`, `inbound`",
  person: "`Recipient` or `Email`; the sender of an inbound email",
  rule: { name: "Clicked in an email", event: "Click", scoringSignal: "email_clicked", points: 5 },
  sample: {
    body: {
      RecordType: "Click",
      MessageStream: "outbound",
      MessageID: "883953f4-6105-42a2-a16a-77a8eac79483",
      Recipient: "john@example.com",
      ReceivedAt: "2025-04-05T16:33:54.9070259Z",
      OriginalLink: "https://www.example.com/pricing",
    },
  },
};
