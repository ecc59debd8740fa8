/**
 * Payload templates of API keys, in versions (design §5). A key shares the rows with its successors. Earlier versions stay for
 * signals that were admitted with them.
 */
import { and, desc, eq, isNull, lt, sql, type SQL } from "drizzle-orm";
import { findKey, isKey, type ApiKey } from "./api-keys.ts";
import { auditEntry } from "./audit.ts";
import {
  apiKeys,
  hasRow,
  insertIf,
  iso,
  payloadTemplates,
  type ControlContext,
  type ControlDatabase,
} from "./database.ts";
import { DAY_MS } from "../domain/duration.ts";
import type { KeyTemplate, StoredTemplate } from "../domain/template/key-template.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import type { EndpointType } from "../domain/signal/signal.ts";
import { KEY_TEMPLATE_VERSIONS, TEMPLATE_VERSION_NEEDED_DAYS, WORKSPACE_TEMPLATES_MAX_BYTES } from "../limits.ts";

/** A version of a key's template; null: the newest, also if the template was removed since. */
export interface WantedTemplate {
  keyId: string;
  version: number | null;
}

export interface LoadedTemplate extends WantedTemplate {
  endpointType: EndpointType;
  stored: StoredTemplate;
}

/** SQL expression: as NEWEST_VERSION, without the version that says that the template was removed. */
const NEWEST_TEMPLATE = sql`(SELECT max(version) FROM payload_templates AS versions WHERE versions.id = ${apiKeys.templateId} AND versions.template <> '[]')`;

/** Keys and versions without a stored template are left out. */
export async function loadTemplates(
  db: ControlDatabase,
  workspaceId: string,
  wanted: readonly WantedTemplate[],
): Promise<LoadedTemplate[]> {
  const asked = JSON.stringify(wanted.map(({ keyId, version }) => [keyId, version]));
  const version = sql<number | null>`value ->> 1`;
  return db
    .select({
      keyId: apiKeys.id,
      version,
      endpointType: apiKeys.endpointType,
      stored: {
        firstKeyId: payloadTemplates.id,
        version: payloadTemplates.version,
        template: payloadTemplates.template,
      },
    })
    .from(sql`json_each(${asked})`)
    .innerJoin(apiKeys, and(eq(apiKeys.id, sql`value ->> 0`), eq(apiKeys.workspaceId, workspaceId)))
    .innerJoin(
      payloadTemplates,
      and(
        eq(payloadTemplates.id, apiKeys.templateId),
        eq(payloadTemplates.version, sql`coalesce(${version}, ${NEWEST_TEMPLATE})`),
      ),
    );
}

/** SQL expression: the bytes of all templates of a workspace. */
export function storedTemplateBytes(db: ControlDatabase, workspaceId: string) {
  return db
    .select({ bytes: sql`coalesce(sum(octet_length(${payloadTemplates.template})), 0)` })
    .from(payloadTemplates)
    .where(eq(payloadTemplates.workspaceId, workspaceId));
}

/** SQL expression: whether the templates of the workspace have no room for more bytes. */
function lacksRoom(db: ControlDatabase, workspaceId: string, bytes: number): SQL<number> {
  return sql<number>`${storedTemplateBytes(db, workspaceId)} + ${bytes} > ${WORKSPACE_TEMPLATES_MAX_BYTES}`;
}

/**
 * Drops the versions that no signal can need any more, if the workspace lacks room for more bytes. Held signals need earlier versions,
 * until the end of their period; a replay takes the newest.
 */
export function dropUnusedVersions(db: ControlDatabase, workspaceId: string, bytes: number, nowMs: number) {
  const isFull = lacksRoom(db, workspaceId, bytes);
  const isUnused = lt(payloadTemplates.replacedAt, iso(nowMs - TEMPLATE_VERSION_NEEDED_DAYS * DAY_MS));
  return db.delete(payloadTemplates).where(and(eq(payloadTemplates.workspaceId, workspaceId), isUnused, isFull));
}

/** Concurrent changes of a template take turns. */
const ATTEMPTS = 5;

