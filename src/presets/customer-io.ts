import type { Preset } from "./preset.ts";

export const CUSTOMER_IO: Preset = {
  id: "customer-io",
  name: "Customer.io",
  template: [
    { target: "event", text: "{object_type}_{metric}" },
    { target: "event", paths: ["event_type", "metric"] },
    { target: "email", paths: ["data.identifiers.email", "data.email_address", "data.recipient"] },
    { target: "user_id", paths: ["data.identifiers.id", "data.customer_id"] },
    { target: "user_id", text: "customer-io:{data.identifiers.cio_id}" },
    { target: "id", path: "event_id" },
    { target: "occurred_at", path: "timestamp" },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/customer-io/{key}",
  setUp: [
    "Open Data & Integrations, Integrations, and add a Reporting Webhook.",
    "Enter the address of the key as the Webhook Endpoint.",
    "Select the events, then save and enable the webhook.",
  ],
  documentation: "https://docs.customer.io/journeys/webhooks/",
  fieldsFrom: "examples",
  events: "channel and metric, such as `email_clicked`",
  person: "`data.identifiers.email`, else the recipient; your own customer id",
  note: "A person of push or SMS has your customer id alone.",
  rule: { name: "Clicked in an email", event: "email_clicked", scoringSignal: "email_clicked", points: 5 },
  sample: {
    body: {
      event_id: "01E4C8BES5XT87ZWRJFTB35YJ3",
      object_type: "email",
      metric: "clicked",
      timestamp: 1585254348,
      data: {
        customer_id: "0200102",
        identifiers: { id: "0200102", email: "test@example.com" },
        delivery_id: "RPILAgABcRhIBqSp7kiPekGBIeVh",
        href: "https://www.example.com",
        recipient: "test@example.com",
      },
    },
  },
};
