/** Exports of whole workspaces, and the closing of a workspace before it moves. The Signal Store writes the parts (store/transfer). */
import type { JsonObject } from "../domain/json/json-value.ts";
import { auditEntry } from "../d1/audit.ts";
import { setState } from "../d1/imports.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { newId } from "../platform/ids.ts";
import { within } from "../platform/time-limit.ts";
import { partKey } from "../wire/workspace-file.ts";
import { quotaCounter, signalStore, type WorkspaceContext } from "./objects.ts";

interface ShownExport {
  id: string;
  requestedAtMs: number;
  state: "waiting" | "writing" | "complete" | "failed";
  error: string | null;
  parts: number;
  bytes: number;
  /** A FileManifest. */
  manifest: JsonObject | null;
}

/** Begins an export, or joins the one that runs. */
export async function beginExport({ env, db, workspaceId, by }: WorkspaceContext): Promise<ShownExport | null> {
  const id = newId("exp", by.nowMs);
  const begun = await signalStore(env, workspaceId).beginExport(id);
  // The entry belongs to no workspace, because the file has those of the workspace.
  if (begun === id) {
    await auditEntry(db, by, { workspaceId: null, action: "workspace.exported", target: workspaceId, detail: { id } });
  }
  return findExport({ env, workspaceId }, begun);
}

/** Null: there is none, or not any more. */
export async function findExport(
  { env, workspaceId }: Pick<WorkspaceContext, "env" | "workspaceId">,
  id: string,
): Promise<ShownExport | null> {
  const progress = await signalStore(env, workspaceId).exportProgress(id);
  if (progress === null) return null;
  const stored = progress.state === "complete" ? await env.COLD.get(partKey(workspaceId, id, "manifest")) : null;
  return { ...progress, manifest: stored === null ? null : await stored.json<JsonObject>() };
}

export function readPart(
  { env, workspaceId }: WorkspaceContext,
  exportId: string,
  part: number,
): Promise<R2ObjectBody | null> {
  return within(CALL_TIMEOUT_MS, env.COLD.get(partKey(workspaceId, exportId, part)));
}

/** A closed workspace takes no signals: senders get 503 with Retry-After. Its signals on their way are recorded. Idempotent. */
export async function closeWorkspace({ env, db, workspaceId, by }: WorkspaceContext): Promise<void> {
  await quotaCounter(env, workspaceId).setClosed("moving");
  await setState(db, workspaceId, by, "closed");
}

export async function openWorkspace({ env, db, workspaceId, by }: WorkspaceContext): Promise<void> {
  await setState(db, workspaceId, by, "active");
  await quotaCounter(env, workspaceId).setClosed(null);
}
