/** The traits of a `group` call as values of an account (design §8.7). */
import { GROUP_TRAIT_MAX_BYTES, GROUP_TRAITS_MAX } from "../../limits.ts";
import { isAbsent, type JsonObject } from "../json/json-value.ts";
import { withoutKeys } from "../keys/api-key.ts";
import { isAccountField, isAccountTarget, type AccountRecord } from "./payload-template.ts";

/** Traits with the name of an account's field set the field, others an attribute. Traits beyond the limits are left out. */
export function recordOfGroup(externalId: string, traits: JsonObject): AccountRecord {
  const record: AccountRecord = { externalId, fields: {}, attributes: {} };
  for (const [name, sent] of Object.entries(traits).slice(0, GROUP_TRAITS_MAX)) {
    const value = typeof sent === "string" ? withoutKeys(sent.trim()) : sent;
    if (isAbsent(value) || Buffer.byteLength(JSON.stringify(value)) > GROUP_TRAIT_MAX_BYTES) continue;
    if (isAccountField(name)) record.fields[name] = value;
    else if (isAccountTarget(`attributes.${name}`)) record.attributes[name] = value;
  }
  return record;
}
