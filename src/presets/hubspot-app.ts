import type { Preset } from "./preset.ts";

export const HUBSPOT_APP: Preset = {
  id: "hubspot-app",
  name: "HubSpot app",
  template: [
    { target: "event", paths: ["subscriptionType", "eventType"] },
    { target: "email", path: "[propertyName=email].propertyValue" },
    { target: "id", text: "{subscriptionType}:{eventId}:{objectId}:{occurredAt}" },
    { target: "id", text: "{subscriptionType}:{eventId}:{occurredAt}" },
    { target: "occurred_at", paths: ["occurredAt", "timestamp"] },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/hubspot-app/{key}",
  setUp: [
    "In the app open the webhooks and set the target URL to the address of the key.",
    "Subscribe to the objects and changes that you need, and switch the subscriptions on.",
    "Subscribe to `email` of contacts too: its changes are the only ones that name a person.",
  ],
  documentation: "https://developers.hubspot.com/docs/guides/crm/private-apps/webhooks",
  fieldsFrom: "examples",
  events: "the subscription, such as `contact.creation`",
  person: "none, except where `email` of a contact changes",
  note: "HubSpot sends ids only. No template makes a person of those: use a workflow instead.",
  rule: {
    name: "Became a customer in HubSpot",
    event: "contact.propertyChange",
    conditions: [
      { path: "payload.propertyName", operator: "equals", value: "lifecyclestage" },
      { path: "payload.propertyValue", operator: "equals", value: "customer" },
    ],
    scoringSignal: "became_customer",
    points: 50,
  },
  sample: {
    body: [
      {
        eventId: 567890123,
        subscriptionId: 234567,
        portalId: 12345678,
        occurredAt: 1708986598741,
        subscriptionType: "contact.propertyChange",
        attemptNumber: 0,
        objectId: 65059681032,
        propertyName: "email",
        propertyValue: "jane@example.com",
      },
    ],
  },
};
