/**
 * Compiled payload templates by key id. A key's template never changes, so an entry is never stale. The control plane drops
 * the template of a key that has ended long ago (control/new-keys.ts).
 */
import { controlDatabase } from "../control/database.ts";
import { loadTemplates } from "../control/api-keys.ts";
import { compileTemplate } from "../domain/accounts/payload-template.ts";
import type { CompiledTemplate } from "../domain/accounts/payload-template.ts";
import { Lru } from "../platform/lru.ts";

/** Maximum compiled payload templates in an isolate's cache: up to 100 mappings each. */
const TEMPLATE_CACHE_KEYS = 1_000;

const compiled = new Lru<string, CompiledTemplate>(TEMPLATE_CACHE_KEYS);

/** Templates by key id. A key without a stored template is missing here: its account updates become dead letters. */
export type Templates = ReadonlyMap<string, CompiledTemplate>;

/** @throws if the database fails; then the batch is retried. */
export async function templatesOf(d1: D1Database, workspaceId: string, keyIds: Iterable<string>): Promise<Templates> {
  const templates = new Map<string, CompiledTemplate>();
  const unknown: string[] = [];
  for (const keyId of new Set(keyIds)) {
    const known = compiled.get(`${workspaceId} ${keyId}`);
    if (known === undefined) unknown.push(keyId);
    else templates.set(keyId, known);
  }
  if (unknown.length === 0) return templates;
  const db = controlDatabase(d1.withSession("first-primary"));
  for (const [keyId, template] of await loadTemplates(db, workspaceId, unknown)) {
    const fresh = compileTemplate(template);
    compiled.set(`${workspaceId} ${keyId}`, fresh);
    templates.set(keyId, fresh);
  }
  return templates;
}
