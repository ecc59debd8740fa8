/**
 * API keys as the pages name and show them, and the filter of a list by API key. The masked key stands beside the name, because
 * the keys of a rotation share their name. Only owners and admins see either (spec §1).
 */
import { type ApiKey, type KeyName, keyNames, newestKeyNames } from "../../d1/api-keys.ts";
import { DAY_MS } from "../../domain/duration.ts";
import { UNNAMED_ORIGIN } from "../../domain/keys/browser-origin.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import { canManage } from "../../domain/keys/role.ts";
import { grouped } from "../../domain/text.ts";
import { NAME_MAX_CODE_POINTS } from "../../limits.ts";
import { Confirm, Menu } from "../kit/forms.tsx";
import { ago, day, exactTime } from "../kit/format.ts";
import type { ListAddress } from "../kit/list.tsx";
import { Badge, Time } from "../kit/parts.tsx";
import type { Ctx } from "../pages-env.ts";

export type KeyNames = ReadonlyMap<string, KeyName>;

/** Empty for members. */
export async function readKeyNames(c: Ctx, keyIds: readonly string[]): Promise<KeyNames> {
  if (!canManage(c.get("role"))) return new Map();
  return keyNames(c.get("db"), c.get("workspace").id, [...new Set(keyIds)]);
}

/** @param key undefined: unknown, or not visible to the member. */
export function keyText(key: KeyName | undefined, keyId: string): string {
  return key === undefined ? `API key …${keyId.slice(-4)}` : `${key.name} (${key.maskedKey})`;
}

export function KeyTitle({ name, maskedKey }: KeyName) {
  return (
    <>
      {name} <small class="mono nowrap">{maskedKey}</small>
    </>
  );
}

export const KEYS_OFFERED = 100;

/**
 * Reads two parameters of a list: `key`, an id, and `key_name`, a part of a name. The name chooses a key if only one key has it.
 * Returns the id of the chosen key; empty: all keys. Members may not see keys: their lists have no such filter.
 *
 * @param any the option for all rows.
 */
export async function readKeyFilter(c: Ctx, list: ListAddress, any = "Any"): Promise<string> {
  if (!canManage(c.get("role"))) return "";
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
  if (id !== "") list.addFilter("API key", keyText(offered.get(id), id), { key: id, key_name: text });
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

export function isActive(apiKey: ApiKey): boolean {
  return keyStatus(apiKey, Date.now()) === "Active";
}

/** A time in UTC, or with a script in the viewer's time zone (client/times.ts). */
export function LocalTime({ iso, precision = "time" }: { iso: string; precision?: "time" | "date" }) {
  const ms = Date.parse(iso);
  return (
    <time datetime={iso} data-local={precision} title={exactTime(ms)}>
      {precision === "date" ? day(ms) : exactTime(ms)}
    </time>
  );
}

/** A key that ends sooner is highlighted, with the time of day. It leaves time for a rotation. */
const KEY_EXPIRES_SOON_MS = 30 * DAY_MS;

export function Expiration({
  apiKey: { endsAt, deactivatedAt },
}: {
  apiKey: Pick<ApiKey, "endsAt" | "deactivatedAt">;
}) {
  if (endsAt === null) return <>Never</>;
  const nowMs = Date.now();
  const leftMs = Date.parse(endsAt) - nowMs;
  const isAhead = deactivatedAt === null && leftMs > 0;
  const isSoon = isAhead && leftMs < KEY_EXPIRES_SOON_MS;
  return (
    <>
      <LocalTime iso={endsAt} precision={isSoon ? "time" : "date"} />
      {isAhead && <small class={isSoon ? "warn toned" : undefined}> {ago(nowMs + leftMs, nowMs)}</small>}
    </>
  );
}

export function KeyStatus({ apiKey }: { apiKey: ApiKey }) {
  if (isActive(apiKey)) return <Badge tone="good">Active</Badge>;
  const { deactivatedAt, endsAt } = apiKey;
  const at = deactivatedAt ?? endsAt;
  return (
    <>
      <Badge>Inactive</Badge>
      {at !== null && (
        <small>
          {" "}
          {deactivatedAt === null ? "Expired" : "Deactivated"} <Time ms={Date.parse(at)} />
        </small>
      )}
    </>
  );
}

export function LastUsed({ usedMs }: { usedMs: number | null | undefined }) {
  return typeof usedMs === "number" ? <Time ms={usedMs} /> : <span class="quiet">Never</span>;
}

export function lastCallText(usedMs: number | null | undefined): string {
  return typeof usedMs === "number" ? `The last call came ${ago(usedMs, Date.now())}.` : "No call has used it yet.";
}

/** The origin of a page that uses a key. */
export function originText(origin: string): string {
  return origin === UNNAMED_ORIGIN ? "a page without a name" : origin;
}

interface KeyMenuProps {
  path: string;
  apiKey: ApiKey;
  usedMs: number | null | undefined;
}

export function KeyMenu({ path, apiKey, usedMs }: KeyMenuProps) {
  const name = keyText(apiKey, apiKey.id);
  return (
    <Menu label={`Actions for API key ${name}`}>
      <a href={`${path}/${apiKey.id}/rotate`} aria-label={`Rotate ${name}`}>
        Rotate
      </a>
      <DeactivateKey path={path} apiKey={apiKey} usedMs={usedMs} />
    </Menu>
  );
}

export function DeactivateKey({ path, apiKey, usedMs }: KeyMenuProps) {
  return (
    <Confirm
      label="Deactivate"
      title={`Deactivate ${keyText(apiKey, apiKey.id)}?`}
      action={`${path}/${apiKey.id}/deactivate`}
      submit="Deactivate"
      look="danger"
    >
      <p>Calls with this key are rejected with 401 from now on. This cannot be undone. {lastCallText(usedMs)}</p>
      <p class="quiet">Accepted signals are still processed. The key stays in the list as Inactive.</p>
    </Confirm>
  );
}
