import type { Preset } from "./preset.ts";

export const SHOPIFY: Preset = {
  id: "shopify",
  name: "Shopify",
  template: [
    { target: "event", path: "@header.x-shopify-topic" },
    {
      target: "email",
      paths: [
        // A shop has an `email` too, which is its owner's. Orders, customers and checkouts have one of these names.
        "[admin_graphql_api_id=gid://shopify/*].email",
        "contact_email",
        "customer.email",
        "[token=*].email",
        "[orders_count=*].email",
        // An order with a few fields alone, as a webhook may ask for.
        "[total_price=*].email",
        "[order_id=*].email",
        "[customer_id=*].email_address",
        "[customer_id=*].email",
        "email_address",
      ],
    },
    { target: "user_id", text: "shopify:{customer.id}" },
    { target: "user_id", text: "shopify:{customer_id}" },
    { target: "user_id", text: "shopify:{[admin_graphql_api_id=gid://shopify/Customer/*].id}" },
    { target: "id", text: "{@header.x-shopify-topic}:{@header.x-shopify-webhook-id}" },
    { target: "occurred_at", paths: ["@header.x-shopify-triggered-at", "updated_at", "created_at", "processed_at"] },
    {
      target: "first_name",
      paths: ["customer.first_name", "[admin_graphql_api_id=gid://shopify/Customer/*].first_name"],
    },
    { target: "last_name", paths: ["customer.last_name", "[admin_graphql_api_id=gid://shopify/Customer/*].last_name"] },
    { target: "company", paths: ["customer.default_address.company", "default_address.company"] },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/shopify/{key}",
  setUp: [
    "Open Settings, Notifications and Webhooks, and create a webhook for each event.",
    "Choose JSON, and enter the address of the key.",
    "The event's name comes with a header, so a relay must keep `X-Shopify-Topic`.",
  ],
  documentation: "https://shopify.dev/docs/api/webhooks",
  fieldsFrom: "examples",
  events: "the topic, such as `orders/create`",
  person: "the customer's `email` and Shopify id",
  note: "Events about products, refunds, carts and the shop name nobody.",
  rule: {
    name: "Paid an order",
    event: "orders/paid",
    conditions: [{ path: "payload.total_price", operator: "greater_than", value: 0 }],
    scoringSignal: "order_paid",
    points: 30,
  },
  sample: {
    headers: {
      "x-shopify-topic": "orders/create",
      "x-shopify-webhook-id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
      "x-shopify-triggered-at": "2026-03-29T18:00:27.877041743Z",
    },
    body: {
      id: 820982911,
      admin_graphql_api_id: "gid://shopify/Order/820982911",
      email: "jon@example.com",
      total_price: "388.00",
      customer: { id: 115310627, email: "jon@example.com", first_name: "John", last_name: "Smith" },
    },
  },
};
