/**
 * By which API key a list is narrowed down: one that is chosen, or the only one that has what was typed in its name. So a
 * workspace with thousands of keys can be asked about each, and no page has to name them all.
 */
import type { ControlDatabase } from "../control/database.ts";
import { keyNames, newestKeyNames } from "../control/api-keys.ts";
import { keyText } from "./key-names.tsx";
import { NAME_MAX_CODE_POINTS } from "../limits.ts";

/** Keys that a page names at most besides those of its rows. */
export const KEYS_OFFERED = 100;

export interface KeyFilter {
  /** The key's id; empty: every key's. */
  id: string;
  /** What its name is to have in it. */
  text: string;
  /** Keys to choose from, by id, newest first. */
  offered: ReadonlyMap<string, string>;
  /** Whether there are more than are offered. */
  hasMore: boolean;
}

/** @param asked the address's query: `key`, an id, and `key_name`. A key that has not what was typed in its name is left. */
export async function readKeyFilter(
  db: ControlDatabase,
  workspaceId: string,
  { key = "", key_name = "" }: Record<string, string>,
): Promise<KeyFilter> {
  const [chosen, text] = [key.trim(), key_name.trim().slice(0, NAME_MAX_CODE_POINTS)];
  const [found, names] = await Promise.all([
    newestKeyNames(db, workspaceId, text, KEYS_OFFERED + 1),
    keyNames(db, workspaceId, chosen === "" ? [] : [chosen]),
  ]);
  const isKept = text === "" || names.get(chosen)?.name.toLowerCase().includes(text.toLowerCase()) === true;
  const [only = ""] = text !== "" && found.size === 1 ? found.keys() : [];
  return {
    id: isKept ? chosen : only,
    text,
    offered: new Map(
      [...[...found].slice(0, KEYS_OFFERED), ...(isKept ? names : [])].map(([id, key]) => [id, keyText(key, id)]),
    ),
    hasMore: found.size > KEYS_OFFERED,
  };
}

/** The part of an address's query that asks for this key again. */
export function shownKey({ id, text }: KeyFilter): Record<string, string> {
  return { ...(id === "" ? {} : { key: id }), ...(text === "" ? {} : { key_name: text }) };
}
