/** Values of accounts: whatever JSON a payload template has made. Hostile text stays text. */
import { ACCOUNT_VALUE_CHARACTERS } from "../../limits.ts";
import { grouped } from "./format.ts";
import { Badge } from "./parts.tsx";

/** The beginning of a JSON text, which may go on (see AccountSummary), in a line. */
export function ShortValue({ json, characters }: { json: string | null; characters: number }) {
  if (json === null) return <span class="quiet">–</span>;
  if (json.length > characters) return <span class="value">{json.slice(0, characters)}…</span>;
  return <Value value={JSON.parse(json) as unknown} />;
}

export function Value({ value }: { value: unknown }) {
  switch (typeof value) {
    case "number":
      return <span>{grouped(value)}</span>;
    case "boolean":
      return <span>{value ? "Yes" : "No"}</span>;
    case "string":
      return <span class="value">{cut(value)}</span>;
    default:
      return <code class="value">{cut(JSON.stringify(value, null, 1))}</code>;
  }
}

/** What flags usually are: a list of those that are on, or each with whether it is. Anything else is shown as it is. */
export function Flags({ value }: { value: unknown }) {
  const flags = flagsOf(value);
  if (flags === null) return <Value value={value} />;
  if (flags.length === 0) return <span class="quiet">none</span>;
  return (
    <ul class="flags">
      {flags.map(({ name, is }) => (
        <li>
          {is === false ? (
            <Badge>{name}: off</Badge>
          ) : (
            <Badge tone="good">{is === true ? name : `${name}: ${is}`}</Badge>
          )}
        </li>
      ))}
    </ul>
  );
}

function flagsOf(value: unknown): { name: string; is: boolean | string }[] | null {
  if (Array.isArray(value)) {
    const names: unknown[] = value;
    return names.every((name) => typeof name === "string")
      ? names.map((name) => ({ name: cut(name), is: true }))
      : null;
  }
  if (typeof value !== "object" || value === null) return null;
  const flags: { name: string; is: boolean | string }[] = [];
  for (const [name, is] of Object.entries(value)) {
    if (typeof is === "boolean") flags.push({ name: cut(name), is });
    else if (typeof is === "string" || typeof is === "number") flags.push({ name: cut(name), is: cut(String(is)) });
    else return null;
  }
  return flags;
}

function cut(text: string): string {
  return text.length > ACCOUNT_VALUE_CHARACTERS ? `${text.slice(0, ACCOUNT_VALUE_CHARACTERS)}…` : text;
}
