/** Fields for an API key to narrow a list down by: the newest in a list, and where there are more, a part of the name. */
import { grouped } from "../../domain/text.ts";
import type { KeyFilter } from "../key-filter.ts";
import { SelectField, TextField } from "../kit/forms.tsx";

export function KeyFields({ filter, label, any }: { filter: KeyFilter; label: string; any: string }) {
  const { id, text, offered, hasMore } = filter;
  return (
    <>
      <SelectField name="key" label={label} value={id} options={[["", any], ...offered]} />
      {(hasMore || text !== "") && (
        <TextField
          name="key_name"
          label="Key's name"
          value={text}
          placeholder="a part of it"
          error={wrongText(filter)}
          autocomplete="off"
        />
      )}
    </>
  );
}

function wrongText({ id, text, offered, hasMore }: KeyFilter): string | undefined {
  if (text === "" || id !== "") return undefined;
  if (offered.size === 0) return "No key has this in its name.";
  return `${hasMore ? "More than " : ""}${grouped(offered.size)} keys have this in their name: choose one.`;
}
