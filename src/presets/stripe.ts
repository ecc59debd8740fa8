import type { Preset } from "./preset.ts";

const OBJECT = "data.object";

export const STRIPE: Preset = {
  id: "stripe",
  name: "Stripe",
  template: [
    { target: "event", path: "type" },
    {
      target: "email",
      paths: [
        `${OBJECT}.customer_details.email`,
        `${OBJECT}.customer_email`,
        `${OBJECT}.billing_details.email`,
        `${OBJECT}.receipt_email`,
        `${OBJECT}.email`,
        `${OBJECT}.customer.email`,
        `${OBJECT}.owner.email`,
        `${OBJECT}.charges.data[].billing_details.email`,
        `${OBJECT}.charges.data[].receipt_email`,
        `${OBJECT}.latest_charge.billing_details.email`,
        `${OBJECT}.last_payment_error.payment_method.billing_details.email`,
        `${OBJECT}.provided_details.email`,
        `${OBJECT}.individual.email`,
        `${OBJECT}.cardholder.email`,
        `${OBJECT}.card.cardholder.email`,
        `${OBJECT}.source.owner.email`,
        `${OBJECT}.evidence.customer_email_address`,
      ],
    },
    { target: "user_id", text: `stripe:{${OBJECT}[object=customer].id}` },
    { target: "user_id", text: `stripe:{${OBJECT}.customer}` },
    { target: "user_id", text: `stripe:{${OBJECT}.customer.id}` },
    { target: "id", path: "id" },
    { target: "occurred_at", path: "created" },
    {
      target: "name",
      paths: [
        `${OBJECT}[object=customer].name`,
        `${OBJECT}.customer_details.name`,
        `${OBJECT}.customer_name`,
        `${OBJECT}.billing_details.name`,
      ],
    },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/stripe/{key}",
  setUp: [
    "Open Developers and Webhooks, and add an endpoint with the address of the key.",
    "Select the events, such as `checkout.session.completed` and `customer.subscription.*`.",
    "Send a test event.",
  ],
  documentation: "https://docs.stripe.com/api/events/types",
  fieldsFrom: "examples",
  events: "the type, such as `checkout.session.completed`",
  person: "an address in the object, and the Stripe customer",
  note: "Subscriptions and many others hold the customer's id alone. Its address comes with `customer.*` and invoices.",
  rule: {
    name: "Paid a checkout",
    event: "checkout.session.completed",
    conditions: [{ path: "payload.data.object.payment_status", operator: "equals", value: "paid" }],
    scoringSignal: "checkout_paid",
    points: 50,
  },
  sample: {
    body: {
      id: "ntf_1MqqbKLt4dXK03v5qaIbiNCC",
      object: "event",
      created: 1680064028,
      type: "checkout.session.completed",
      data: {
        object: {
          id: "cs_test_a1",
          object: "checkout.session",
          customer: "cus_QXg1o8vcGmoR32",
          customer_details: { email: "jenny@example.com", name: "Jenny Rosen" },
          payment_status: "paid",
        },
      },
    },
  },
};
