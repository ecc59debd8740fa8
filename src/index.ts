/**
 * Table of contents: routes, queue consumers, the watch over all workspaces, and Durable Objects. Ingestion is part of the start-up; everything else is
 * loaded on first use.
 */
import { configuredJurisdiction, queueKind, inJurisdiction } from "./env.ts";
import { ingestApp } from "./ingest/routes.ts";

export { Destinations } from "./notifications/destinations.ts";
export { QuotaCounter } from "./quota/quota-counter.ts";
export { SignalStore } from "./store/signal-store.ts";

/** Whether the path begins with `/api/`, without parsing the URL. */
function isIngest(url: string): boolean {
  return url.startsWith("/api/", url.indexOf("/", "https://".length));
}

export default {
  async fetch(request: Request, bindings: Env, ctx: ExecutionContext) {
    const env = inJurisdiction(bindings, configuredJurisdiction(bindings));
    if (isIngest(request.url)) return ingestApp.fetch(request, env, ctx);
    const { otherRoutes } = await import("./operator-and-pages.ts");
    return otherRoutes.fetch(request, env, ctx);
  },
  async queue(batch, bindings, ctx) {
    const env = inJurisdiction(bindings, configuredJurisdiction(bindings));
    if (queueKind(batch.queue) === "deliveries") {
      const { deliver } = await import("./notifications/delivery-consumer.ts");
      return deliver(batch as MessageBatch<string>, env, ctx);
    }
    const { consume } = await import("./queue/consumer.ts");
    await consume(batch as MessageBatch<ArrayBuffer>, env);
  },
  async scheduled({ scheduledTime }: Pick<ScheduledController, "scheduledTime">, bindings: Env) {
    const { watchHealth } = await import("./use-cases/watch-health.ts");
    await watchHealth(inJurisdiction(bindings, configuredJurisdiction(bindings)), scheduledTime);
  },
} satisfies ExportedHandler<Env>;
