/** Between an SDK and the service: passes each call on unchanged, and records request and answer. */
import { request, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import { listen, type Listener } from "../../support/listen.ts";

export interface Call {
  path: string;
  headers: IncomingHttpHeaders;
  /** Number of events in the call. */
  messageIds: string[];
  receivedAtMs: number;
  answeredAtMs: number;
  status: number;
  retryAfterS: number;
  answer: { accepted?: number; rejected?: number; results?: object[] };
}

export interface Relay extends Listener {
  /** In the order of their answers. */
  calls: Call[];
}

export async function relay(to: string): Promise<Relay> {
  const calls: Call[] = [];
  const listener = await listen((incoming, outgoing) => {
    passOn(to, incoming, outgoing).then(
      (call) => calls.push(call),
      (error: unknown) => outgoing.destroy(error as Error),
    );
  });
  return { ...listener, calls };
}

async function passOn(to: string, incoming: IncomingMessage, outgoing: ServerResponse): Promise<Call> {
  const receivedAtMs = Date.now();
  const { method, headers, url: path = "" } = incoming;
  const body = await buffer(incoming);
  const answered = await new Promise<IncomingMessage>((resolve, reject) => {
    request(`${to}${path}`, { method, headers }, resolve).on("error", reject).end(body);
  });
  const answer = await buffer(answered);
  const status = answered.statusCode ?? 0;
  const sent = JSON.parse(String(headers["content-encoding"] === "gzip" ? gunzipSync(body) : body)) as {
    batch: { messageId: string }[];
  };
  outgoing.writeHead(status, answered.headers).end(answer);
  return {
    path,
    headers,
    messageIds: sent.batch.map(({ messageId }) => messageId),
    receivedAtMs,
    answeredAtMs: Date.now(),
    status,
    retryAfterS: Number(answered.headers["retry-after"]),
    answer: JSON.parse(String(answer)) as Call["answer"],
  };
}
