import type { Preset } from "./preset.ts";

export const CALENDLY: Preset = {
  id: "calendly",
  name: "Calendly",
  template: [
    { target: "event", path: "event" },
    {
      target: "email",
      paths: [
        "payload.email",
        "payload.invitee.email",
        "payload.questions_and_answers[question=Email*].answer",
        "payload.questions_and_answers[question=E-mail*].answer",
        "payload.questions_and_answers[question=Your email*].answer",
        "payload.questions_and_answers[question=Work email*].answer",
        "payload.questions_and_answers[question=Business email*].answer",
        "payload.questions_and_answers[question=Company email*].answer",
        "payload.questions_and_answers[].answer",
      ],
    },
    { target: "id", text: "{event}:{payload.uri}:{created_at}" },
    { target: "id", text: "{event}:{payload.invitee.uuid}:{time}" },
    { target: "occurred_at", paths: ["created_at", "time"] },
    { target: "name", paths: ["[event=invitee*].payload.name", "payload.invitee.name"] },
    { target: "first_name", paths: ["payload.first_name", "payload.invitee.first_name"] },
    { target: "last_name", paths: ["payload.last_name", "payload.invitee.last_name"] },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/calendly/{key}",
  setUp: [
    "Create a webhook subscription with Calendly's API: it has no page for them.",
    "Give it the address of the key, and the events `invitee.created` and `invitee.canceled`.",
    "In a routing form ask for the address. A question that begins with “Email” comes first.",
  ],
  documentation: "https://developer.calendly.com/api-docs/calendly-api/webhooks/get-sample-webhook-data",
  fieldsFrom: "examples",
  events: "`invitee.*`, `invitee_no_show.*`, `routing_form_submission.created`, `event_type.*`",
  person: "the invitee's `email`, or an answer that is an address, first that to “Email”",
  note: "Both versions of the API. Event types name nobody.",
  rule: {
    name: "Meeting booked",
    event: "invitee.created",
    conditions: [{ path: "payload.payload.status", operator: "equals", value: "active" }],
    scoringSignal: "meeting_booked",
    points: 40,
  },
  sample: {
    body: {
      event: "invitee.created",
      created_at: "2020-11-23T17:51:19.000000Z",
      payload: {
        email: "test@example.com",
        name: "John Doe",
        status: "active",
        uri: "https://api.calendly.com/scheduled_events/AAAAAAAAAAAAAAAA/invitees/AAAAAAAAAAAAAAAA",
      },
    },
  },
};
