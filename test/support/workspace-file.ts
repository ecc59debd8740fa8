/** Exports and imports of whole workspaces, as `npm run workspace` makes them. */
import { runDurableObjectAlarm } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { gunzipSync } from "node:zlib";
import type { FileLine, FileManifest } from "../../src/wire/workspace-file.ts";
import { until } from "./until.ts";
import { askOperator, TestWorkspace, type OperatorAnswer } from "./workspace.ts";

export interface WorkspaceFile {
  manifest: FileManifest;
  parts: Map<number, Uint8Array>;
}

async function raw(method: string, path: string, body?: Uint8Array): Promise<Response> {
  const headers = { authorization: `Bearer ${env.OPERATOR_TOKEN}` };
  const init = { method, headers, ...(body === undefined ? {} : { body }) };
  return exports.default.fetch(new Request(`https://signals.example/operator${path}`, init));
}

/** @param work runs the alarm of the store. */
export async function exportOf(
  workspace: TestWorkspace,
  work: () => Promise<unknown> = () => runDurableObjectAlarm(workspace.store),
): Promise<WorkspaceFile> {
  // Right after a crash the first call gets 503.
  const { id } = await until(() => workspace.operator<{ id: string }>("POST", "/exports"));
  const manifest = await until(async () => {
    await work();
    const found = await workspace.operator<{ manifest: FileManifest | null }>("GET", `/exports/${id}`);
    if (found.manifest === null) throw new Error(JSON.stringify(found));
    return found.manifest;
  });
  const parts = new Map<number, Uint8Array>();
  for (const { part } of manifest.parts) {
    // oxlint-disable-next-line no-await-in-loop -- few parts
    const response = await raw("GET", `/workspaces/${workspace.id}/exports/${id}/parts/${part}`);
    if (response.status !== 200) throw new Error(`part ${part}: ${response.status}`);
    // oxlint-disable-next-line no-await-in-loop
    parts.set(part, new Uint8Array(await response.arrayBuffer()));
  }
  return { manifest, parts };
}

export function linesOf({ parts }: WorkspaceFile): FileLine[] {
  return [...parts.values()].flatMap((part) =>
    gunzipSync(part)
      .toString()
      .split("\n")
      .slice(0, -1)
      .map((text) => JSON.parse(text) as FileLine),
  );
}

export function beginImport({ manifest }: WorkspaceFile, slug?: string): Promise<OperatorAnswer> {
  return askOperator("POST", "/imports", { manifest, ...(slug === undefined ? {} : { slug }) });
}

export async function sendPart(id: string, part: number, body: Uint8Array): Promise<OperatorAnswer> {
  const response = await raw("PUT", `/workspaces/${id}/import/parts/${part}`, body);
  return { status: response.status, headers: response.headers, body: await response.json() };
}

/** Ends the source and imports its file, last part first: the id is new, and everything else is as before. */
export async function moved(source: TestWorkspace, file: WorkspaceFile): Promise<TestWorkspace> {
  await source.operator("DELETE", "", { slug: file.manifest.workspace.slug });
  const { status, body } = await beginImport(file);
  if (status !== 201) throw new Error(JSON.stringify(body));
  const workspace = new TestWorkspace(String(body["workspace_id"]), source.key);
  for (const [part, bytes] of [...file.parts].toReversed()) {
    // oxlint-disable-next-line no-await-in-loop -- few parts
    const sent = await sendPart(workspace.id, part, bytes);
    if (sent.status !== 200) throw new Error(JSON.stringify(sent.body));
  }
  await workspace.operator("POST", "/import/finish", {});
  return workspace;
}
