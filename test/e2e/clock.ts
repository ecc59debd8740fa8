/** The built Worker with a clock that can be set, so that what takes weeks is there in seconds. */
import path from "node:path";
import type { BuiltWorker } from "../bench/build.ts";

const WRAPPER = `
import worker from "./index.js";
export * from "./index.js";
const now = Date.now;
let ahead = 0;
Date.now = () => now() + ahead;
export default {
  ...worker,
  fetch(request, env, context) {
    const at = request.headers.get("x-clock");
    if (at !== null) ahead = at === "now" ? 0 : Number(at) - now();
    return worker.fetch(request, env, context);
  },
};`;

export function withClock(built: BuiltWorker): BuiltWorker {
  const wrapper = { type: "ESModule" as const, path: path.join(built.outDir, "clock.js"), contents: WRAPPER };
  return { ...built, modules: [wrapper, ...built.modules] };
}

/** From then on it is this time there, and goes on. */
export async function setClock(origin: string, at: number | "now"): Promise<void> {
  await fetch(`${origin}/healthz`, { headers: { "x-clock": String(at) } });
}
