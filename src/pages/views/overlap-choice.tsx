/** When what is replaced ends: a key that is rotated, or a destination's secret. */
import type { Overlap } from "../../workspace/keys.ts";

interface OverlapCopy {
  label: string;
  hint: string;
}

const LENGTHS = { none: true, "1h": true, "24h": true, "7d": true } as const satisfies Record<Overlap, true>;

export function isOverlap(text: unknown): text is Overlap {
  return typeof text === "string" && Object.hasOwn(LENGTHS, text);
}

/** @param props.autofocus whether the form begins with the choice that is made. */
export function OverlapChoice({
  legend,
  copy,
  chosen,
  autofocus,
  error,
}: {
  legend: string;
  copy: Record<Overlap, OverlapCopy>;
  chosen: Overlap;
  autofocus: boolean;
  error?: string | undefined;
}) {
  return (
    <fieldset class="field">
      <legend>{legend}</legend>
      {error !== undefined && <span class="error">{error}</span>}
      {Object.entries(copy).map(([value, { label, hint }]) => (
        <div class="check">
          <input
            type="radio"
            id={`overlap-${value}`}
            name="overlap"
            value={value}
            checked={value === chosen}
            autofocus={value === chosen && autofocus}
            aria-describedby={`overlap-${value}-hint`}
          />
          <div>
            <label for={`overlap-${value}`}>{label}</label>
            <div class="hint" id={`overlap-${value}-hint`}>
              {hint}
            </div>
          </div>
        </div>
      ))}
    </fieldset>
  );
}
