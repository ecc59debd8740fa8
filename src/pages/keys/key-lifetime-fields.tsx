/** The part of a form that asks how long a new key is to live: a preset, or a time of its own. */
import type { Lifetime, TypedLifetime } from "./key-lifetime.ts";
import { SelectField, TextField } from "../kit/forms.tsx";
import { exactTime } from "../kit/format.ts";

const OWN = "A time of its own…";
const PRESETS = [
  ["never", "Never"],
  ["30d", "In 30 days"],
  ["90d", "In 90 days"],
  ["365d", "In a year"],
] as const satisfies readonly (readonly [Lifetime, string])[];

interface LifetimeForm {
  label: string;
  typed: TypedLifetime;
  error: string | undefined;
  /** Expiration of the key that is rotated, which the new one may take over; null where it has none. */
  kept?: string | null;
}

export function LifetimeFields({ label, typed, error, kept = null }: LifetimeForm) {
  const isOwn = typed.lifetime === "at";
  const options: (readonly [value: Lifetime | "", text: string])[] = [...PRESETS, ["at", OWN]];
  if (kept !== null) options.unshift(["keep", `With the old one's expiration, ${exactTime(Date.parse(kept))}`]);
  if (typed.lifetime === "") options.unshift(["", "Choose…"]);
  return (
    <div class="lifetime stack">
      <SelectField
        name="lifetime"
        label={label}
        value={typed.lifetime}
        options={options}
        error={isOwn ? undefined : error}
      />
      <div class="own-time">
        <TextField
          name="expires"
          label="Expires at"
          type="datetime-local"
          data-local-time
          value={typed.expires}
          error={isOwn ? error : undefined}
          hint={
            <>
              For “{OWN}” only. Time zone: <span data-zone-of="expires">UTC</span>.
            </>
          }
        />
      </div>
    </div>
  );
}
