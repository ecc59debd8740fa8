/** Values of accounts: whatever JSON a payload template has made. Hostile text stays text. */
import { cut } from "../../domain/text.ts";
import { grouped } from "../kit/format.ts";
import { Badge } from "../views/parts.tsx";

/** Characters of a feature flag that is shown as a badge, name and value together; longer ones are shown as JSON. */
const ACCOUNT_FLAG_CHARACTERS = 60;
/** Characters of a value on the page of an account. */
const ACCOUNT_VALUE_CHARACTERS = 10_000;

/** The beginning of a JSON text, which may go on (see AccountSummary), in a line. */
export function ShortValue({ json, characters }: { json: string | null; characters: number }) {
  if (json === null) return <span class="quiet">–</span>;
  if (json.length > characters) return <span class="value">{cut(json, characters)}</span>;
  return /^[[{]/.test(json) ? <code>{json}</code> : <JsonValue value={JSON.parse(json) as unknown} />;
}

export function JsonValue({ value }: { value: unknown }) {
  switch (typeof value) {
    case "number":
      return <span>{grouped(value)}</span>;
    case "boolean":
      return <span>{value ? "Yes" : "No"}</span>;
    case "string":
      return <span class="value">{cut(value, ACCOUNT_VALUE_CHARACTERS)}</span>;
    default:
      return <code class="value">{cut(JSON.stringify(value, null, 1), ACCOUNT_VALUE_CHARACTERS)}</code>;
  }
}

/** What flags usually are: a list of those that are on, or each with what it is. Anything else is shown as it is. */
export function Flags({ value }: { value: unknown }) {
  const flags = flagsOf(value);
  if (flags === null) return <JsonValue value={value} />;
  if (flags.length === 0) return <span class="quiet">none</span>;
  return (
    <ul class="flags">
      {flags.map(([name, is]) => (
        <li>
          <Badge tone={is === false ? "quiet" : "good"}>
            {is === true ? name : is === false ? `${name}: off` : `${name}: ${is}`}
          </Badge>
        </li>
      ))}
    </ul>
  );
}

type Flag = [name: string, is: boolean | string | number];

/** The flags of a value; null where it is something else, or too long for badges. */
function flagsOf(value: unknown): Flag[] | null {
  if (typeof value !== "object" || value === null) return null;
  const entries: [unknown, unknown][] = Array.isArray(value)
    ? value.map((name: unknown) => [name, true])
    : Object.entries(value);
  return entries.every(isFlag) ? entries : null;
}

function isFlag(entry: [unknown, unknown]): entry is Flag {
  const [name, is] = entry;
  if (typeof name !== "string" || !["boolean", "string", "number"].includes(typeof is)) return false;
  return name.length + String(is).length <= ACCOUNT_FLAG_CHARACTERS;
}
