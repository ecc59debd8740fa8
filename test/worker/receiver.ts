/** A receiver of events in place of the network: what it was sent, and what it answers. */
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

  constructor(host = `hook-${crypto.randomUUID()}.example.com`) {
    this.url = `https://${host}/in`;
  }

  ids(): string[] {
    return this.received.map(({ id }) => id);
  }

  verify(secret: string, { headers, text } = this.received.at(-1) ?? { headers: new Headers(), text: "" }): unknown {
    return new Webhook(secret).verify(text, Object.fromEntries(headers));
  }
}

/** Whatever is fetched goes to one of these, by its URL. */
export function listen(...receivers: Receiver[]): void {
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    const request = new Request(input, init);
    const receiver = receivers.find(({ url }) => request.url === url);
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
}
