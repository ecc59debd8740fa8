import type { Preset } from "./preset.ts";

const PROFILE = "payload.included[type=profile].attributes";
const EVENT = "payload.data.attributes";

export const KLAVIYO: Preset = {
  id: "klaviyo",
  name: "Klaviyo",
  template: [
    { target: "items", path: "data" },
    {
      target: "event",
      paths: [
        "topic",
        "event",
        "event_name",
        "@body.event",
        "payload.included[type=metric].attributes.name",
        "attributes.metric.name",
      ],
    },
    { target: "event", text: "Klaviyo flow" },
    {
      target: "email",
      paths: [
        `${PROFILE}.email`,
        `${EVENT}.profile.email`,
        `${EVENT}.event_properties.$email`,
        `${EVENT}.event_properties.email`,
        "email",
        "profile.email",
        "person.email",
        "customer.email",
        "@body.email",
        // A flow's body with the names of Klaviyo's API, or with names of one's own.
        "attributes.email",
        "attributes.profile.email",
        "$email",
        "person.$email",
        "customer_email",
        "Email",
      ],
    },
    { target: "user_id", paths: [`${PROFILE}.external_id`, `${EVENT}.profile.external_id`] },
    { target: "user_id", text: "klaviyo:{payload.data.relationships.profile.data.id}" },
    { target: "id", text: "{topic}:{external_id}" },
    { target: "occurred_at", paths: [`${EVENT}.datetime`, `${EVENT}.timestamp`, "timestamp", "@body.meta.timestamp"] },
    { target: "first_name", paths: [`${PROFILE}.first_name`, "first_name", "profile.first_name"] },
    { target: "last_name", paths: [`${PROFILE}.last_name`, "last_name", "profile.last_name"] },
    { target: "company", path: `${PROFILE}.organization` },
    { target: "title", path: `${PROFILE}.title` },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/klaviyo/{key}",
  setUp: [
    "Create a system webhook with Klaviyo's API or its page, with the address of the key and your topics.",
    "Or add a webhook action to a flow, with a JSON body.",
    "In a flow write `event` (a fixed text) and `email` into the body.",
  ],
  documentation: "https://developers.klaviyo.com/en/docs/working_with_system_webhooks",
  fieldsFrom: "page",
  events: "the topic, such as `event:klaviyo.opened_email`; of a flow its `event`",
  person: "the included profile's `email`, else its Klaviyo id",
  note: "The profile is in the form of Klaviyo's event API. A webhook of a flow has the body that you write.",
  rule: {
    name: "Clicked in an email",
    event: "event:klaviyo.clicked_email",
    scoringSignal: "email_clicked",
    points: 5,
  },
  sample: {
    body: {
      data: [
        {
          external_id: "4vRpBT",
          topic: "event:klaviyo.opened_email",
          payload: {
            data: { type: "event", id: "4vRpBT", attributes: { datetime: "2022-11-08 00:00:00+00:00" } },
            included: [
              { type: "profile", id: "01GDDKASAP8TKDDA2GRZDSVP4H", attributes: { email: "sarah@example.com" } },
            ],
          },
        },
      ],
      meta: { klaviyo_account_id: "AbC123", timestamp: "2022-11-08T00:00:03+00:00" },
    },
  },
};
