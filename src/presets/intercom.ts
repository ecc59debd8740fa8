import type { Preset } from "./preset.ts";

const ITEM = "data.item";
/** Admins have an `email` too, and are no leads. */
const PEOPLE = ["contact", "user", "lead", "visitor", "event"];
const AUTHORS = ["user", "lead", "contact"];

export const INTERCOM: Preset = {
  id: "intercom",
  name: "Intercom",
  template: [
    { target: "event", path: "topic" },
    {
      target: "email",
      paths: [
        `${ITEM}.contact.email`,
        `${ITEM}.user.email`,
        ...PEOPLE.map((type) => `${ITEM}[type=${type}].email`),
        ...AUTHORS.map((type) => `${ITEM}.ticket_part.author[type=${type}].email`),
        ...AUTHORS.map((type) => `${ITEM}.source.author[type=${type}].email`),
      ],
    },
    {
      target: "email",
      paths: [
        ...AUTHORS.map((type) => `${ITEM}.conversation_parts.conversation_parts[author.type=${type}].author.email`),
        ...AUTHORS.map((type) => `${ITEM}.ticket_parts.ticket_parts[author.type=${type}].author.email`),
        ...AUTHORS.map((type) => `${ITEM}.ticket.ticket_parts.ticket_parts[author.type=${type}].author.email`),
        `${ITEM}.contacts.contacts[].email`,
        `${ITEM}.ticket.contacts.contacts[].email`,
      ],
    },
    {
      target: "user_id",
      paths: [
        `${ITEM}.contact.external_id`,
        `${ITEM}.user.user_id`,
        ...PEOPLE.map((type) => `${ITEM}[type=${type}].external_id`),
        ...PEOPLE.map((type) => `${ITEM}[type=${type}].user_id`),
        `${ITEM}.contacts.contacts[].external_id`,
        `${ITEM}.ticket.contacts.contacts[].external_id`,
      ],
    },
    { target: "id", path: "id" },
    { target: "occurred_at", paths: [`${ITEM}[type=event].created_at`, "created_at", "first_sent_at"] },
    {
      target: "name",
      paths: [`${ITEM}.contact.name`, `${ITEM}.user.name`, ...PEOPLE.map((type) => `${ITEM}[type=${type}].name`)],
    },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/intercom/{key}",
  setUp: [
    "In the Developer Hub open your app, and Webhooks under Configure.",
    "Enter the address of the key. Intercom first checks it with HEAD.",
    "Choose the topics, such as `contact.created` and `conversation.user.replied`.",
  ],
  documentation: "https://developers.intercom.com/docs/references/2.16/webhooks/webhook-models",
  fieldsFrom: "examples",
  events: "the topic, such as `conversation.user.created`",
  person: "the contact's `email` and your own user id; of a conversation, its user",
  note: "Tickets often hold your user id alone. Topics about admins and companies name nobody.",
  rule: {
    name: "Started a conversation",
    event: "conversation.user.created",
    scoringSignal: "conversation_started",
    points: 15,
  },
  sample: {
    body: {
      type: "notification_event",
      id: "notif_c47f7aeb-bdeb-4d35-8fc7-eb945334fdad",
      topic: "contact.user.created",
      created_at: 1768018948,
      data: {
        type: "notification_event_data",
        item: { type: "contact", id: "6961d4041c1e12de4c5499cc", external_id: "24", email: "user@example.com" },
      },
    },
  },
};
