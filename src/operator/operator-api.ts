/** The operator API (design §9), for the deployer's own systems; and the documents that are made from its routes. */
import { controlDatabase } from "../control/database.ts";
import { findWorkspace } from "../control/workspaces.ts";
import { accountRoutes } from "./account-routes.ts";
import { authorise } from "./authorise.ts";
import { createDocumentRoutes } from "./docs/docs-page.tsx";
import { destinationRoutes } from "./destination-routes.ts";
import { deletionRoutes } from "./data-care-routes.ts";
import { exportRoutes } from "./data-care-routes.ts";
import { operator } from "./environment.ts";
import { methodNotAllowed } from "../http/problem.ts";
import { healthRoutes } from "./health-routes.ts";
import { keyRoutes } from "./key-routes.ts";
import { memberRoutes } from "./member-routes.ts";
import { notFound, operationOf } from "./operation.ts";
import { planRoutes } from "./plan-routes.ts";
import { restoringRoutes } from "./restore-routes.ts";
import { rulesOnHistoryRoutes } from "./rule-routes.ts";
import { ruleImportRoutes } from "./rule-routes.ts";
import { ruleVersionRoutes } from "./rule-routes.ts";
import { ruleRoutes } from "./rule-routes.ts";
import { signalRoutes } from "./signal-routes.ts";
import { usageRoutes } from "./usage-routes.ts";
import { workspaceRoutes } from "./workspace-routes.ts";

/** No cache may store an answer: answers belong to one deployment, and some contain a secret. */
const noStore = operator.createMiddleware(async (c, next) => {
  await next();
  c.res.headers.set("cache-control", "no-store");
});

const openDatabase = operator.createMiddleware((c, next) => {
  c.set("db", controlDatabase(c.env.DB));
  return next();
});

const findWorkspaceOfPath = operator.createMiddleware(async (c, next) => {
  const workspace = await findWorkspace(c.get("db"), c.req.param("workspace_id") ?? "");
  if (workspace === null) return notFound(c, "workspace");
  c.set("workspace", workspace);
  return next();
});

const described = operator
  .createApp()
  .use(noStore, authorise, openDatabase)
  .use("/workspaces/:workspace_id/*", findWorkspaceOfPath)
  .route("/", planRoutes)
  .route("/", workspaceRoutes)
  .route("/", healthRoutes)
  .route("/", restoringRoutes)
  .route("/", memberRoutes)
  .route("/", keyRoutes)
  .route("/", ruleRoutes)
  .route("/", ruleImportRoutes)
  .route("/", ruleVersionRoutes)
  .route("/", rulesOnHistoryRoutes)
  .route("/", usageRoutes)
  .route("/", signalRoutes)
  .route("/", accountRoutes)
  .route("/", exportRoutes)
  .route("/", deletionRoutes)
  .route("/", destinationRoutes);

export const documentRoutes = createDocumentRoutes(described.routes);
export const operatorRoutes = refuseOtherMethods(described);

/** 405 with `Allow` where the path is known and the method is not. */
function refuseOtherMethods(app: typeof described): typeof described {
  const allowed = Map.groupBy(
    app.routes.filter((route) => operationOf(route.handler) !== undefined),
    (route) => route.path,
  );
  for (const [path, routes] of allowed) {
    const allow = routes.map((route) => (route.method === "GET" ? "GET, HEAD" : route.method)).join(", ");
    app.all(path, (c) => methodNotAllowed(c, allow));
  }
  return app;
}
