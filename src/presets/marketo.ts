import type { Preset } from "./preset.ts";

export const MARKETO: Preset = {
  id: "marketo",
  name: "Marketo",
  template: [
    { target: "event", paths: ["event", "event_name", "activity", "trigger"] },
    { target: "event", text: "Marketo campaign" },
    {
      target: "email",
      paths: [
        "email",
        "lead.email",
        "properties.email",
        "emailAddress",
        "email_address",
        "Email",
        "Email Address",
        "lead.Email Address",
        "lead.emailAddress",
        "lead.email_address",
        "lead_email",
        "leadEmail",
        "person.email",
        "contact.email",
        "data.email",
      ],
    },
    ...["properties.lead_id", "lead_id", "leadId", "lead.id", "Lead Id", "lead.Id"].map((path) => ({
      target: "user_id" as const,
      text: `marketo:{${path}}`,
    })),
    { target: "occurred_at", paths: ["occurred_at", "timestamp", "date"] },
    {
      target: "first_name",
      paths: ["properties.first_name", "first_name", "firstName", "lead.firstName", "lead.first_name", "First Name"],
    },
    {
      target: "last_name",
      paths: ["properties.last_name", "last_name", "lastName", "lead.lastName", "lead.last_name", "Last Name"],
    },
    { target: "company", paths: ["properties.company", "company", "company.name", "Company Name"] },
    { target: "title", paths: ["properties.title", "title", "jobTitle", "Job Title"] },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/marketo/{key}",
  setUp: [
    "Open Admin and Webhooks, and create one with POST and the address of the key.",
    "Set Request Token Encoding to JSON, Response Type to None, and write the template.",
    "Add the flow step Call Webhook to a trigger campaign.",
  ],
  documentation: "https://developers.marketo.com/webhooks/",
  fieldsFrom: "examples",
  events: "the text in `event`, else `Marketo campaign`",
  person: "`email`, and the lead's id in `lead_id`",
  note: "The body is your own template, so this preset knows the usual names only.",
  rule: { name: "Filled out a form", event: "Filled Out Form", scoringSignal: "form_submitted", points: 20 },
  sample: {
    body: {
      email: "jane@example.com",
      event: "Filled Out Form",
      properties: { lead_id: 1234, first_name: "Jane", company: "Initech", title: "Engineer" },
    },
  },
};
