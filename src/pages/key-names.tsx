/**
 * API keys as lists and sentences name them, and the filter of a list by API key. The masked key stands beside the name,
 * because the keys of a rotation share their name. Only owners and admins see either (spec §1).
 */
import { keyNames, newestKeyNames, type KeyName } from "../control/api-keys.ts";
import { canManageKeys } from "../domain/keys/role.ts";
import { grouped } from "../domain/text.ts";
import { NAME_MAX_CODE_POINTS } from "../limits.ts";
import type { ListAddress } from "./kit/list.tsx";
import type { Ctx } from "./pages-env.ts";

/** Keys by id. */
export type KeyNames = ReadonlyMap<string, KeyName>;

/** Names of these keys. Empty for members, who may not see keys (spec §1). */
export async function readKeyNames(c: Ctx, keyIds: readonly string[]): Promise<KeyNames> {
  if (!canManageKeys(c.get("role"))) return new Map();
  return keyNames(c.get("db"), c.get("workspace").id, [...new Set(keyIds)]);
}

/** A key in a sentence, an option or a chip. @param key undefined: unknown, or not visible to the member. */
export function keyText(key: KeyName | undefined, keyId: string): string {
  return key === undefined ? `API key …${keyId.slice(-4)}` : `${key.name} (${key.maskedKey})`;
}

/** A key in a cell of a table: the masked key stands below the name. */
export function KeyTitle({ name, maskedKey }: KeyName) {
  return (
    <>
      {name} <small class="mono nowrap">{maskedKey}</small>
    </>
  );
}

/** Keys that the filter offers. With more keys, part of a name finds the rest. */
export const KEYS_OFFERED = 100;

/**
 * Reads the parameters `key` (an id) and `key_name` (part of a name, which chooses a key if only one has it) of a list.
 * Returns the id of the chosen key; empty: all keys. Members may not see keys: their lists have no such filter.
 *
 * @param any the option for all rows.
 */
export async function readKeyFilter(c: Ctx, list: ListAddress, any = "Any"): Promise<string> {
  if (!canManageKeys(c.get("role"))) return "";
  const [db, { id: workspaceId }] = [c.get("db"), c.get("workspace")];
  const { key = "", key_name = "" } = c.req.query();
  const [chosen, text] = [key.trim(), key_name.trim().slice(0, NAME_MAX_CODE_POINTS)];
  const [found, names] = await Promise.all([
    newestKeyNames(db, workspaceId, text, KEYS_OFFERED + 1),
    keyNames(db, workspaceId, chosen === "" ? [] : [chosen]),
  ]);
  const isKept = text === "" || names.get(chosen)?.name.toLowerCase().includes(text.toLowerCase()) === true;
  const [only = ""] = text !== "" && found.size === 1 ? found.keys() : [];
  const id = isKept ? chosen : only;
  // The newest keys whose name contains the text, and the chosen key.
  const offered = new Map([...[...found].slice(0, KEYS_OFFERED), ...(isKept ? names : [])]);
  const hasMore = found.size > KEYS_OFFERED;
  if (id !== "") list.use("API key", keyText(offered.get(id), id), { key: id, key_name: text });
  else if (text !== "" && found.size === 0) list.errors.push(`No API key has “${text}” in its name.`);
  else if (text !== "") {
    const count = `${hasMore ? "More than " : ""}${grouped(offered.size)}`;
    list.errors.push(`${count} API keys have “${text}” in their name. Choose one of them.`);
  }
  const options = [...offered].map(([keyId, name]) => [keyId, keyText(name, keyId)] as const);
  list.addSelect("key", "API key", [["", any], ...options], id);
  if (hasMore || text !== "") list.addText("key_name", "API key name contains", text);
  return id;
}
