import type { Preset } from "./preset.ts";

export const BRAZE: Preset = {
  id: "braze",
  name: "Braze Currents",
  template: [
    { target: "items", path: "events" },
    { target: "event", paths: ["event_type", "event", "event_name"] },
    { target: "email", paths: ["properties.email_address", "email_address", "user.email", "email"] },
    { target: "user_id", paths: ["user.external_user_id", "external_user_id", "external_id"] },
    { target: "user_id", text: "braze:{user.user_id}" },
    { target: "id", text: "{event_type}:{id}" },
    { target: "occurred_at", paths: ["time", "timestamp"] },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/braze/{key}",
  setUp: [
    "Create a Current of the type custom HTTP export, with the address of the key as its endpoint.",
    "Select the message events, and the behavior events that you need.",
    "Launch the Current. For a webhook campaign write `event` and `email` into its body.",
  ],
  documentation: "https://www.braze.com/docs/user_guide/data/braze_currents/event_glossary/message_engagement_events",
  fieldsFrom: "examples",
  events: "the event's type, such as `users.messages.email.Click`",
  person: "`properties.email_address` of email events; your own external user id",
  note: "Events of push, SMS and behavior hold the id alone.",
  rule: { name: "Clicked in an email", event: "users.messages.email.Click", scoringSignal: "email_clicked", points: 5 },
  sample: {
    body: {
      events: [
        {
          event_type: "users.messages.email.Open",
          id: "a1234567-89ab-cdef-0123-456789abcdef",
          time: 1477502783,
          user: { user_id: "0123456789abcdef01234567", external_user_id: "user_id_1" },
          properties: { campaign_name: "Test Campaign", email_address: "test@example.com" },
        },
      ],
    },
  },
};
