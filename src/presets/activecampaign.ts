import type { Preset } from "./preset.ts";

export const ACTIVECAMPAIGN: Preset = {
  id: "activecampaign",
  name: "ActiveCampaign",
  template: [
    { target: "event", path: "type" },
    { target: "event", text: "automation_{seriesid}" },
    { target: "email", paths: ["contact.email", "deal.contact_email", "subscriber.email", "email"] },
    { target: "user_id", text: "activecampaign:{contact.id}" },
    { target: "user_id", text: "activecampaign:{deal.contactid}" },
    { target: "user_id", text: "activecampaign:{deal.contact_id}" },
    { target: "occurred_at", paths: ["date_time", "deal.create_date_iso"] },
    { target: "first_name", paths: ["contact.first_name", "deal.contact_firstname"] },
    { target: "last_name", paths: ["contact.last_name", "deal.contact_lastname"] },
    { target: "company", paths: ["contact.orgname", "deal.orgname"] },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/activecampaign/{key}",
  setUp: [
    "Open Settings, Developer and Manage Webhooks, and add a webhook with the address of the key.",
    "Select the actions, and who may have caused them. ActiveCampaign never sends again.",
    "A webhook of an automation has no type: it is named `automation_` and its number.",
  ],
  documentation: "https://developers.activecampaign.com/page/webhooks",
  fieldsFrom: "examples",
  events: "the type, such as `subscribe`, `click`, `deal_add`",
  person: "`contact[email]`, or `deal[contact_email]`, and the contact's id",
  note: "Forms instead of JSON. Events of lists and accounts name nobody.",
  rule: { name: "Clicked in an email", event: "click", scoringSignal: "email_clicked", points: 5 },
  sample: {
    form: "type=contact_tag_added&date_time=2026-07-17T22%3A01%3A25-05%3A00&initiated_from=admin&list=0&contact%5Bid%5D=123456&contact%5Bemail%5D=robert%40example.com&contact%5Bfirst_name%5D=Robert&tag=Registered",
  },
};
