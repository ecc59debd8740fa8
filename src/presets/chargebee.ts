import type { Preset } from "./preset.ts";

export const CHARGEBEE: Preset = {
  id: "chargebee",
  name: "Chargebee",
  template: [
    { target: "event", path: "event_type" },
    {
      target: "email",
      paths: [
        "content.customer.email",
        "content.customer.billing_address.email",
        "content.subscription.shipping_address.email",
        "content.invoice.billing_address.email",
        "content.invoice.shipping_address.email",
        "content.quote.billing_address.email",
        "content.order.billing_address.email",
        "content.order.shipping_address.email",
        "content.gift.gifter.email",
        "content.gift.gift_receiver.email",
      ],
    },
    { target: "user_id", text: "chargebee:{content.customer.id}" },
    ...["subscription", "invoice", "transaction", "payment_source", "credit_note", "quote", "order", "card"].map(
      (resource) => ({ target: "user_id" as const, text: `chargebee:{content.${resource}.customer_id}` }),
    ),
    { target: "id", path: "id" },
    { target: "occurred_at", path: "occurred_at" },
    { target: "first_name", path: "content.customer.first_name" },
    { target: "last_name", path: "content.customer.last_name" },
    { target: "company", path: "content.customer.company" },
  ],
  misfits: "keep",
  answer: 200,
  address: "/webhook/chargebee/{key}",
  setUp: [
    "Open Settings, Configure Chargebee and Webhooks, and add a webhook with the address of the key.",
    "Choose API version 2 and the events.",
    "Test the webhook. Chargebee sends again for two days after another answer than 200.",
  ],
  documentation: "https://apidocs.chargebee.com/docs/api/events",
  fieldsFrom: "examples",
  events: "the event's type, such as `subscription_created`",
  person: "`content.customer.email` and the Chargebee customer",
  note: "Events about plans, items, coupons and features name nobody.",
  rule: {
    name: "Subscribed",
    event: "subscription_created",
    conditions: [{ path: "payload.content.subscription.status", operator: "equals", value: "active" }],
    scoringSignal: "subscribed",
    points: 50,
  },
  sample: {
    body: {
      id: "ev_16BHbhF4s42tO2lK",
      occurred_at: 1704067200,
      object: "event",
      api_version: "v2",
      event_type: "subscription_created",
      content: {
        subscription: { id: "16BHbhF4s42tO2lJ", customer_id: "16BHbhF4s42tO2lI", status: "active" },
        customer: { id: "16BHbhF4s42tO2lI", email: "john@example.com", first_name: "John", last_name: "Doe" },
      },
    },
  },
};
