/** How one workspace is, and how all are: for whoever watches over the service, and for what wakes them. */
import * as z from "zod";
import type { ControlDatabase } from "../../control/database.ts";
import { openRestores } from "../../control/restores.ts";
import { workspacesByAge } from "../../control/workspaces.ts";
import type { AppEnv } from "../../env.ts";
import { HEALTH_PAGE_WORKSPACES, healthOfAll } from "../../workspace/all-health.ts";
import type { WorkspaceHealth } from "../../workspace/all-health.ts";
import { healthWithin } from "../../workspace/read-health.ts";
import { operator } from "../environment.ts";
import { allHealthAnswer, allHealthJson, healthAnswer, healthJson } from "../answers/health-answers.ts";
import { METRICS_TYPE, metricsText } from "../answers/health-metrics.ts";
import { operation } from "../operation.ts";

const COST =
  `At most ${HEALTH_PAGE_WORKSPACES} workspaces in an answer, oldest first; \`page\` has the others. It takes fifteen seconds at ` +
  "most, and says which workspaces there was no time to ask. Each takes a call of each of its objects, and wakes them: at " +
  "list price $0.30 for a million workspaces asked, $0.45 with destinations.";

const query = z.strictObject({
  page: z.coerce.number().int().min(1).max(10_000).default(1).meta({ description: "From 1 on." }),
});

export const healthRoutes = operator
  .createApp()
  .get(
    "/health",
    operation({
      tag: "Health",
      summary: "How all workspaces are",
      description: `One word for a monitor, and the workspaces that are not \`ok\`, each with what to do. ${COST}`,
      query,
      answers: { 200: { description: "The gravest word, and where it comes from.", schema: allHealthAnswer } },
    }),
    async (c) => {
      const { page } = c.req.valid("query");
      const { total, found } = await healthOfPage(c.env, c.get("db"), page);
      return c.json(allHealthJson(found, page * HEALTH_PAGE_WORKSPACES < total ? page + 1 : null));
    },
  )
  .get(
    "/metrics",
    operation({
      tag: "Health",
      summary: "The figures of all workspaces",
      description: `In the OpenMetrics text format, for Prometheus and its like. ${COST}`,
      query,
      answers: {
        200: { description: "The figures.", content: { [METRICS_TYPE.split(";")[0] ?? ""]: z.string() } },
      },
    }),
    async (c) => {
      const { total, found } = await healthOfPage(c.env, c.get("db"), c.req.valid("query").page);
      return c.body(await metricsText(found, total, Date.now()), 200, { "content-type": METRICS_TYPE });
    },
  )
  .get(
    "/workspaces/:workspace_id/health",
    operation({
      tag: "Health",
      summary: "How a workspace is",
      description:
        "How full it is, what waits and what fails, or that its objects did not answer within five seconds, and which. " +
        "Nothing that was accepted is lost when a workspace is full: it waits.",
      answers: { 200: { description: "Where it stands.", schema: healthAnswer } },
    }),
    async (c) => {
      const { id } = c.get("workspace");
      const open = await openRestores(c.get("db"), [id]);
      return c.json(healthJson(await healthWithin(c.env, id, open.get(id) ?? [])));
    },
  );

/** The health of a page of workspaces, from 1. */
async function healthOfPage(
  env: AppEnv["Bindings"],
  db: ControlDatabase,
  page: number,
): Promise<{ total: number; found: WorkspaceHealth[] }> {
  const limit = HEALTH_PAGE_WORKSPACES;
  const { total, workspaces } = await workspacesByAge(db, { offset: (page - 1) * limit, limit });
  const open = await openRestores(
    db,
    workspaces.map(({ id }) => id),
  );
  const found = await healthOfAll(env, workspaces, open);
  return { total, found };
}
