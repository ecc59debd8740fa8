/** The rows of a workspace in D1 for its file. */
import { type FileManifest, D1_TABLES } from "../wire/workspace-file.ts";
import type { FileRow, TableLine } from "../platform/table-rows.ts";

/** Entries of the audit log in a slice. */
const ENTRIES_AT_ONCE = 500;
/** Not in the file: the workspace, which changes, and what only a browser's form needs. */
const NOT_IN_FILE = ["workspace_id", "form_token"];
const KEYS: Record<string, string> = {
  members: "email",
  key_budgets: "first_key_id",
  payload_templates: "id, version",
  rule_versions: "rule_id, version",
  exclusion_versions: "version",
};

export type FileHeader = Pick<FileManifest, "workspace" | "versions" | "plan">;

interface HeaderRow {
  id: string;
  slug: string;
  name: string;
  overages: number;
  anchor: string;
  created_at: string;
  rules_version: number;
  config_version: number;
  plan_id: string;
  signal_limit: number;
  paid: number;
  retention_days: number | null;
}

/** The workspace and all its rows but the audit log, as of one moment. @throws if D1 does not have the workspace. */
export async function readForFile(
  d1: D1DatabaseSession,
  workspaceId: string,
): Promise<{ header: FileHeader; lines: TableLine[] }> {
  const tables = D1_TABLES.filter((table) => table !== "audit_log");
  const [headers, ...found] = await d1.batch<Record<string, string | number | null>>([
    d1
      .prepare(
        `SELECT w.id, slug, w.name, overages, anchor, created_at, rules_version, max(w.config_version, p.config_version) AS config_version,
           plan_id, signal_limit, paid, retention_days FROM workspaces w JOIN plans p ON p.id = plan_id WHERE w.id = ?`,
      )
      .bind(workspaceId),
    ...tables.map((table) =>
      d1.prepare(`SELECT * FROM ${table} WHERE workspace_id = ? ORDER BY ${KEYS[table] ?? "id"}`).bind(workspaceId),
    ),
  ]);
  const row = headers?.results[0] as HeaderRow | undefined;
  if (row === undefined) throw new Error("D1 does not have the workspace");
  const header: FileHeader = {
    workspace: {
      id: row.id,
      slug: row.slug,
      name: row.name,
      overages: row.overages === 1,
      anchor: row.anchor,
      createdAt: row.created_at,
    },
    versions: { config: row.config_version, rules: row.rules_version },
    plan: {
      id: row.plan_id,
      signalLimit: row.signal_limit,
      paid: row.paid === 1,
      retentionDays: row.retention_days,
    },
  };
  const lines = tables.flatMap((table, index) =>
    (found[index]?.results ?? []).map((stored) => ({ table, row: withoutOwn(stored) })),
  );
  return { header, lines };
}

/** The next entries of the audit log up to `untilId`. `after` is empty at first. */
export async function readAuditForFile(
  d1: D1DatabaseSession,
  workspaceId: string,
  after: string,
): Promise<{ lines: TableLine[]; next: string | null }> {
  const { results } = await d1
    .prepare(`SELECT * FROM audit_log WHERE workspace_id = ? AND id > ? ORDER BY id LIMIT ${ENTRIES_AT_ONCE}`)
    .bind(workspaceId, after)
    .all<Record<string, string | number | null>>();
  const lines = results.map((row) => ({ table: "audit_log", row: withoutOwn(row) }));
  const last = results.at(-1)?.["id"];
  return { lines, next: results.length === ENTRIES_AT_ONCE ? String(last) : null };
}

function withoutOwn(row: Record<string, string | number | null>): FileRow {
  return Object.fromEntries(Object.entries(row).filter(([name]) => !NOT_IN_FILE.includes(name)));
}
