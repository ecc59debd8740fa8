/** What takes in signals and processes them, by a clock that is moved, without what people and the operator ask for. */
import { ingestApp } from "../../../src/ingest/routes.ts";
import { consume } from "../../../src/queue/consumer.ts";

export * from "./shifted-objects.ts";

export default {
  fetch: (request, env, ctx) => ingestApp.fetch(request, env, ctx),
  queue: async (batch, env) => {
    if (batch.queue !== "deliveries") await consume(batch, env);
  },
} satisfies ExportedHandler<Env, string>;
