/** The name and the values of an account as texts. */
import type { Child } from "hono/jsx";
import { cut } from "../domain/text.ts";
import { ACCOUNT_LIST_CHARACTERS } from "../limits.ts";
import type { AccountSummary } from "../store/protocol/people-and-accounts.ts";
import { grouped } from "./kit/format.ts";

export function AccountName({ name, externalId }: Pick<AccountSummary, "name" | "externalId">) {
  return name === null ? <>{externalId}</> : <ShortValue json={name} characters={ACCOUNT_LIST_CHARACTERS} />;
}

export const NO_VALUE = <span class="quiet">–</span>;
export const VALUE_CHARACTERS = 10_000;

/** @param props.json may be cut (see AccountSummary). */
export function ShortValue({ json, characters }: { json: string | null; characters: number }) {
  if (json === null) return NO_VALUE;
  if (json.length > characters) return <>{cut(json, characters)}</>;
  return /^[[{]/.test(json) ? <code>{json}</code> : <JsonValue value={JSON.parse(json) as unknown} />;
}

export function JsonValue({ value }: { value: unknown }): Child {
  if (value === null) return NO_VALUE;
  if (typeof value === "number") return <>{grouped(value)}</>;
  if (typeof value === "boolean") return <>{value ? "Yes" : "No"}</>;
  if (typeof value === "string") return <>{cut(value, VALUE_CHARACTERS)}</>;
  return <code>{cut(JSON.stringify(value, null, 1), VALUE_CHARACTERS)}</code>;
}