/**
 * Adds a version to the template of a key, unless it equals the newest. Calls use it within KEY_CACHE_MS (ingest/authenticate.ts).
 *
 * @param template null removes it: calls are read as without one, and signals that were admitted keep theirs.
 * @returns null: unknown key in this workspace.
 */
export async function changeTemplate(
  context: ControlContext,
  keyId: string,
  template: KeyTemplate | null,
): Promise<Result<ApiKey, "templates_too_large"> | null> {
  const { db, workspaceId } = context;
  const text = JSON.stringify(template ?? []);
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    // oxlint-disable-next-line no-await-in-loop -- each attempt follows another change
    const key = await findTemplateOf(db, workspaceId, keyId);
    if (key === undefined) return null;
    // oxlint-disable-next-line no-await-in-loop
    const isMade =
      text === JSON.stringify(key.template ?? []) || (await addVersion(context, keyId, key, template ?? []));
    if (isMade === "templates_too_large") return reject(isMade);
    // oxlint-disable-next-line no-await-in-loop
    const changed = isMade ? await findKey(db, workspaceId, keyId) : null;
    if (changed !== null) return ok(changed);
  }
  throw new Error("other changes of the template came first");
}

function findTemplateOf(db: ControlDatabase, workspaceId: string, keyId: string) {
  return db
    .select({
      templateId: apiKeys.templateId,
      version: payloadTemplates.version,
      template: payloadTemplates.template,
      firstKeyId: apiKeys.firstKeyId,
    })
    .from(apiKeys)
    .leftJoin(payloadTemplates, eq(payloadTemplates.id, apiKeys.templateId))
    .where(isKey(workspaceId, keyId))
    .orderBy(desc(payloadTemplates.version))
    .get();
}

/** False: another change has added the same version. */
async function addVersion(
  { db, workspaceId, by }: ControlContext,
  keyId: string,
  newest: { templateId: string | null; version: number | null; firstKeyId: string },
  template: KeyTemplate,
): Promise<boolean | "templates_too_large"> {
  const id = newest.templateId ?? newest.firstKeyId;
  const version = (newest.version ?? 0) + 1;
  const bytes = Buffer.byteLength(JSON.stringify(template));
  const isFull = lacksRoom(db, workspaceId, bytes);
  const row = { id, workspaceId, template, version, replacedAt: null };
  const isThere = hasRow(payloadTemplates, and(eq(payloadTemplates.id, id), eq(payloadTemplates.version, version)));
  const mayAdd = sql`not (${isFull}) and not (${isThere})`;
  const detail = template.length === 0 ? { version, removed: true } : { version };
  const entry = { workspaceId, action: "key.template_changed", target: keyId, detail } as const;
  const oldest = version - KEY_TEMPLATE_VERSIONS;
  const isReplaced = and(eq(payloadTemplates.id, id), eq(payloadTemplates.version, version - 1));
  const [, , [full], , added] = await db.batch([
    db.delete(payloadTemplates).where(and(eq(payloadTemplates.id, id), lt(payloadTemplates.version, oldest + 1))),
    dropUnusedVersions(db, workspaceId, bytes, by.nowMs),
    db.select({ isFull }).from(sql`(select 1)`),
    auditEntry(db, by, entry, mayAdd),
    insertIf(db, payloadTemplates, row, mayAdd).returning({
      id: payloadTemplates.id,
    }),
    db
      .update(payloadTemplates)
      .set({ replacedAt: iso(by.nowMs) })
      .where(and(isReplaced, isNull(payloadTemplates.replacedAt), isThere)),
    // The keys of a rotation share the template, also one that came after the rotation.
    db
      .update(apiKeys)
      .set({ templateId: id })
      .where(
        and(
          eq(apiKeys.workspaceId, workspaceId),
          isNull(apiKeys.templateId),
          eq(apiKeys.firstKeyId, newest.firstKeyId),
          isThere,
        ),
      ),
  ]);
  if (added.length === 1) return true;
  return full?.isFull === 1 ? "templates_too_large" : false;
}
