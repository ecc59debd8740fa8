/**
 * Proposes a payload template from a sample payload (spec §2.1): what its names say fills the fields of an account, the
 * rest becomes attributes. The admin changes it as they like; one that is not changed maps the sample.
 */
import { isJsonObject } from "../json/dot-path.ts";
import { compileTemplate, isAccountTarget, mapAccount } from "./payload-template.ts";
import type { PayloadMapping } from "./payload-template.ts";
import type { JsonObject } from "../json/json-object.ts";

/** Mappings proposed at most: what does not fit on a screen is not read. */
const MAX_MAPPINGS = 15;
/** Levels of a sample that are looked into. */
const MAX_LEVELS = 4;

/** Names by which senders call a field, the most telling first; compared without case and separators. */
const NAMES: readonly (readonly [target: string, names: readonly string[]])[] = [
  [
    "external_id",
    words(
      "externalid accountid companyid organizationid organisationid orgid workspaceid tenantid groupid teamid customerid id uuid",
    ),
  ],
  ["name", words("accountname companyname organizationname workspacename orgname name")],
  ["plan", words("planname plan subscriptionplan tier edition")],
  ["user_count", words("usercount users seats seatcount numusers membercount members headcount licenses")],
  ["recurring_revenue", words("recurringrevenue monthlyrecurringrevenue annualrecurringrevenue mrr arr revenue")],
  ["trial_status", words("trialstatus trial istrial ontrial")],
  ["feature_flags", words("featureflags flags features featuretoggles")],
];

interface Leaf {
  path: string;
  value: unknown;
}

/** The proposal begins with a mapping of `external_id`; its path is empty where no name of the sample looks like one. */
export function proposeTemplate(sample: JsonObject): PayloadMapping[] {
  const leaves: Leaf[] = [];
  collect(sample, "", MAX_LEVELS, leaves);
  const rows: PayloadMapping[] = [];
  const used = new Set<Leaf>();
  for (const [target, names] of NAMES) {
    const leaf = bestLeaf(target, names, leaves, used);
    if (leaf !== undefined) used.add(leaf);
    if (leaf !== undefined) rows.push(mapping(target, leaf));
    else if (target === "external_id") rows.push({ target, path: "", type: "string", required: true });
  }
  const taken = new Set<string>();
  for (const leaf of leaves) {
    const target = `attributes.${lastName(leaf.path)}`;
    if (rows.length >= MAX_MAPPINGS) break;
    if (used.has(leaf) || taken.has(target) || !isAccountTarget(target)) continue;
    const row = mapping(target, leaf);
    if (!isMapped(row, sample)) continue;
    taken.add(target);
    rows.push(row);
  }
  return rows;
}

/** Collects texts, numbers and flags with their paths; arrays and the flags of `features: {…}` as a whole. */
function collect(value: JsonObject, prefix: string, levels: number, leaves: Leaf[]): void {
  for (const [name, inner] of Object.entries(value)) {
    if (name === "" || name.includes(".") || /\[\d*\]$/.test(name) || inner === null || inner === "") continue;
    const path = prefix + name;
    const isFlags = NAMES.some(([target, names]) => target === "feature_flags" && names.includes(plain(name)));
    if (isJsonObject(inner) && !isFlags && levels > 1) collect(inner, `${path}.`, levels - 1, leaves);
    else leaves.push({ path, value: inner });
  }
}

function bestLeaf(
  target: string,
  names: readonly string[],
  leaves: readonly Leaf[],
  used: ReadonlySet<Leaf>,
): Leaf | undefined {
  for (const name of names) {
    for (const leaf of leaves) {
      if (used.has(leaf) || (plain(lastName(leaf.path)) !== name && plain(leaf.path) !== name)) continue;
      const isWhole = typeof leaf.value === "object";
      if (isWhole === (target === "feature_flags") && isMapped(mapping(target, leaf), nest(leaf))) return leaf;
    }
  }
  return undefined;
}

/** A payload with the leaf alone, as its path reads it. */
function nest(leaf: Leaf): JsonObject {
  return { [leaf.path]: leaf.value };
}

function mapping(target: string, { path, value }: Leaf): PayloadMapping {
  return {
    target,
    path,
    type: target === "external_id" ? "string" : typeOf(target, value),
    required: target === "external_id",
  };
}

function typeOf(target: string, value: unknown): PayloadMapping["type"] {
  if (typeof value === "boolean") return "boolean";
  if (typeof value === "object") return "json";
  if (typeof value === "number") return "number";
  const isAmount = target === "user_count" || target === "recurring_revenue";
  return isAmount && typeof value === "string" && /^\s*-?\d+(\.\d+)?\s*$/.test(value) ? "number" : "string";
}

/** Whether the mapping works for the payload. This is found out by mapping it, so that no reason against it is missed. */
function isMapped(row: PayloadMapping, payload: JsonObject): boolean {
  const id: PayloadMapping = { target: "external_id", path: ID_OF_TRIAL, type: "string", required: true };
  try {
    const rows = row.target === "external_id" ? [row] : [row, id];
    return mapAccount(compileTemplate(rows), { ...payload, [ID_OF_TRIAL]: "trial-1" }).ok;
  } catch {
    return false;
  }
}

/** A property's name that no sample has. */
const ID_OF_TRIAL = "\u{f8ff}id";

function lastName(path: string): string {
  return path.slice(path.lastIndexOf(".") + 1);
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

function words(list: string): readonly string[] {
  return list.split(" ");
}
