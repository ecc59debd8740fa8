/** Parts that several pages about API keys share. */
import type { Context } from "hono";
import type { Child } from "hono/jsx";
import type { ApiKey } from "../../control/api-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import { keyText } from "../key-names.tsx";
import { Confirm, Menu } from "../kit/actions.tsx";
import { ago, day, exactTime } from "../kit/format.ts";
import { SelectField, TextField } from "../kit/forms.tsx";
import { Badge, Time } from "../kit/parts.tsx";
import { type PagesEnv, workspacePath } from "../pages-env.ts";
import type { Lifetime, TypedLifetime } from "./key-form.ts";

export type KeyContext = Context<PagesEnv>;

/** Title and section of the pages. */
export const KEYS_PAGE = { title: "API keys", section: "keys" } as const;

/** `/w/{slug}/settings/api-keys`. */
export function keysPath(c: KeyContext): string {
  return `${workspacePath(c)}/settings/api-keys`;
}

export function keyCrumbs(path: string, apiKey?: ApiKey): Child[] {
  const list = <a href={path}>API keys</a>;
  return apiKey === undefined ? [list] : [list, <a href={`${path}/${apiKey.id}`}>{apiKey.name}</a>];
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

/** A key that ends sooner is highlighted. It leaves time for a rotation. */
const KEY_EXPIRES_SOON_MS = 30 * 24 * 3_600_000;

export function Expiration({
  apiKey: { endsAt, deactivatedAt },
  nowMs,
}: {
  apiKey: Pick<ApiKey, "endsAt" | "deactivatedAt">;
  nowMs: number;
}) {
  if (endsAt === null) return <>Never</>;
  const leftMs = Date.parse(endsAt) - nowMs;
  return (
    <>
      <LocalTime iso={endsAt} precision="date" />
      {deactivatedAt === null && leftMs > 0 && (
        <small class={leftMs < KEY_EXPIRES_SOON_MS ? "warn toned" : undefined}> {ago(nowMs + leftMs, nowMs)}</small>
      )}
    </>
  );
}

/** Active or Inactive (spec §2.1, §3.1), and since when. */
export function KeyStatus({ apiKey, nowMs }: { apiKey: ApiKey; nowMs: number }) {
  if (keyStatus(apiKey, nowMs) === "Active") return <Badge tone="good">Active</Badge>;
  const { deactivatedAt, endsAt } = apiKey;
  const at = deactivatedAt ?? endsAt;
  return (
    <>
      <Badge>Inactive</Badge>
      {at !== null && (
        <small>
          {" "}
          {deactivatedAt === null ? "Expired" : "Deactivated"} <Time ms={Date.parse(at)} nowMs={nowMs} />
        </small>
      )}
    </>
  );
}

export function LastUsed({ usedMs, nowMs }: { usedMs: number | null | undefined; nowMs: number }) {
  return typeof usedMs === "number" ? <Time ms={usedMs} nowMs={nowMs} /> : <span class="quiet">Never</span>;
}

/** The actions of an active key. @param props.path the list's. @param props.usedMs last use, milliseconds since 1970. */
export function KeyMenu({
  path,
  apiKey,
  usedMs,
  nowMs,
}: {
  path: string;
  apiKey: ApiKey;
  usedMs: number | null | undefined;
  nowMs: number;
}) {
  const name = keyText(apiKey, apiKey.id);
  return (
    <Menu label={`Actions for API key ${name}`}>
      <a href={`${path}/${apiKey.id}/rotate`} aria-label={`Rotate ${name}`}>
        Rotate
      </a>
      <Confirm
        label="Deactivate"
        title={`Deactivate ${name}?`}
        action={`${path}/${apiKey.id}/deactivate`}
        submit="Deactivate"
        look="danger"
      >
        <p>
          Calls with this key are rejected with 401 from now on. This cannot be undone.{" "}
          {typeof usedMs === "number" ? `The last call came ${ago(usedMs, nowMs)}.` : "No call has used it yet."}
        </p>
        <p class="quiet">Accepted signals are still processed. The key stays in the list as Inactive.</p>
      </Confirm>
    </Menu>
  );
}

const AT_A_TIME = "At a set time …";
const PRESETS = [
  ["never", "Never"],
  ["30d", "In 30 days"],
  ["90d", "In 90 days"],
  ["365d", "In a year"],
  ["at", AT_A_TIME],
] as const satisfies readonly (readonly [Lifetime, string])[];

/** @param props.kept expiration of the rotated key, which the new key may keep. Null: it has none. */
export function LifetimeFields({
  label,
  typed,
  error,
  kept = null,
}: {
  label: string;
  typed: TypedLifetime;
  error: string | undefined;
  kept?: string | null;
}) {
  const isAt = typed.lifetime === "at";
  const options: (readonly [value: Lifetime | "", text: string])[] = [...PRESETS];
  if (kept !== null) options.unshift(["keep", `With the old key, ${exactTime(Date.parse(kept))}`]);
  if (typed.lifetime === "") options.unshift(["", "Choose …"]);
  return (
    <>
      <SelectField
        name="lifetime"
        label={label}
        value={typed.lifetime}
        options={options}
        error={isAt ? undefined : error}
      />
      <div class="for-at">
        <TextField
          name="expires"
          label="Expires at"
          type="datetime-local"
          data-local-time
          value={typed.expires}
          error={isAt ? error : undefined}
          hint={
            <>
              Only for “{AT_A_TIME}”. Time zone: <span data-zone-of="expires">UTC</span>.
            </>
          }
        />
      </div>
    </>
  );
}
