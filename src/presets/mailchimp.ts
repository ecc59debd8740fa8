import type { Preset } from "./preset.ts";

export const MAILCHIMP: Preset = {
  id: "mailchimp",
  name: "Mailchimp",
  template: [
    { target: "event", path: "type" },
    { target: "email", paths: ["data.new_email", "data.email", "data.merges.EMAIL"] },
    { target: "id", text: "{type}:{data.list_id}:{data.id}:{fired_at}" },
    { target: "id", text: "{type}:{data.list_id}:{data.new_id}:{fired_at}" },
    { target: "id", text: "{type}:{data.list_id}:{data.email}:{fired_at}" },
    { target: "occurred_at", path: "fired_at" },
    { target: "first_name", path: "data.merges.FNAME" },
    { target: "last_name", path: "data.merges.LNAME" },
    { target: "company", path: "data.merges.COMPANY" },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/mailchimp/{key}",
  setUp: [
    "Open Audience, Settings and Webhooks, and create a webhook with the address of the key.",
    "Mailchimp first checks the address with GET, and sends forms instead of JSON.",
    "Select the kinds of changes, and by whom they may be made.",
  ],
  documentation: "https://mailchimp.com/developer/marketing/guides/sync-audience-data-webhooks/",
  fieldsFrom: "examples",
  events: "`subscribe`, `unsubscribe`, `profile`, `upemail`, `cleaned`, `campaign`",
  person: "`data[email]`; after a change of address the new one",
  note: "`campaign` is about all subscribers, so it names nobody. Times have no zone and are read as UTC.",
  rule: { name: "Subscribed", event: "subscribe", scoringSignal: "subscribed", points: 10 },
  sample: {
    form: "type=subscribe&fired_at=2009-03-26+21%3A35%3A57&data%5Bid%5D=8a25ff1d98&data%5Blist_id%5D=a6b5da1054&data%5Bemail%5D=api%40example.com&data%5Bmerges%5D%5BFNAME%5D=Mailchimp",
  },
};
