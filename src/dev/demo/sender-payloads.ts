/** Whom the demo's signals are about, and how marketing platforms and customer data platforms put that on the wire. */

export interface Lead {
  id: number;
  email: string;
  firstName: string;
  lastName: string;
  company: string | null;
  title: string | null;
}

/** The marketing platform's records, of which some are not complete. */
export const LEADS: readonly Lead[] = [
  lead(5001, "Peter", "Gibbons", "Initech", "Engineer"),
  lead(5002, "Samir", "Nadeem", "Initech", "Engineer"),
  lead(5003, "Joanna", "Reyes", "Corner Table", "Manager"),
  lead(5004, "Milton", "Wade", "Initech", ""),
  lead(5005, "Nina", "Okafor", "Acme & Sons", "Head of Marketing"),
  lead(5006, "Lars", "Bergström", "Fjord Logistik", "CTO"),
  lead(5007, "Aiko", "Tanaka", "Hoshi Robotics", "Buyer"),
  lead(5008, "Rosa", "Delgado", "Luz Solar", "Founder"),
  lead(5009, "Tom", "O'Neill", null, null),
  lead(5010, "Priya", "Raman", "Banyan Health", "Product Lead"),
  lead(5011, "Emil", "Nowak", null, ""),
  lead(5012, "Clara", "Martin", "Atelier Nord", null),
];

/** A visitor of the website. Who it is becomes known once they identify themselves, if ever. */
export interface Visitor {
  anonymousId: string;
  userId: string;
  lead: Lead | null;
}

/** Visitors of the website: two whom marketing knows, three new people, and three who stay anonymous. */
export const VISITORS: readonly Visitor[] = [
  ...LEADS.slice(0, 2),
  lead(0, "Grace", "Lindqvist", "Northwind Analytics", "Analyst"),
  lead(0, "Omar", "Haddad", "Cedar Freight", "Dispatcher"),
  lead(0, "Yuki", "Mori", "Studio Mori", "Architect"),
  null,
  null,
  null,
].map((known, at) => ({ anonymousId: `507f191e810c19729de860e${at}`, userId: `97980cfea006${at}`, lead: known }));

export const IDENTIFIED = VISITORS.filter((visitor): visitor is Visitor & { lead: Lead } => visitor.lead !== null);

function lead(id: number, firstName: string, lastName: string, company: string | null, title: string | null): Lead {
  return { id, email: `${firstName.toLowerCase()}@example.com`, firstName, lastName, company, title };
}

/** A campaign's webhook template with its tokens filled: texts arrive quoted, empty ones as `null` or `""`. */
export function webhookBody(record: Lead, event: string, properties: Record<string, unknown> = {}): string {
  const token = (value: unknown): string => JSON.stringify(value);
  const further = Object.entries(properties).map(([name, value]) => `, ${token(name)}: ${token(value)}`);
  return `{ "email": ${token(record.email)}, "event": ${token(event)}, "source": "marketing-automation",
  "properties": { "lead_id": ${record.id}, "first_name": ${token(record.firstName)}, "last_name": ${token(record.lastName)},
    "company": ${token(record.company)}, "title": ${token(record.title)}${further.join("")} } }`;
}

export interface CdpCall {
  type: string;
  messageId: string;
  [field: string]: unknown;
}

let messages = 0;

/** A call as a customer data platform's webhook destination makes it. */
export function cdpCall(type: string, fields: Record<string, unknown>): CdpCall {
  const messageId = `ajs-022bb90c-bbac-11e4-8dfc-${String(++messages).padStart(12, "0")}`;
  const now = new Date().toISOString();
  return { type, messageId, ...fields, timestamp: now, sentAt: now, receivedAt: now, version: "1.1" };
}

export function pageCall({ anonymousId }: Visitor, name: string, url: string): CdpCall {
  return cdpCall("page", { anonymousId, name, properties: { title: name, url } });
}

export function trackCall({ anonymousId }: Visitor, event: string, properties: Record<string, unknown>): CdpCall {
  return cdpCall("track", { anonymousId, event, properties, context: { page: { url: "https://app.example.com/" } } });
}

export function identifyCall({ anonymousId, userId, lead: known }: Visitor): CdpCall {
  const traits = known && {
    email: known.email,
    name: `${known.firstName} ${known.lastName}`,
    company: { name: known.company },
    title: known.title,
  };
  return cdpCall("identify", { anonymousId, userId, traits });
}
