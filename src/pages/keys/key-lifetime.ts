/** How long a new key is to live, as a form asks for it: a preset, or a time of its own. No I/O. */
import { DAY_MS } from "../../domain/duration.ts";
import { ok, refuse, type Result } from "../../domain/result.ts";
import { formText } from "../form-text.ts";

/** The presets. A form also knows `keep` (the expiration of the key that is rotated) and `at` (the time in `expires`). */
const LIFETIME_MS = { never: null, "30d": 30 * DAY_MS, "90d": 90 * DAY_MS, "365d": 365 * DAY_MS } as const;

type Preset = keyof typeof LIFETIME_MS;
export type Lifetime = Preset | "keep" | "at";

export interface TypedLifetime {
  /** The chosen preset. Empty: nothing is chosen yet. */
  lifetime: Lifetime | "";
  /** A time such as `2026-11-21T10:00`, in UTC; heeded where `lifetime` is `at`. */
  expires: string;
}

export function readLifetime(form: FormData): TypedLifetime {
  const lifetime = formText(form, "lifetime");
  return { lifetime: isLifetime(lifetime) ? lifetime : "", expires: formText(form, "expires") };
}

/**
 * The expiration that is asked for, or what is wrong with it, as a sentence.
 *
 * @param kept expiration of the key that is rotated; undefined where there is none to keep.
 */
export function expirationOf(
  { lifetime, expires }: TypedLifetime,
  nowMs: number,
  kept?: string | null,
): Result<string | null, string> {
  if (lifetime === "keep" && kept !== undefined) return ok(kept);
  if (lifetime === "" || lifetime === "keep") return refuse("Choose when the key expires.");
  if (lifetime !== "at") {
    const lifetimeMs = LIFETIME_MS[lifetime];
    return ok(lifetimeMs === null ? null : new Date(nowMs + lifetimeMs).toISOString());
  }
  const at = readUtc(expires);
  if (at === undefined) return refuse("Give a date and a time, or choose another lifetime.");
  return at.getTime() > nowMs ? ok(at.toISOString()) : refuse("It must lie in the future.");
}

function isLifetime(text: string): text is Lifetime {
  return text === "keep" || text === "at" || Object.hasOwn(LIFETIME_MS, text);
}

const LOCAL_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?$/;

/** The time that a text names; undefined where it names none, the 31st of February included. */
function readUtc(text: string): Date | undefined {
  const at = new Date(`${text}Z`);
  if (!LOCAL_TIME.test(text) || Number.isNaN(at.getTime())) return undefined;
  return at.toISOString().startsWith(text) ? at : undefined;
}
