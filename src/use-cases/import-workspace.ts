/**
 * Imports the file of a workspace as a new workspace. Parts come in any order, and each may be repeated. Until `finishImport` the
 * workspace takes no signals. Each step of `finishImport` may be repeated, too.
 */
import { deactivateCountersKeys, deactivatedKeyIds } from "../d1/api-keys.ts";
import {
  activateImport,
  activeKeysOf,
  conflictsOf,
  deletionsAfter,
  findImport,
  type Import,
  importRejection,
  insertImport,
  moveRows,
  notePart,
  stageRows,
} from "../d1/imports.ts";
import { findWorkspace, raiseConfigVersion } from "../d1/workspaces.ts";
import { DAY_MS } from "../domain/duration.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import { configuredJurisdiction } from "../env.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { newId } from "../platform/ids.ts";
import { type TableLine, textIn } from "../platform/table-rows.ts";
import { within } from "../platform/time-limit.ts";
import type { ForgottenDeletion } from "../store/protocol/store-operations.ts";
import { DELETIONS_KEPT_DAYS } from "../d1/deletions.ts";
import { FILE_VERSION } from "../d1/file-version.ts";
import { type FileLine, type FileManifest, type FileOrigin, type FilePart, TABLES } from "../wire/workspace-file.ts";
import { configureCounter } from "./configure-workspace.ts";
import { destinationsOf, quotaCounter, signalStore, type WorkspaceContext } from "./objects.ts";

/** Why an import is rejected: a code of a 409, and a sentence. */
export interface ImportRejection {
  code:
    | "slug_taken"
    | "plan_differs"
    | "file_version"
    | "part_unknown"
    | "part_differs"
    | "import_incomplete"
    | "source_active"
    | "key_in_use"
    | "already_imported"
    | "deletions_unknown";
  detail: string;
}

function rejected(code: ImportRejection["code"], detail: string): Result<never, ImportRejection> {
  return reject({ code, detail });
}

/** @returns the id of the new workspace. */
export async function beginImport(
  { env, db, by }: Omit<WorkspaceContext, "workspaceId">,
  manifest: FileManifest,
  slug: string,
): Promise<Result<string, ImportRejection>> {
  if (manifest.version !== FILE_VERSION) {
    return rejected(
      "file_version",
      `The file has the version ${manifest.version}, and this release reads ${FILE_VERSION}. Import it with the release that wrote it.`,
    );
  }
  const slugTaken = () => rejected("slug_taken", `Another workspace has the slug ${slug}. Choose another one.`);
  const begun = { manifest, slug, jurisdiction: configuredJurisdiction(env) };
  const rejection = await importRejection(db, begun);
  if (rejection === "slug_taken") return slugTaken();
  if (rejection !== null)
    return rejected("plan_differs", `The plan must have the same terms as in the file: ${rejection.differences}.`);
  const id = newId("ws", by.nowMs);
  // Before D1 has the import: only objects of a new workspace take rows, so a late part cannot close one that is complete.
  await quotaCounter(env, id).setClosed("importing");
  await signalStore(env, id).beginImport();
  return (await insertImport(db, by, { id, ...begun })) ? ok(id) : slugTaken();
}

/** @param body as it was exported. */
export async function importPart(
  context: WorkspaceContext & { pagesUrl: string },
  part: number,
  body: Uint8Array,
): Promise<Result<{ missing: number[] }, ImportRejection> | null> {
  const { db, workspaceId } = context;
  const found = await findImport(db, workspaceId);
  if (found === null) return null;
  const described = found.manifest.parts.find((candidate) => candidate.part === part);
  if (described === undefined) return rejected("part_unknown", `The manifest has no part ${part}.`);
  const lines = await readLines(described, body);
  if (!lines.ok) return lines;
  for (const { first, from, some } of slicesOf(lines.value)) {
    // oxlint-disable-next-line no-await-in-loop -- one slice at a time is on its way
    await importLines(context, { part, first, from, lines: some });
  }
  await notePart(db, workspaceId, part, Date.now());
  const parts = new Set([...found.parts, part]);
  return ok({ missing: missingParts({ ...found, parts: [...parts] }) });
}

