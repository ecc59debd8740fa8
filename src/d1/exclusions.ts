/**
 * Exclusions of workspaces. A row is a version of the whole list, and the newest one counts. Each change raises the workspace's rules
 * version, so that the consumer compiles rules and exclusions again.
 */
import { and, desc, eq, getTableColumns, sql, type SQL } from "drizzle-orm";
import { auditEntry } from "./audit.ts";
import {
  exclusionVersions,
  hasRow,
  insertIf,
  isOneOf,
  iso,
  workspaces,
  type ControlContext,
  type ControlDatabase,
} from "./database.ts";
import { raiseRulesVersion } from "./workspaces.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import { exclusionChanges, withIds, type Exclusion, type ImportedExclusion } from "../domain/rules/exclusion.ts";
import { RULE_VERSIONS_KEPT } from "../limits.ts";
import { newId } from "../platform/ids.ts";

/** Times are ISO 8601 UTC. */
export type ExclusionVersion = Omit<typeof exclusionVersions.$inferSelect, "workspaceId">;

const { workspaceId: _workspaceId, ...COLUMNS } = getTableColumns(exclusionVersions);

/** The list of a workspace that never had one. */
export const NO_EXCLUSIONS = { version: 0, exclusions: [] } as const;

export interface CurrentExclusions {
  version: number;
  exclusions: readonly Exclusion[];
}

/** The list, and the workspace's rules version, read as one snapshot. */
export async function findExclusions(
  db: ControlDatabase,
  workspaceId: string,
): Promise<CurrentExclusions & { rulesVersion: number }> {
  const [[newest], [workspace]] = await db.batch([
    newestVersion(db, workspaceId),
    db.select({ rulesVersion: workspaces.rulesVersion }).from(workspaces).where(eq(workspaces.id, workspaceId)),
  ]);
  const { version, exclusions } = newest ?? NO_EXCLUSIONS;
  return { version, exclusions, rulesVersion: workspace?.rulesVersion ?? 0 };
}

/** The statement that reads the newest version. */
export function newestVersion(db: ControlDatabase, workspaceId: string) {
  return db
    .select(COLUMNS)
    .from(exclusionVersions)
    .where(eq(exclusionVersions.workspaceId, workspaceId))
    .orderBy(desc(exclusionVersions.version))
    .limit(1);
}

/** The stored versions, newest first. */
export function listExclusionVersions(db: ControlDatabase, workspaceId: string): Promise<ExclusionVersion[]> {
  return db
    .select(COLUMNS)
    .from(exclusionVersions)
    .where(eq(exclusionVersions.workspaceId, workspaceId))
    .orderBy(desc(exclusionVersions.version));
}

/** The name that an exclusion has, or had last. Null: no stored version has it. */
export async function exclusionName(db: ControlDatabase, workspaceId: string, id: string): Promise<string | null> {
  const versions = await listExclusionVersions(db, workspaceId);
  const found = versions.flatMap(({ exclusions }) => exclusions.filter((one) => one.id === id));
  return found[0]?.name ?? null;
}

/** The statement that reads the newest lists of several workspaces. */
export function newestOfAll(db: ControlDatabase, workspaceIds: readonly string[]) {
  const newest = sql`(SELECT max(version) FROM exclusion_versions AS one WHERE one.workspace_id = ${exclusionVersions.workspaceId})`;
  const { workspaceId, version, exclusions } = exclusionVersions;
  return db
    .select({ workspaceId, exclusions })
    .from(exclusionVersions)
    .where(and(isOneOf(workspaceId, workspaceIds), sql`${version} = ${newest}`));
}

/** Attempts at a change without a version while other people change the list. */
const UPDATE_ATTEMPTS = 5;

interface ChangedOn {
  /** The version that the person saw; undefined: any. */
  version?: number | undefined;
  /** The earlier version that the change restores. */
  backTo?: number;
}

