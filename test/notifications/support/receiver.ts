/**
 * A receiver of notifications on this machine: records requests, checks their signatures with the library, and returns
 * chosen answers.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Webhook } from "standardwebhooks";
import { listen, type Listener } from "../../support/listen.ts";
import type { OperatorApi, ProvisionedWorkspace } from "../../bench/operator-api.ts";

export interface EventBody {
  id: string;
  type: string;
  time: string;
  workspace: string;
  data: Record<string, unknown>;
}

export interface Received {
  id: string;
  /** Null for a Slack-compatible webhook. */
  body: EventBody | null;
  text: string;
  signatures: number;
  authorization: string | null;
}

export class Receiver {
  readonly received: Received[] = [];
  /** Requests that the library rejected. */
  readonly forged: string[] = [];
  /** The secret that signs the notifications; null: signatures are not checked. */
  secret: string | null = null;
  /** The sender's clock is this far ahead of this machine's: a signature is valid for minutes. */
  aheadMs = 0;
  answer: (response: ServerResponse, nth: number) => void | Promise<void> = (response) => void response.end("thanks");
  #listener: Listener | undefined;

  static async listen(): Promise<Receiver> {
    const receiver = new Receiver();
    receiver.#listener = await listen((request, response) => void receiver.#take(request, response));
    return receiver;
  }

  get url(): string {
    return `${this.#listener?.origin}/in`;
  }

  ofType(type: string): Received[] {
    return this.received.filter(({ body }) => body?.type === type);
  }

  /** Subscribes to notifications of a workspace, and checks their signatures. @returns the id of the destination. */
  async subscribe(
    api: OperatorApi,
    { home }: ProvisionedWorkspace,
    notifications = ["person.score_crossed", "person.scored"],
    type = "webhook",
  ): Promise<string> {
    const wanted = { name: "Receiver", type, target: this.url, notifications };
    const { id, secret = null } = await api.post<{ id: string; secret?: string }>(`${home}/destinations`, wanted);
    this.secret = secret;
    return id;
  }

  close(): void {
    this.#listener?.close();
  }

  /** The library reads the time from `Date.now`. */
  #verify(secret: string, text: string, headers: Record<string, string>): void {
    const { now } = Date;
    Date.now = () => now() + this.aheadMs;
    try {
      new Webhook(secret).verify(text, headers);
    } finally {
      Date.now = now;
    }
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer);
    } catch {
      // The sender was killed.
      return;
    }
    const text = Buffer.concat(chunks).toString();
    const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
    const signatures = headers["webhook-signature"]?.split(" ").length ?? 0;
    if (this.secret !== null) {
      try {
        this.#verify(this.secret, text, headers);
      } catch (error) {
        this.forged.push(String(error));
      }
    }
    const body = headers["webhook-id"] === undefined ? null : (JSON.parse(text) as EventBody);
    const { authorization = null } = headers;
    this.received.push({ id: headers["webhook-id"] ?? "", body, text, signatures, authorization });
    await this.answer(response, this.received.length);
  }
}
