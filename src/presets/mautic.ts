import type { Preset } from "./preset.ts";

/** Places of the contact in a payload. Older versions name it lead. */
const CONTACTS = ["contact", "lead", "stat.lead", "submission.lead", "hit.lead"];
const field = (name: string): string[] => [
  ...CONTACTS.map((contact) => `${contact}.fields.core.${name}.value`),
  ...CONTACTS.map((contact) => `${contact}.fields.all.${name}`),
  ...CONTACTS.map((contact) => `${contact}.${name}`),
];

export const MAUTIC: Preset = {
  id: "mautic",
  name: "Mautic",
  template: [
    { target: "items", path: "*" },
    { target: "event", path: "@key" },
    { target: "email", paths: ["stat.emailAddress", ...field("email"), "submission.results.email"] },
    ...CONTACTS.map((contact) => ({ target: "user_id" as const, text: `mautic:{${contact}.id}` })),
    {
      target: "occurred_at",
      paths: ["timestamp", "stat.dateRead", "submission.dateSubmitted", "hit.dateHit", "@body.timestamp"],
    },
    { target: "first_name", paths: field("firstname") },
    { target: "last_name", paths: field("lastname") },
    { target: "company", paths: CONTACTS.map((contact) => `${contact}.fields.core.company.value`) },
    { target: "title", paths: CONTACTS.map((contact) => `${contact}.fields.core.position.value`) },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/mautic/{key}",
  setUp: [
    "Open Settings and Webhooks, and create a webhook with the address of the key.",
    "Select the events that trigger it.",
    "Apply it and choose Send Test Payload.",
  ],
  documentation: "https://devdocs.mautic.org/en/latest/plugin_extensions/webhooks.html",
  fieldsFrom: "page",
  events: "the name of the list, such as `mautic.form_on_submit`",
  person: "`email` of the contact or lead, of the sent email, or of the form",
  note: "The page shows a new contact only. The other events come from published bodies.",
  rule: { name: "Submitted a form", event: "mautic.form_on_submit", scoringSignal: "form_submitted", points: 20 },
  sample: {
    body: {
      "mautic.lead_post_save_new": [
        {
          contact: { id: 1, points: 0, fields: { core: { email: { label: "Email", value: "contact@example.com" } } } },
          timestamp: "2015-08-18T18:53:33+00:00",
        },
      ],
    },
  },
};