/**
 * Replaces the list. A change without effect keeps the version.
 *
 * @param items an item with the id or else the name of a known exclusion replaces it. @returns `exclusions_changed`: the list has another
 *   version by now.
 */
export function replaceExclusions(
  context: ControlContext,
  items: readonly ImportedExclusion[],
  changedOn: Pick<ChangedOn, "version"> = {},
): Promise<Result<CurrentExclusions, "exclusions_changed">> {
  return changeExclusions(context, (known) => withIds(items, known, () => newId("exc", context.by.nowMs)), changedOn);
}

async function changeExclusions(
  context: ControlContext,
  change: (known: readonly Exclusion[]) => readonly Exclusion[],
  { version, backTo }: ChangedOn,
): Promise<Result<CurrentExclusions, "exclusions_changed">> {
  const { db, workspaceId } = context;
  for (let attempt = 0; attempt < UPDATE_ATTEMPTS; attempt++) {
    // oxlint-disable-next-line no-await-in-loop -- another attempt only if the list was changed in between
    const before = await findExclusions(db, workspaceId);
    if (version !== undefined && before.version !== version) break;
    const exclusions = change(before.exclusions);
    if (JSON.stringify(exclusions) === JSON.stringify(before.exclusions)) return ok(before);
    const isCurrent = hasVersion(workspaceId, before.version);
    const after = { version: before.version + 1, exclusions };
    // oxlint-disable-next-line no-await-in-loop
    const [written] = await db.batch([
      auditChange(context, before, after, isCurrent, backTo).returning({ id: sql`1` }),
      raiseRulesVersion(db, workspaceId, isCurrent),
      // The row comes after the statements that ask for the version before.
      ...writeVersion(context, after, isCurrent),
    ]);
    if (written.length > 0) return ok(after);
  }
  return reject("exclusions_changed");
}

/** Creates a new version with the list of an earlier one. @returns `not_found`: the version is not stored. */
export async function restoreExclusions(
  context: ControlContext,
  version: number,
  changedOn?: number,
): Promise<Result<CurrentExclusions, "not_found" | "exclusions_changed">> {
  const versions = await listExclusionVersions(context.db, context.workspaceId);
  const found = versions.find((stored) => stored.version === version);
  if (found === undefined) return reject("not_found");
  return changeExclusions(context, () => found.exclusions, { version: changedOn, backTo: version });
}

function hasVersion(workspaceId: string, version: number): SQL {
  const ofWorkspace = eq(exclusionVersions.workspaceId, workspaceId);
  if (version === 0) return sql`NOT ${hasRow(exclusionVersions, ofWorkspace)}`;
  return sql`(SELECT max(version) FROM exclusion_versions WHERE ${ofWorkspace}) = ${version}`;
}

function auditChange(
  { db, workspaceId, by }: ControlContext,
  before: CurrentExclusions,
  after: CurrentExclusions,
  onlyIf: SQL,
  backTo?: number,
) {
  const detail = {
    version: after.version,
    ...(backTo !== undefined && { back_to: backTo }),
    ...exclusionChanges(before.exclusions, after.exclusions),
  };
  return auditEntry(db, by, { workspaceId, action: "exclusions.changed", target: workspaceId, detail }, onlyIf);
}

/** The statements that write a version and drop the oldest. */
export function writeVersion(
  { db, workspaceId, by }: ControlContext,
  { version, exclusions }: CurrentExclusions,
  onlyIf: SQL,
) {
  const row = { workspaceId, version, at: iso(by.nowMs), by: by.actor, exclusions: [...exclusions] };
  const ofWorkspace = eq(exclusionVersions.workspaceId, workspaceId);
  return [
    insertIf(db, exclusionVersions, row, onlyIf),
    db
      .delete(exclusionVersions)
      .where(and(ofWorkspace, sql`${exclusionVersions.version} < ${version - RULE_VERSIONS_KEPT}`)),
  ] as const;
}
