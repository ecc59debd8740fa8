/** Table of contents: middlewares, routes, queue consumers and Durable Objects. No logic. */
import { factory } from "./env.ts";
import { onError, onNotFound } from "./http/errors.ts";
import { requestLog } from "./http/request-log.ts";
import { ingestRoutes } from "./ingest/routes.ts";
import { documentRoutes, operatorRoutes } from "./operator/routes.ts";
import { pageRoutes } from "./pages/routes.tsx";
import { consume } from "./queue/consumer.ts";

export { QuotaCounter } from "./quota/quota-counter.ts";
export { SignalStore } from "./store/signal-store.ts";

const app = factory
  .createApp({ strict: false })
  .use(requestLog)
  .route("/api", ingestRoutes)
  .route("/operator", operatorRoutes)
  .route("/", documentRoutes)
  .route("/", pageRoutes)
  .notFound(onNotFound)
  .onError(onError);

export default { fetch: app.fetch, queue: consume } satisfies ExportedHandler<Env, string>;
