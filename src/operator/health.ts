/** How full a workspace is, and what waits: for whoever watches over the service. */
import * as z from "zod";
import type { Health } from "../workspace/health.ts";
import { readHealth } from "../workspace/health.ts";
import { operator } from "./environment.ts";
import { operation } from "./operation.ts";
import { count, instant, isoOrNull } from "./schemas.ts";

const filled = { bytes: count, max_bytes: count.meta({ description: "From here on it takes nothing new." }) };

const healthAnswer = z
  .object({
    status: z.enum(["ok", "filling", "full", "restored", "refusing"]).meta({
      description:
        "`filling`: the Signal Store is nearly full. `full`: signals are accepted, and none is processed until there is " +
        "room. `restored`: the Quota Counter was restored from a backup, and waits to be recovered. `refusing`: as many " +
        "wait as there is room for, and new calls get 503.",
    }),
    store: z.object(filled).meta({ description: "What the workspace's signals, people and accounts take." }),
    outbox: z.object({
      ...filled,
      signals: count.meta({ description: "Accepted, and waiting to be processed." }),
      oldest_at: instant.nullable().meta({ description: "When the oldest of them was received." }),
    }),
    duplicates_covered_seconds: count.meta({
      description:
        "How far back signals with an id of their own are compared with others: seven days, or less while memory is short.",
    }),
  })
  .meta({ id: "WorkspaceHealth" });

export const healthRoutes = operator.createApp().get(
  "/workspaces/:workspace_id/health",
  operation({
    tag: "Workspaces",
    summary: "How full a workspace is, and what waits",
    description:
      "Nothing that was accepted is lost when a workspace is full: it waits. A shorter retention of its plan and the " +
      "deletion of people make room.",
    answers: { 200: { description: "Where it stands.", schema: healthAnswer } },
  }),
  async (c) => c.json(healthJson(await readHealth(c.env, c.get("workspace").id))),
);

function healthJson({ level, store, outbox, ...health }: Health): z.infer<typeof healthAnswer> {
  return {
    status: level,
    store: { bytes: store.bytes, max_bytes: store.maxBytes },
    outbox: {
      bytes: outbox.bytes,
      max_bytes: outbox.maxBytes,
      signals: health.waiting,
      oldest_at: isoOrNull(health.waitingSinceMs),
    },
    duplicates_covered_seconds: Math.floor(health.duplicatesCoveredMs / 1_000),
  };
}
