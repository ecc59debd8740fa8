import type { Preset } from "./preset.ts";

export const WOOCOMMERCE: Preset = {
  id: "woocommerce",
  name: "WooCommerce",
  template: [
    { target: "event", path: "@header.x-wc-webhook-topic" },
    { target: "email", paths: ["email", "billing.email"] },
    { target: "user_id", text: "woocommerce:{customer_id}" },
    { target: "user_id", text: "woocommerce:{[username=*].id}" },
    { target: "id", text: "{@header.x-wc-webhook-topic}:{@header.x-wc-webhook-delivery-id}" },
    { target: "occurred_at", paths: ["date_modified_gmt", "date_created_gmt", "date_modified", "date_created"] },
    { target: "first_name", paths: ["first_name", "billing.first_name"] },
    { target: "last_name", paths: ["last_name", "billing.last_name"] },
    { target: "company", path: "billing.company" },
  ],
  misfits: "keep",
  answer: 200,
  address: "/webhook/woocommerce/{key}",
  setUp: [
    "Open WooCommerce, Settings, Advanced and Webhooks, and add a webhook.",
    "Choose the topic, the status Active, and the address of the key as delivery URL.",
    "The event's name comes with a header, so a relay must keep `X-WC-Webhook-Topic`.",
  ],
  documentation: "https://woocommerce.github.io/woocommerce-rest-api-docs/#webhooks",
  fieldsFrom: "page",
  events: "the topic, such as `order.created`",
  person: "`email`, or `billing.email`, and the customer's number",
  note: "The first call of a new webhook has no topic, and waits as a misfit. Guests have no number.",
  rule: {
    name: "Ordered",
    event: "order.created",
    conditions: [{ path: "payload.total", operator: "greater_than", value: 0 }],
    scoringSignal: "ordered",
    points: 30,
  },
  sample: {
    headers: { "x-wc-webhook-topic": "order.created", "x-wc-webhook-delivery-id": "b2a0c1f0" },
    body: {
      id: 727,
      date_modified_gmt: "2017-03-22T19:28:08",
      total: "29.35",
      customer_id: 25,
      billing: { first_name: "John", last_name: "Doe", email: "john.doe@example.com" },
    },
  },
};
