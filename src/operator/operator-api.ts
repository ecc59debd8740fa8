/** The operator API and the documents that are made from its routes. */
import { Hono } from "hono";
import { methodNotAllowed } from "../http/problem.ts";
import { accountRoutes } from "./account-routes.ts";
import { authorise, findWorkspaceOfPath, noStore, requireScope } from "./authorise.ts";
import { deletionRoutes, exportRoutes } from "./data-care-routes.ts";
import { destinationRoutes } from "./destination-routes.ts";
import { createDocumentRoutes } from "./docs/docs-page.tsx";
import { openApiDocument } from "./docs/openapi.ts";
import { exclusionRoutes } from "./exclusion-routes.ts";
import { healthRoutes } from "./health-routes.ts";
import { keyRoutes } from "./key-routes.ts";
import { memberRoutes } from "./member-routes.ts";
import type { OperatorEnv } from "./operation.ts";
import { planRoutes } from "./plan-routes.ts";
import { ruleRoutes } from "./rule-routes.ts";
import { signalRoutes } from "./signal-routes.ts";
import { templateRoutes } from "./template-routes.ts";
import { transferRoutes } from "./transfer-routes.ts";
import { tokenRoutes } from "./token-routes.ts";
import { usageRoutes } from "./usage-routes.ts";
import { workspaceRoutes } from "./workspace-routes.ts";

export const OPERATIONS = [
  ...planRoutes,
  ...workspaceRoutes,
  ...transferRoutes,
  ...healthRoutes,
  ...memberRoutes,
  ...keyRoutes,
  ...templateRoutes,
  ...tokenRoutes,
  ...ruleRoutes,
  ...exclusionRoutes,
  ...usageRoutes,
  ...signalRoutes,
  ...accountRoutes,
  ...exportRoutes,
  ...deletionRoutes,
  ...destinationRoutes,
];

export const documentRoutes = createDocumentRoutes(() => openApiDocument(OPERATIONS));

export const operatorRoutes = new Hono<OperatorEnv>()
  .use(noStore, authorise)
  .use("/workspaces/:workspace_id/*", findWorkspaceOfPath);
for (const operation of OPERATIONS) {
  operatorRoutes.on(operation.method, operation.path, requireScope(operation), operation.handler);
}
for (const [path, operations] of Map.groupBy(OPERATIONS, (operation) => operation.path)) {
  const allow = operations.map(({ method }) => (method === "GET" ? "GET, HEAD" : method)).join(", ");
  operatorRoutes.all(path, (c) => methodNotAllowed(c, allow));
}