/** All lines, before any is stored. Other calls run in between. */
async function readLines(
  { part, bytes, sha256, lines }: FilePart,
  body: Uint8Array,
): Promise<Result<FileLine[], ImportRejection>> {
  const { createHash } = process.getBuiltinModule("node:crypto");
  if (body.length !== bytes || createHash("sha256").update(body).digest("hex") !== sha256) {
    return rejected(
      "part_differs",
      `Part ${part} has ${body.length} bytes that are not those of the manifest (${bytes} bytes, SHA-256 ${sha256}). Send it as it was exported.`,
    );
  }
  const { gunzipSync } = process.getBuiltinModule("node:zlib");
  const texts = gunzipSync(body).toString().split("\n").slice(0, -1);
  if (texts.length !== lines)
    return rejected("part_differs", `Part ${part} has ${texts.length} lines instead of ${lines}.`);
  const read: FileLine[] = [];
  let characters = 0;
  for (const text of texts) {
    read.push(JSON.parse(text) as FileLine);
    characters += text.length;
    if (characters < SLICE_CHARACTERS) continue;
    characters = 0;
    // oxlint-disable-next-line no-await-in-loop
    await scheduler.wait(0);
  }
  const unknown = read.findIndex(({ from, table }) => !TABLES[from]?.includes(table));
  return unknown === -1
    ? ok(read)
    : rejected("part_differs", `Line ${unknown + 1} of part ${part} is of no table of this release.`);
}

/**
 * Twice the longest pause. Deletions that were requested in the pause before the moment of the file got 503, and are neither in its rows of
 * D1 nor in its store. The store knows the others.
 */
const BEFORE_EXPORT_MS = 10 * 60_000;

const SLICE_LINES = 300;
const SLICE_CHARACTERS = 600_000;

/** Neighbouring lines of one origin. A slice keeps an object busy for some 20 ms. */
function* slicesOf(lines: readonly FileLine[]): Generator<{ first: number; from: FileOrigin; some: FileLine[] }> {
  let some: FileLine[] = [];
  let [first, characters] = [0, 0];
  for (const [index, line] of lines.entries()) {
    const [last] = some;
    const isFull = some.length >= SLICE_LINES || characters >= SLICE_CHARACTERS;
    if (last !== undefined && (isFull || last.from !== line.from)) {
      yield { first, from: last.from, some };
      [some, first, characters] = [[], index, 0];
    }
    some.push(line);
    characters += charactersOf(line);
  }
  const [last] = some;
  if (last !== undefined) yield { first, from: last.from, some };
}

function charactersOf({ row }: FileLine): number {
  let characters = 0;
  for (const value of Object.values(row)) {
    if (typeof value === "string") characters += value.length;
    else if (typeof value === "object" && value !== null) characters += value.base64.length;
  }
  return characters;
}

async function importLines(
  { env, db, workspaceId, pagesUrl }: WorkspaceContext & { pagesUrl: string },
  { part, first, from, lines }: { part: number; first: number; from: FileOrigin; lines: FileLine[] },
): Promise<void> {
  const rows = lines.map(({ table, row }): TableLine => ({ table, row }));
  if (from === "d1") await stageRows(db, workspaceId, { part, first, lines });
  else if (from === "counter") await quotaCounter(env, workspaceId).importRows(rows);
  else if (from === "store") await signalStore(env, workspaceId).importRows(rows);
  else if (from === "destinations") await destinationsOf(env, workspaceId).importRows(rows, pagesUrl);
  else {
    for (const { row } of rows) {
      const bytes = row["bytes"];
      if (typeof bytes !== "object" || bytes === null) throw new Error("an object of R2 has no bytes");
      const name = textIn(row, "key");
      const key = `cold/${workspaceId}/${name}`;
      // oxlint-disable-next-line no-await-in-loop -- up to 2 MB each
      await within(CALL_TIMEOUT_MS, env.COLD.put(key, Buffer.from(bytes.base64, "base64")));
      // The import may have been finished or deleted meanwhile. Then nobody would delete the object.
      // oxlint-disable-next-line no-await-in-loop
      if (!(await signalStore(env, workspaceId).hasObject(name))) await env.COLD.delete(key);
    }
  }
}

export function missingParts({ manifest, parts }: Pick<Import, "manifest" | "parts">): number[] {
  return manifest.parts.map(({ part }) => part).filter((part) => !parts.includes(part));
}

export interface FinishOptions {
  /** Hashes of people who were deleted after the export, if this deployment does not know them (any more). */
  deletedPeople: readonly string[] | null;
  /** The operator confirms that nobody was deleted since, or that nobody knows. */
  withoutDeletions: boolean;
}

