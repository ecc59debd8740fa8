/** When what is replaced ends: a key that is rotated, or a destination's secret. */
import type { Overlap } from "../../workspace/manage-keys.ts";
import { Choice } from "../kit/forms.tsx";

interface OverlapCopy {
  label: string;
  hint: string;
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
        <Choice
          group="overlap"
          name="overlap"
          value={value}
          label={label}
          hint={hint}
          checked={value === chosen}
          autofocus={value === chosen && autofocus}
        />
      ))}
    </fieldset>
  );
}
