/** Point-in-time recovery of a workspace's objects. */
import * as z from "zod";
import { restoreObject, RESTORABLE } from "../../workspace/restore-object.ts";
import { byOperator, operator } from "../environment.ts";
import { conflict, operation } from "../operation.ts";
import { time } from "../schema-parts.ts";

const object = z.enum(RESTORABLE);
const body = z.union([
  z.strictObject({ object, at: time.meta({ description: "A moment of the last thirty days." }) }),
  z.strictObject({ object, bookmark: z.string().min(1).max(200).meta({ description: "`undo` of an earlier call." }) }),
]);

export const restoringRoutes = operator.createApp().post(
  "/workspaces/:workspace_id/restore",
  operation({
    tag: "Workspaces",
    summary: "Put an object back to how it was",
    description:
      "By the platform's point-in-time recovery. What came since is lost from the Signal Store; the Quota Counter is to be " +
      "recovered afterwards. The local runtime has no such recovery.",
    body,
    bodyExample: { object: "quota_counter", at: "2026-11-22T03:00:00.000Z" },
    answers: {
      200: {
        description: "It is as it was.",
        schema: z.object({ undo: z.string().meta({ description: "A bookmark of the moment before, to undo it." }) }),
      },
    },
    conflicts: ["not_restorable"],
  }),
  async (c) => {
    const { object: which, ...wanted } = c.req.valid("json");
    const point = "at" in wanted ? { atMs: Date.parse(wanted.at) } : wanted;
    const restored = await restoreObject(c.env, c.get("db"), c.get("workspace").id, which, point, byOperator());
    return restored.ok ? c.json(restored.value) : conflict(c, "not_restorable", restored.refusal);
  },
);
