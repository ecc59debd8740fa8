/** The part of the service that accepts and processes signals, with a moved clock, without pages and operator API. */
import { ingestApp } from "../../../src/ingest/routes.ts";
import { consume } from "../../../src/queue/consumer.ts";

export * from "../../../src/dev/worker/shifted-objects.ts";

export default {
  fetch: (request, env, ctx) => ingestApp.fetch(request, env, ctx),
  queue: async (batch, env) => {
    if (batch.queue !== "deliveries") await consume(batch, env);
  },
} satisfies ExportedHandler<Env, ArrayBuffer>;
