/** The process of the Neighbour. A call that is late does not delay the next one. */
import { request } from "node:http";
import { NEIGHBOUR_PAUSE_MS, type NeighbourCall, type NeighbourOrder } from "./neighbour.ts";

/** After this time a call counts as lost. */
const GIVEN_UP_MS = 60_000;

const nowMs = (): number => performance.timeOrigin + performance.now();

let pending: Promise<NeighbourCall>[] = [];
let timer: NodeJS.Timeout | undefined;
let nth = 0;

function begin(order: NeighbourOrder): void {
  pending = [];
  let dueMs = nowMs();
  // The schedule counts, not the timer: after a delay all due calls are sent at once.
  timer = setInterval(() => {
    for (; dueMs <= nowMs(); dueMs += NEIGHBOUR_PAUSE_MS) pending.push(send(order, dueMs));
  }, 5);
}

function send({ origin, path }: NeighbourOrder, dueMs: number): Promise<NeighbourCall> {
  const body = JSON.stringify({ email: "ann@neighbour.example", event: "Visit", properties: { n: nth++ } });
  return new Promise((resolve) => {
    const done = (status: number): void => resolve({ dueMs, ms: nowMs() - dueMs, status });
    // A connection for each call, because the runtime may close a kept one at the moment of its next use.
    const options = { method: "POST", agent: false, timeout: GIVEN_UP_MS } as const;
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const sent = request(origin + path, { ...options, headers }, (answer) => {
      answer.resume();
      answer.on("end", () => done(answer.statusCode ?? 0)).on("error", () => done(0));
    });
    sent.on("timeout", () => sent.destroy(new Error("timeout")));
    sent.on("error", () => done(0));
    sent.end(body);
  });
}

process.on("message", (order: NeighbourOrder | "end") => {
  if (order !== "end") begin(order);
  else {
    clearInterval(timer);
    void Promise.all(pending).then((calls) => process.send?.(calls));
  }
});
