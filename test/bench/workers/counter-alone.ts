/**
 * The Quota Counter without edge and queue: takes a prepared call, and small calls beside it. The queue drops all messages, because the
 * local one would keep them in the same process.
 */
import { QuotaCounter as Counter } from "../../../src/quota/quota-counter.ts";
import type { AdmitCall, AdmitResult } from "../../../src/quota/protocol.ts";
import { writeCall } from "../../../src/wire/message.ts";

export { Destinations } from "../../../src/notifications/destinations.ts";
export { SignalStore } from "../../../src/store/signal-store.ts";

const SIGNALS = { sendBatch: () => Promise.resolve() } as unknown as Env["SIGNALS"];

export class QuotaCounter extends Counter {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, { ...env, SIGNALS });
  }
}

let prepared: AdmitCall | undefined;
let sent = 0;

function small(): AdmitCall {
  const id = `sig_${crypto.randomUUID()}`;
  const payload = new TextEncoder().encode(JSON.stringify({ email: "a@example.com", event: "Visit", n: sent++ }));
  const call = writeCall({ key: "key_small" }, [{ id, payload }]);
  return { keyId: "key_small", requestId: id, invalid: [], ...call };
}

async function counted(admitted: Promise<AdmitResult>): Promise<number> {
  const result = await admitted;
  if (result.outcome !== "counted") throw new Error(result.outcome);
  return result.accepted;
}

export default {
  async fetch(request, env): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const counter = env.QUOTA_COUNTER.getByName("ws_bench");
    const admit = (call: AdmitCall) => counted(counter.admit(call) as Promise<AdmitResult>);
    switch (pathname) {
      case "/configure":
        await counter.configure([{ signalLimit: 1e9, paid: true, overages: true, anchorMs: 0, configVersion: 1 }]);
        return new Response();
      case "/prepare": {
        // The first line is everything but the bytes.
        const bytes = new Uint8Array(await request.arrayBuffer());
        const end = bytes.indexOf(0x0a);
        const call = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end))) as Omit<AdmitCall, "signals">;
        prepared = { ...call, signals: bytes.slice(end + 1) };
        return new Response();
      }
      case "/large": {
        if (prepared === undefined) throw new Error("nothing is prepared");
        const call = prepared;
        const calls = Array.from({ length: Number(searchParams.get("times")) }, () => admit(call));
        return Response.json(await Promise.all(calls));
      }
      case "/small":
        return Response.json(await admit(small()));
      default:
        return new Response(null, { status: 404 });
    }
  },
} satisfies ExportedHandler<Env>;
