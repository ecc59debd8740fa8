/** A receiver of events in place of the network: records requests and returns chosen answers. */
import { Webhook } from "standardwebhooks";
import { vi } from "vitest";

export interface ReceivedEvent {
  url: string;
  id: string;
  headers: Headers;
  text: string;
  body: { id: string; type: string; time: string; workspace: string; data: Record<string, unknown> };
  redirect: string;
}

export class Receiver {
  readonly url: string;
  readonly received: ReceivedEvent[] = [];
  answer: (nth: number) => Response | Promise<Response> = () => new Response("thanks");

  constructor(host = `hook-${crypto.randomUUID()}.example.com`, path = "/in") {
    this.url = `https://${host}${path}`;
  }

  ids(): string[] {
    return this.received.map(({ id }) => id);
  }

  verify(secret: string, { headers, text } = this.received.at(-1) ?? { headers: new Headers(), text: "" }): unknown {
    return new Webhook(secret).verify(text, Object.fromEntries(headers));
  }
}

let listening: readonly Receiver[] = [];

/** Replaces all receivers from now on. */
export function listen(...receivers: Receiver[]): void {
  listening = receivers;
}

// Stays active for all tests of the file, so that late deliveries of an earlier test never reach the network.
vi.stubGlobal("fetch", async (input: RequestInfo, init?: RequestInit) => {
  const request = new Request(input, init);
  const receiver = listening.find(({ url }) => request.url === url);
  if (receiver === undefined) throw new Error(`nobody listens at ${request.url}`);
  const text = await request.text();
  receiver.received.push({
    url: request.url,
    id: request.headers.get("webhook-id") ?? "",
    headers: request.headers,
    text,
    body: JSON.parse(text) as ReceivedEvent["body"],
    redirect: request.redirect,
  });
  return receiver.answer(receiver.received.length);
});
