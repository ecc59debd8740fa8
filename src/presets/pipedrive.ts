import type { Preset } from "./preset.ts";

const PERSON = "[meta.entity=person]";
const PERSON_V1 = "[meta.object=person]";

export const PIPEDRIVE: Preset = {
  id: "pipedrive",
  name: "Pipedrive",
  template: [
    { target: "event", path: "event" },
    { target: "event", text: "{meta.action}.{meta.entity}" },
    { target: "event", text: "{meta.action}.{meta.object}" },
    {
      target: "email",
      // Only persons have these: users have an `email` that is a text.
      paths: [
        "data.emails[primary=true].value",
        "data.emails[].value",
        "current.email[primary=true].value",
        "current.email[].value",
        "previous.emails[primary=true].value",
        "previous.emails[].value",
        "previous.email[primary=true].value",
        "previous.email[].value",
        "current.primary_email",
        "previous.primary_email",
      ],
    },
    ...[
      // Most events are about others than persons.
      "data.person_id",
      "current.person_id",
      `${PERSON}.data.id`,
      `${PERSON}.meta.entity_id`,
      `${PERSON_V1}.meta.id`,
      "previous.person_id",
    ].map((path) => ({ target: "user_id" as const, text: `pipedrive:{${path}}` })),
    { target: "id", text: "{meta.action}:{meta.entity}:{meta.id}:{meta.timestamp}" },
    { target: "id", text: "{meta.action}:{meta.object}:{meta.id}:{meta.timestamp_micro}" },
    { target: "id", text: "{meta.action}:{meta.object}:{meta.id}:{meta.timestamp_milli}" },
    { target: "occurred_at", path: "meta.timestamp" },
    {
      target: "name",
      paths: [`${PERSON}.data.name`, `${PERSON_V1}.current.name`, "current.person_name", "previous.person_name"],
    },
    { target: "first_name", paths: [`${PERSON}.data.first_name`, `${PERSON_V1}.current.first_name`] },
    { target: "last_name", paths: [`${PERSON}.data.last_name`, `${PERSON_V1}.current.last_name`] },
    { target: "company", paths: ["current.org_name", "previous.org_name"] },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/pipedrive/{key}",
  setUp: [
    "Open Settings, Tools and apps, Webhooks, and create a webhook.",
    "Choose the event action and object; `*` and `*` send everything.",
    "Enter the address of the key as the endpoint URL. Version 2 is better.",
  ],
  documentation: "https://pipedrive.readme.io/docs/guide-for-webhooks-v2",
  fieldsFrom: "examples",
  events: "action and object: `change.deal` in version 2, `updated.deal` in version 1",
  person: "the primary address of a person; of deals, leads and activities the Pipedrive person",
  note: "Only events about persons hold an address. They give it to the deals of the same person.",
  rule: {
    name: "Won a deal",
    event: "change.deal",
    conditions: [
      { path: "payload.data.status", operator: "equals", value: "won" },
      { path: "payload.previous.status", operator: "exists" },
    ],
    scoringSignal: "deal_won",
    points: 100,
  },
  sample: {
    body: {
      data: {
        id: 998,
        name: "Test Name",
        emails: [{ label: "work", value: "mail@example.com", primary: true }],
      },
      previous: null,
      meta: {
        action: "create",
        entity: "person",
        entity_id: "998",
        id: "0f7c2a3e-8b1d-4d8e-9a51-2f0f1f2f3f4f",
        version: "2.0",
        timestamp: "2024-09-27T14:25:28.123Z",
      },
    },
  },
};
