/** Three weeks of a workspace's signals, the same ones each time, for the pictures and for `npm run dev -- --sample`. */
import type { DemoKeys } from "./delivery.ts";
import { LEADS } from "./sender-payloads.ts";
import { randomNumbers } from "../random-numbers.ts";

const DAY_MS = 86_400_000;
const DAYS = 20;

interface Hour {
  atMs: number;
  calls: { path: string; headers: Record<string, string>; body: string }[];
}

/** When the workspace begins. */
export function beginOf(untilMs: number): number {
  return untilMs - DAYS * DAY_MS;
}

/** The hours up to one before `untilMs`, each with the calls that come in it. */
export function weeks(untilMs: number, keys: DemoKeys): Hour[] {
  const random = randomNumbers(7);
  const pick = <T>(from: readonly [T, ...T[]]): T => from[Math.floor(random() * from.length)] ?? from[0];
  const [first, ...rest] = LEADS;
  const someone = () => pick([first ?? NOBODY, ...rest]);
  const visitor = () => `visitor-${Math.floor(random() * 40)}`;

  const web = (event: string, properties: object, who: object) => ({ event, source: "website", properties, ...who });
  const kinds = [
    () => web("Page Viewed", { url: `https://example.com${pick(PAGES)}` }, { anonymousId: visitor() }),
    () => web("Page Viewed", { url: `https://example.com${pick(PAGES)}` }, { email: someone().email }),
    () => mail("Opened Email", someone().email, { email_name: pick(MAILS) }),
    () => mail("Opened Email", someone().email, { email_name: pick(MAILS) }),
    () => mail("Clicked Email", someone().email, { email_name: pick(MAILS), link: "/pricing" }),
    () => mail("Filled Out Form", someone().email, { form_name: pick(["Newsletter", "Newsletter", "Demo request"]) }),
    () => mail("Registered - Autumn Webinar", someone().email, { program_name: "Autumn Webinar" }),
    () => ({ ...web("Feature Used", { feature: pick(FEATURES) }, { email: someone().email }), source: "product" }),
    () => ({ ...web("Deal Stage Changed", { stage: pick(STAGES) }, { email: someone().email }), source: "crm" }),
  ] as const;

  const hours: Hour[] = [];
  for (let at = beginOf(untilMs); at < untilMs - 3_600_000; at += DAY_MS / 4) {
    const day = new Date(at).getUTCDay();
    const many = day === 0 || day === 6 ? 5 : 20;
    const signals = Array.from({ length: Math.round(many * (0.7 + random() * 0.6)) }, () => ({
      ...pick(kinds)(),
      messageId: `m-${Math.floor(random() * 1e12)}`,
    }));
    const path = `/api/signal-staging/webhook/${keys.campaigns}/batch`;
    const calls = [{ path, headers: {}, body: JSON.stringify(signals) }];
    if (hours.length === 0)
      calls.push(...LEADS.map((lead) => ({ path, headers: {}, body: JSON.stringify(named(lead)) })));
    hours.push({ atMs: at + Math.floor(random() * 3_600_000), calls });
  }
  return hours;
}

type Lead = (typeof LEADS)[number];
const NOBODY: Lead = { id: 0, email: "", firstName: "", lastName: "", company: null, title: null };
const PAGES = ["/", "/pricing", "/blog/first-party-data", "/customers", "/docs"] as const;
const MAILS = ["October news", "Product update", "Webinar invitation"] as const;
const FEATURES = ["export", "dashboards", "alerts", "sharing"] as const;
const STAGES = ["qualified", "proposal", "negotiation"] as const;

function mail(event: string, email: string, properties: object): object {
  return { event, source: "marketing-automation", email, properties };
}

function named({ id, email, firstName, lastName, company, title }: Lead): object {
  const traits = { email, name: `${firstName} ${lastName}`, company, title };
  return { type: "identify", messageId: `identify-${id}`, anonymousId: `browser-${id}`, userId: `user-${id}`, traits };
}
