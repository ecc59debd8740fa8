/** The calls of this service's operator API that the bench and the tests of the built Worker need (design §9). */
import * as z from "zod";
import { OperatorClient } from "../../src/dev/operator-client.ts";
import type { BenchRule } from "./rules.ts";

const CreatedWorkspace = z.object({ id: z.string() });
const CreatedKey = z.object({ id: z.string(), key: z.string(), secret: z.string().optional() });
const BooksAnswer = z.object({
  accepted: z.int(),
  processed: z.int(),
  in_flight: z.int(),
  balanced: z.boolean(),
});

export type Books = z.infer<typeof BooksAnswer>;

export class OperatorApi extends OperatorClient {
  /** A workspace with one key and these mapping rules, on a separate plan. */
  async provision(
    signalLimit: number,
    rules: BenchRule[],
    slug = "bench",
    anchor = new Date().toISOString(),
    plan = "bench",
  ): Promise<{ workspaceId: string; keyId: string; key: string }> {
    await this.call("PUT", `plans/${plan}`, { name: "Bench", signal_limit: signalLimit, paid: true });
    const workspace = CreatedWorkspace.parse(
      await this.call("POST", "workspaces", { slug, name: "Bench", plan, anchor }),
    );
    const { id: keyId, key } = CreatedKey.parse(
      await this.call("POST", `workspaces/${workspace.id}/keys`, { name: "Bench" }),
    );
    for (const rule of rules) await this.call("POST", `workspaces/${workspace.id}/rules`, rule);
    return { workspaceId: workspace.id, keyId, key };
  }

  /** @param options such as `{ secret: true }`. */
  async newKey(workspaceId: string, options: Record<string, unknown> = {}): Promise<z.infer<typeof CreatedKey>> {
    return CreatedKey.parse(await this.call("POST", `workspaces/${workspaceId}/keys`, { name: "Bench", ...options }));
  }

  async deactivate(workspaceId: string, keyId: string): Promise<void> {
    await this.call("POST", `workspaces/${workspaceId}/keys/${keyId}/deactivate`);
  }

  async books(workspaceId: string): Promise<Books> {
    return BooksAnswer.parse(await this.call("GET", `workspaces/${workspaceId}/books`));
  }
}
