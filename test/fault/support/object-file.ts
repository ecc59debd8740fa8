/** The database file of a workspace's object. */
import path from "node:path";
import type { Service } from "../../support/service.ts";

const CLASSES = { QUOTA_COUNTER: "QuotaCounter", SIGNAL_STORE: "SignalStore" } as const;

/** In a running service; the file keeps its place. */
export async function objectFile(
  service: Service,
  binding: keyof typeof CLASSES,
  workspaceId: string,
): Promise<string> {
  const objects = await service.running.miniflare.getDurableObjectNamespace(binding, "worker");
  const file = `${objects.idFromName(workspaceId).toString()}.sqlite`;
  return path.join(service.stateDir, `do/worker-${CLASSES[binding]}`, file);
}
