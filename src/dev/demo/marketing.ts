/** Senders that know whom they speak of: marketing automation and CRM workflows, one call per record. */
import { JSON_TYPE, type Call, type DemoKeys, type Sender } from "./delivery.ts";
import { type Lead, LEADS, webhookBody } from "./sender-payloads.ts";

const EMAILS = ["Spring 1", "Spring 2", "Spring 3", "Spring 4"];

export function marketing({ campaigns }: DemoKeys): Sender {
  const webhook = (body: string): Call => ({
    path: `/api/signal-staging/webhook/${campaigns}`,
    headers: JSON_TYPE,
    body,
  });
  const isInterested = (lead: Lead): boolean => lead.id % 3 === 0;
  const forms = LEADS.map((lead) => {
    const formName = isInterested(lead) ? "Demo request" : "Newsletter";
    return webhook(webhookBody(lead, "Filled Out Form", { form_name: formName }));
  });
  const opened = LEADS.flatMap((lead) =>
    EMAILS.map((email) => webhook(webhookBody(lead, "Opened Email", { email_name: email }))),
  );
  const attendees = LEADS.slice(0, 10);
  const attended = attendees.map((lead) => ({
    ...webhook(JSON.stringify({ email: lead.email, event: "Attended - Spring Webinar", properties: { minutes: 45 } })),
    path: `/api/signal-staging/webhook/webinar-tool/${campaigns}`,
  }));
  const [left] = LEADS.slice(-1) as [Lead];
  return {
    name: "Marketing automation, one call per record",
    deliveries: [
      {
        what: 'form fills, some with empty tokens (null, "")',
        calls: forms,
        status: 202,
        kept: forms.length,
        points: LEADS.filter(isInterested).map((lead) => [lead, 20]),
      },
      { what: "opened emails", calls: opened, status: 202, kept: opened.length },
      {
        what: "an unsubscription",
        calls: [webhook(webhookBody(left, "Unsubscribed"))],
        status: 202,
        kept: 1,
        points: [[left, -10]],
      },
      {
        what: "webinar attendance, source in the path",
        calls: attended,
        status: 202,
        kept: attended.length,
        points: attendees.map((lead) => [lead, 5]),
      },
      {
        what: "the form campaign once more, by mistake",
        calls: forms,
        status: 202,
        kept: forms.length,
        duplicates: forms.length,
      },
    ],
  };
}

export function crmWorkflows({ crm }: DemoKeys): Sender {
  const calls = LEADS.map((lead, at) => ({
    path: `/api/signal-staging/webhook/${crm.key}`,
    headers: { ...JSON_TYPE, "x-api-secret": crm.secret },
    body: JSON.stringify({ email: lead.email, event: "Deal Stage Changed", source: "crm", properties: { deal: at } }),
  }));
  return {
    name: "CRM workflows, with a shared secret",
    deliveries: [{ what: "deal stages, X-Api-Secret", calls, status: 202, kept: calls.length }],
  };
}

/** The last 12 of 20 are beyond the plan's signal limit: held, and so without points. */
export const BEYOND_LIMIT = 12;

export function beyondTheLimit({ campaigns }: DemoKeys): Sender {
  const signals = Array.from({ length: 20 }, (_, at) => ({
    email: "nina@example.com",
    event: "Filled Out Form",
    source: "event-app",
    properties: { form_name: at < 20 - BEYOND_LIMIT ? "Badge scan" : "Demo request", scan: at },
  }));
  const path = `/api/signal-staging/webhook/${campaigns}/batch`;
  return {
    name: "Beyond the signal limit",
    deliveries: [
      {
        what: "20 badge scans, 8 of them within the limit",
        calls: [{ path, headers: JSON_TYPE, body: JSON.stringify(signals) }],
        status: 202,
        kept: signals.length,
        held: BEYOND_LIMIT,
      },
    ],
  };
}
