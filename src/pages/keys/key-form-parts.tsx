/** Shared by the forms of keys and API tokens: idempotency token, lifetime, signal limit. */
import { DAY_MS } from "../../domain/duration.ts";
import { ok, reject, type Result } from "../../domain/result.ts";
import { SelectField, TextField } from "../kit/forms.tsx";
import { exactTime } from "../kit/format.ts";
import { signalLimit } from "../../use-cases/manage-keys.ts";
import { formText, typedText } from "../pages-env.ts";

/** Characters of a number in a form. A longer text is no number that is allowed. */
const NUMBER_MAX_LENGTH = 20;

/** An empty text is null. */
export function numberOf(typed: string): number | null {
  return typed === "" ? null : typed.length > NUMBER_MAX_LENGTH ? NaN : Number(typed);
}

/** Null: no limit. */
export function checkSignalLimit(typed: string): Result<number | null, string> {
  const limit = signalLimit.safeParse(numberOf(typed));
  return limit.success ? ok(limit.data) : reject("Enter a whole number of signals from 1 on, or leave it empty.");
}

export function SignalLimitField({ value, error }: { value: string; error: string | undefined }) {
  return (
    <TextField
      name="signal_limit"
      label="Signal limit: signals of a billing period"
      hint="Beyond it calls are rejected with 429. A rotation keeps the limit and its count. Empty: only the plan's limit."
      value={value}
      error={error}
      inputmode="numeric"
    />
  );
}

const FORM_TOKEN = /^[0-9a-f-]{36}$/;

export function formTokenOf(form: FormData): string {
  const token = formText(form, "form_token");
  return FORM_TOKEN.test(token) ? token : crypto.randomUUID();
}

/** The presets. A form also has `keep` (the expiration of the rotated key) and `at` (the time in `expires`). */
const LIFETIME_MS = { never: null, "30d": 30 * DAY_MS, "90d": 90 * DAY_MS, "365d": 365 * DAY_MS } as const;

export type Lifetime = keyof typeof LIFETIME_MS | "keep" | "at";

export interface TypedLifetime {
  /** Empty: nothing is chosen yet. */
  lifetime: Lifetime | "";
  /** A time in UTC such as `2026-11-21T10:00`, for the lifetime `at`. */
  expires: string;
}

export function readLifetime(form: FormData): TypedLifetime {
  const lifetime = formText(form, "lifetime");
  return { lifetime: isLifetime(lifetime) ? lifetime : "", expires: typedText(form, "expires") };
}

/**
 * The expiration in ISO 8601, or an error sentence. Null: never.
 *
 * @param kept expiration of the rotated key; undefined if no key is rotated.
 */
export function expirationOf(
  { lifetime, expires }: TypedLifetime,
  nowMs: number,
  kept?: string | null,
): Result<string | null, string> {
  if (lifetime === "keep" && kept !== undefined) return ok(kept);
  if (lifetime === "" || lifetime === "keep") return reject("Choose when the key expires.");
  if (lifetime !== "at") {
    const lifetimeMs = LIFETIME_MS[lifetime];
    return ok(lifetimeMs === null ? null : new Date(nowMs + lifetimeMs).toISOString());
  }
  const at = readUtc(expires);
  if (at === undefined) return reject("Enter a date and a time, or choose another expiration.");
  return at.getTime() > nowMs ? ok(at.toISOString()) : reject("Enter a time in the future.");
}

function isLifetime(text: string): text is Lifetime {
  return text === "keep" || text === "at" || Object.hasOwn(LIFETIME_MS, text);
}

const LOCAL_TIME_MAX_LENGTH = 19;
const LOCAL_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?$/;

/** Undefined: not a time, for example on the 31st of February. */
function readUtc(text: string): Date | undefined {
  if (text.length > LOCAL_TIME_MAX_LENGTH || !LOCAL_TIME.test(text)) return undefined;
  const at = new Date(`${text}Z`);
  if (Number.isNaN(at.getTime())) return undefined;
  return at.toISOString().startsWith(text) ? at : undefined;
}

const AT_A_TIME = "At a set time …";
const PRESETS = [
  ["never", "Never"],
  ["30d", "In 30 days"],
  ["90d", "In 90 days"],
  ["365d", "In a year"],
  ["at", AT_A_TIME],
] as const satisfies readonly (readonly [Lifetime, string])[];

interface LifetimeFieldsProps {
  label: string;
  typed: TypedLifetime;
  error: string | undefined;
  kept?: string | null;
}

export function LifetimeFields({ label, typed, error, kept = null }: LifetimeFieldsProps) {
  const { lifetime, expires } = typed;
  const isAt = lifetime === "at";
  const options: (readonly [value: Lifetime | "", text: string])[] = [...PRESETS];
  if (kept !== null) options.unshift(["keep", `With the old key, ${exactTime(Date.parse(kept))}`]);
  if (lifetime === "") options.unshift(["", "Choose …"]);
  return (
    <>
      <SelectField name="lifetime" label={label} value={lifetime} options={options} error={isAt ? undefined : error} />
      <div class="for-at">
        <TextField
          name="expires"
          label="Expires at"
          type="datetime-local"
          data-local-time
          value={expires}
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
