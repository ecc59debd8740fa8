/**
 * The file of a workspace (docs/operate.md, "A workspace is a file"): parts of lines, and a manifest. A line is a row of a table, as it
 * is stored, or an object of R2. So the version of the file is that of the tables.
 */
import type { FileRow } from "../platform/table-rows.ts";

/** Where a line comes from. `r2`: the row has a key and bytes. */
export type FileOrigin = "d1" | "counter" | "destinations" | "store" | "r2";

export interface FileLine {
  from: FileOrigin;
  table: string;
  row: FileRow;
}

/** A part ends when it has this size, as gzip. Its last lines may add to it, up to PART_MAX_BYTES. */
export const PART_BYTES = 5_000_000;
export const PART_MAX_BYTES = 8 * 1024 * 1024;
/** Maximum text of a part: a reader has it in memory as a whole, and unpacks it in some 40 ms. */
export const PART_TEXT_BYTES = 8_000_000;

export interface FilePart {
  part: number;
  bytes: number;
  /** Hash of the compressed bytes, hexadecimal. */
  sha256: string;
  lines: number;
}

export interface FilePlan {
  id: string;
  signalLimit: number;
  paid: boolean;
  retentionDays: number | null;
}

export interface FileManifest {
  format: "workspace";
  /** Number of migrations of each kind of table. */
  version: string;
  exportId: string;
  /** The moment of the file: later signals are not in it. */
  exportedAtMs: number;
  workspace: { id: string; slug: string; name: string; overages: boolean; anchor: string; createdAt: string };
  versions: { config: number; rules: number };
  plan: FilePlan;
  /** Objects of R2 that were missing, so that their payloads are not in the file. */
  payloadsMissing: number;
  leftOut: readonly string[];
  parts: FilePart[];
}

export const LEFT_OUT = [
  "values of keys and secrets",
  "secrets and header values of destinations",
  "API tokens",
  "sessions",
  "waiting notifications and deliveries",
  "request rates",
  "statistics of calls and rejections",
] as const;

// The tables of a file, in its order.

export const D1_TABLES = [
  "members",
  "api_keys",
  "key_budgets",
  "payload_templates",
  "mapping_rules",
  "rule_versions",
  "exclusion_versions",
  "deletions",
  "audit_log",
] as const;
export const COUNTER_TABLES = [
  "ledger",
  "configurations",
  "closed_periods",
  "usage_days",
  "deactivated_keys",
  "key_ends",
  "public_keys",
  "resend_jobs",
  "unreadable_rows",
  "released",
  "outbox",
] as const;
export const DESTINATIONS_TABLES = ["settings", "destinations", "key_notices", "deleted_people"] as const;
export const STORE_TABLES = [
  "heads",
  "dead_letters",
  "event_groups",
  "rule_outcomes",
  "single_scores",
  "rule_days",
  "key_days",
  "resend_jobs",
  "people",
  "identities",
  "pairs",
  "timelines",
  "link_jobs",
  "replacements",
  "lapse_crossings",
  "deleted_names",
  "rule_jobs",
  "deletions",
  "retention",
  "accounts",
  "account_changes",
  "signals_segments",
  "signals_facts",
  "signals_payloads",
  "signals_late",
  "held_segments",
  "held_facts",
  "held_payloads",
  "held_late",
  "cold_objects",
  "cold_scrubs",
] as const;

export const TABLES: Record<FileOrigin, readonly string[]> = {
  d1: D1_TABLES,
  counter: COUNTER_TABLES,
  destinations: DESTINATIONS_TABLES,
  store: STORE_TABLES,
  r2: ["objects"],
};

export function partKey(workspaceId: string, exportId: string, part: number | "manifest"): string {
  return `exports/${workspaceId}/${exportId}/${part}`;
}
