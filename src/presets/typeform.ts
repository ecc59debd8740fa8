import type { Preset } from "./preset.ts";

export const TYPEFORM: Preset = {
  id: "typeform",
  name: "Typeform",
  template: [
    { target: "event", path: "event_type" },
    {
      target: "email",
      paths: [
        "form_response.answers[type=email].email",
        "form_response.hidden.email",
        "form_response.hidden.user_email",
        "form_response.hidden.Email",
        "form_response.hidden.email_address",
        "form_response.hidden.contact_email",
        // Many forms ask for it with a question of the type short text.
        "form_response.answers[type=text].text",
      ],
    },
    { target: "id", text: "{event_type}:{event_id}" },
    { target: "occurred_at", paths: ["form_response.submitted_at", "form_response.landed_at"] },
  ],
  misfits: "keep",
  answer: 202,
  address: "/webhook/typeform/{key}",
  setUp: [
    "Open Connect and Webhooks of the form, and add a webhook with the address of the key.",
    "Ask for the address with a question of the type Email, or pass it as the hidden field `email`.",
    "Switch the webhook on and send a test request.",
  ],
  documentation: "https://www.typeform.com/developers/webhooks/example-payload/",
  fieldsFrom: "examples",
  events: "`form_response`, `form_response_partial`",
  person: "the answer of the type email, the hidden field `email`, or an answer that is an address",
  note: "A hidden `user_id` is not used, because previews fill it with `xxxxx` for everyone.",
  rule: {
    name: "Form submitted",
    event: "form_response",
    scoringSignal: "form_submitted",
    points: 20,
  },
  sample: {
    body: {
      event_id: "01EK4R5PFZZP6C8H14RTP4YW6C",
      event_type: "form_response",
      form_response: {
        form_id: "g8hcyeXS",
        token: "x71for1wr6irs2rx71fotn12b3izh25v",
        submitted_at: "2026-01-26T08:23:49Z",
        answers: [{ type: "email", email: "laura@example.com", field: { id: "SMEUb7VJz92Q", type: "email" } }],
      },
    },
  },
};
