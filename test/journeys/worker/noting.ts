/** The whole service with a moved clock, and a path that reads which functions have run. */
import shifted from "../../../src/dev/worker/shifted.ts";

export * from "../../../src/dev/worker/shifted-objects.ts";

/** The numbers of the functions that have run; see ../counted-functions.ts, which creates the set. */
declare const __functionsRun: Set<number>;

export default {
  ...shifted,
  async fetch(request, env, ctx) {
    if (!request.url.endsWith("/functions-run")) return shifted.fetch(request, env, ctx);
    const numbers = [...__functionsRun];
    __functionsRun.clear();
    return Response.json(numbers);
  },
} satisfies ExportedHandler<Env>;
