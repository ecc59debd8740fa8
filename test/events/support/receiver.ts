/**
 * A receiver of events on this machine: records requests, checks their signatures with the library, and returns
 * chosen answers.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";

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
}

export class Receiver {
  readonly received: Received[] = [];
  /** Requests that the library refused. */
  readonly forged: string[] = [];
  /** The secret that signs the events; null: signatures are not checked. */
  secret: string | null = null;
  answer: (response: ServerResponse, nth: number) => void | Promise<void> = (response) => void response.end("thanks");
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    server.on("request", (request, response) => void this.#take(request, response));
  }

  static async listen(): Promise<Receiver> {
    const server = createServer();
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    return new Receiver(server);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/in`;
  }

  ofType(type: string): Received[] {
    return this.received.filter(({ body }) => body?.type === type);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => {
      this.#server.close(resolve);
    });
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
        new Webhook(this.secret).verify(text, headers);
      } catch (error) {
        this.forged.push(String(error));
      }
    }
    const body = headers["webhook-id"] === undefined ? null : (JSON.parse(text) as EventBody);
    this.received.push({ id: headers["webhook-id"] ?? "", body, text, signatures });
    await this.answer(response, this.received.length);
  }
}
