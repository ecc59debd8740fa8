/** Parts that several pages about API keys share. */
import type { ApiKey } from "../../control/api-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import { ok, refuse, type Result } from "../../domain/result.ts";
import { name as keyName } from "../../http/fields.ts";
import { keyText } from "../key-names.tsx";
import { Confirm, Menu } from "../kit/actions.tsx";
import { ago, day, exactTime, sentence } from "../kit/format.ts";
import { Badge, Time } from "../kit/parts.tsx";
import { formText } from "../pages-env.ts";

export const INCOMPLETE_FORM = "The form was incomplete. Check it and send it again.";

const FORM_TOKEN = /^[0-9a-f-]{36}$/;

/** The form's idempotency token. Null: it is missing or has another format. */
export function formTokenOf(form: FormData): string | null {
  const token = formText(form, "form_token");
  return FORM_TOKEN.test(token) ? token : null;
}

/** The name to store, or an error sentence. */
export function checkKeyName(typed: string): Result<string, string> {
  if (typed.trim() === "") return refuse("Enter a name.");
  const name = keyName.safeParse(typed);
  return name.success ? ok(name.data) : refuse(sentence(name.error.issues[0]?.message ?? ""));
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

/** A key that ends sooner is highlighted. It leaves time for a rotation. */
const KEY_EXPIRES_SOON_MS = 30 * 24 * 3_600_000;

export function Expiration({
  apiKey: { endsAt, deactivatedAt },
}: {
  apiKey: Pick<ApiKey, "endsAt" | "deactivatedAt">;
}) {
  if (endsAt === null) return <>Never</>;
  const nowMs = Date.now();
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

interface KeyMenuProps {
  /** Path of the list. */
  path: string;
  apiKey: ApiKey;
  /** Last use, in milliseconds since 1970. */
  usedMs: number | null | undefined;
}

/** The actions of an active key. */
export function KeyMenu({ path, apiKey, usedMs }: KeyMenuProps) {
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
          {typeof usedMs === "number" ? `The last call came ${ago(usedMs, Date.now())}.` : "No call has used it yet."}
        </p>
        <p class="quiet">Accepted signals are still processed. The key stays in the list as Inactive.</p>
      </Confirm>
    </Menu>
  );
}
