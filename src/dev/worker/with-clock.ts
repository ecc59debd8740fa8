/** The Worker with a settable clock, to simulate weeks in seconds. Never deployed. */
import worker from "../../index.ts";

export * from "./shifted-objects.ts";

const realNow = Date.now;
let aheadMs = 0;
Date.now = () => realNow() + aheadMs;

export default {
  ...worker,
  fetch(request: Request, env: Env, ctx: ExecutionContext): Promise<Response> | Response {
    const at = request.headers.get("x-clock");
    if (at !== null) aheadMs = at === "now" ? 0 : Number(at) - realNow();
    return worker.fetch(request, env, ctx);
  },
} satisfies ExportedHandler<Env, string>;
