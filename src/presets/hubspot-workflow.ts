import type { Preset } from "./preset.ts";

export const HUBSPOT_WORKFLOW: Preset = {
  id: "hubspot-workflow",
  name: "HubSpot workflow",
  template: [
    { target: "event", paths: ["event", "event_name", "eventName", "event_type"] },
    { target: "event", text: "HubSpot workflow" },
    {
      target: "email",
      paths: [
        "email",
        "properties.email.value",
        "properties.email",
        "identity-profiles[].identities[type=EMAIL].value",
        "contact.email",
        "contact_email",
        "Email",
        "properties.work_email.value",
        "properties.work_email",
        // Names that people give it in a body of their own.
        "contactEmail",
        "emailAddress",
        "email_address",
        "Email Address",
      ],
    },
    { target: "user_id", text: "hubspot:{vid}" },
    { target: "user_id", text: "hubspot:{[objectTypeId=0-1].objectId}" },
    { target: "id", paths: ["event_id", "eventId"] },
    { target: "occurred_at", paths: ["occurred_at", "occurredAt", "timestamp"] },
    {
      target: "first_name",
      paths: ["properties.firstname.value", "properties.firstname", "firstname", "first_name", "firstName"],
    },
    {
      target: "last_name",
      paths: ["properties.lastname.value", "properties.lastname", "lastname", "last_name", "lastName"],
    },
    { target: "company", paths: ["properties.company.value", "properties.company", "company"] },
    { target: "title", paths: ["properties.jobtitle.value", "properties.jobtitle", "jobtitle"] },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/hubspot/{key}",
  setUp: [
    "In the workflow add the action “Send a webhook” with the method POST and the address of the key.",
    "Choose all properties, or a body of your own with `email` and a fixed text `event`.",
    "Without `event` each signal is named “HubSpot workflow”, so use one key for each workflow.",
  ],
  documentation: "https://knowledge.hubspot.com/workflows/how-do-i-use-webhooks-with-hubspot-workflows",
  fieldsFrom: "examples",
  events: "the text in `event`, else `HubSpot workflow`",
  person: "`email` of the contact, and its HubSpot id",
  note: "Bodies of a contact in the old and in the new form, and bodies of your own.",
  rule: {
    name: "HubSpot workflow reached",
    event: "HubSpot workflow",
    scoringSignal: "workflow_reached",
    points: 10,
  },
  sample: {
    body: {
      vid: 61574,
      properties: { email: { value: "jane@example.com" }, firstname: { value: "Jane" }, company: { value: "Initech" } },
    },
  },
};
