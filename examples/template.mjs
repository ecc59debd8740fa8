// A vendor whose webhook has a body of its own: node template.mjs. OPERATOR_URL is https://…/operator/workspaces/<id>, OPERATOR_TOKEN the
// operator's token, or an API token of the workspace with the scopes `keys` and `read`.
const { OPERATOR_URL, OPERATOR_TOKEN } = process.env;

/** What the vendor posts. It cannot be changed. */
const webhook = {
  trigger: "form.submitted",
  at: "2026-11-20T10:00:00Z",
  contact: { mail: "Jane Doe <jane@example.com>", firm: "Initech" },
};

/** Where the fields of a signal stand in it. GET …/templates/presets has the templates of vendors by name. */
const template = [
  { target: "event", path: "trigger", required: true },
  { target: "email", paths: ["contact.mail", "contact.email"] },
  { target: "company", path: "contact.firm" },
  { target: "occurred_at", path: "at" },
  { target: "id", text: "{trigger}:{at}:{contact.mail}" },
];

// The effect first: nothing is stored or counted.
const preview = await operator("templates/preview", { payload_template: template, samples: [{ body: webhook }] });
for (const { event, email, occurred_at, problems } of preview.signals)
  console.log({ event, email, occurred_at, problems });

// `keep`: a payload that does not fit waits for a better template, because most vendors never send again after an error.
const { key } = await operator("keys", { name: "Forms", payload_template: template, misfits: "keep" });

// This address goes into the vendor's settings. Its second part becomes the source.
const address = `${new URL(OPERATOR_URL).origin}/api/signal-staging/webhook/forms/${key}`;
const answer = await fetch(address, { method: "POST", body: JSON.stringify(webhook) });
console.log(answer.status, await answer.json());

async function operator(path, body) {
  const headers = { authorization: `Bearer ${OPERATOR_TOKEN}`, "content-type": "application/json" };
  const response = await fetch(`${OPERATOR_URL}/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}