/** The workspace begins to take signals, with the old keys. Idempotent. Null: no import is under way. */
export async function finishImport(
  context: WorkspaceContext,
  options: FinishOptions,
): Promise<Result<{ deletionsRepeated: number }, ImportRejection> | null> {
  const { env, db, workspaceId, by } = context;
  const found = await findImport(db, workspaceId);
  if (found === null) return null;
  const { sourceId, manifest } = found;
  const missing = missingParts(found);
  if (missing.length > 0) {
    return rejected(
      "import_incomplete",
      `Parts are missing: ${missing.slice(0, 20).join(", ")}${missing.length > 20 ? ", …" : ""}.`,
    );
  }
  const sourceState = (await findWorkspace(db, sourceId))?.state ?? null;
  const conflict = await conflictOf(context, sourceId, sourceState);
  if (conflict !== null) return conflict;
  const forgotten = await deletionsOf(context, found, options, sourceState !== null);
  if (!forgotten.ok) return forgotten;

  const counter = () => quotaCounter(env, workspaceId);
  await moveRows(db, workspaceId, sourceId);
  // Before it takes signals: keys that were deactivated after the export stay so. D1 has nothing of a source whose import was deleted.
  const { keys: ofSource } =
    sourceState === "closed" ? await quotaCounter(env, sourceId).deactivateAll([]) : { keys: [] };
  await counter().deactivateAll([...(await deactivatedKeyIds(db, workspaceId)), ...ofSource.map(({ keyId }) => keyId)]);
  await signalStore(env, workspaceId).finishImport(forgotten.value, manifest.plan.retentionDays);
  await destinationsOf(env, workspaceId).finishImport();
  // The call ends the object, which has its rows in memory only after a start.
  await counter()
    .finishImport()
    .catch(() => undefined);
  if (await counter().isClosed()) throw new Error("the counter has not finished the import");
  // The file has the counter's rows of a later moment than those of D1.
  const seen = await counter().configVersion();
  await raiseConfigVersion(db, workspaceId, seen);
  await configureCounter(env, db, workspaceId, seen);
  const { keys } = await counter().deactivateAll([]);
  await deactivateCountersKeys(db, workspaceId, keys);
  const detail = { source: sourceId, exported_at: new Date(manifest.exportedAtMs).toISOString() };
  await activateImport(db, workspaceId, sourceId, by, detail);
  return ok({ deletionsRepeated: forgotten.value.length });
}

async function conflictOf(
  { db, workspaceId }: WorkspaceContext,
  sourceId: string,
  sourceState: string | null,
): Promise<Result<never, ImportRejection> | null> {
  if (sourceState === "active") {
    const keys = await activeKeysOf(db, sourceId);
    if (keys.length === 0) {
      return rejected(
        "source_active",
        "The workspace that was exported is in this deployment, and takes signals. Close or end it first.",
      );
    }
    return rejected(
      "key_in_use",
      inUse(keys, "the workspace that was exported, which takes signals. Close or end it first"),
    );
  }
  const { keys, rules } = await conflictsOf(db, workspaceId, sourceId);
  if (keys.length > 0)
    return rejected("key_in_use", inUse(keys, "another workspace of this deployment. End that first"));
  if (!rules) return null;
  return rejected(
    "already_imported",
    "Another workspace of this deployment has the rules of the file: it was imported before. End that first.",
  );
}

function inUse(keys: readonly string[], where: string): string {
  return `Keys of the file belong to ${where}: ${keys.slice(0, 20).join(", ")}.`;
}

async function deletionsOf(
  { db, by }: WorkspaceContext,
  { sourceId, manifest }: Import,
  { deletedPeople, withoutDeletions }: FinishOptions,
  isSourceKnown: boolean,
): Promise<Result<ForgottenDeletion[], ImportRejection>> {
  const { exportedAtMs } = manifest;
  // The same time in each call, so that the store knows a repetition.
  const given = (deletedPeople ?? []).map((emailHash) => ({
    id: newId("del", by.nowMs),
    requestedAtMs: exportedAtMs + 1,
    emailHash,
  }));
  const areKnown = isSourceKnown && exportedAtMs > by.nowMs - DELETIONS_KEPT_DAYS * DAY_MS;
  if (!areKnown && deletedPeople === null && !withoutDeletions) {
    return rejected(
      "deletions_unknown",
      "This deployment does not know who was deleted after the export. Send `deleted_people` with the hashes of the source's deletions, or `without_deletions`.",
    );
  }
  return ok([...(await deletionsAfter(db, sourceId, exportedAtMs - BEFORE_EXPORT_MS)), ...given]);
}
