/** The values of a sample payload, each with a path that a template can have. */
import { TEMPLATE_PATH_MAX_LENGTH } from "../../limits.ts";
import { InnerJson } from "../json/inner-json.ts";
import { isJsonObject, type JsonObject } from "../json/json-value.ts";
import { plainName } from "./event-names.ts";

export interface Leaf {
  path: string;
  /** The path of the object that holds it, with a dot at the end; blank: the payload. */
  parent: string;
  /** The name of its field in plain form (`plainName`), or what its element says that it is. */
  name: string;
  /** The names on the way, in plain form. */
  within: readonly string[];
  value: unknown;
}

/** Values of a sample that are looked at. */
const LEAVES_MAX = 2_000;
const LEVELS_MAX = 8;
/** Elements of a list that are looked at: a form has as many fields. */
const ELEMENTS_MAX = 50;

/** The field of an element that says what it is, and the field with its value. */
const LABELS = ["name", "key", "label", "field", "property", "propertyName", "title", "entity", "type"];
const VALUES = ["value", "answer", "propertyValue", "entity_id", "text"];

/**
 * Texts, numbers and booleans, outer ones first. The elements of a list share their paths (`items[].sku`), because such a path reads the
 * first value that its target can use.
 */
export function leavesOfSample(payload: JsonObject): Leaf[] {
  const innerJson = new InnerJson();
  const leaves: Leaf[] = [];
  const objects: { value: JsonObject; parent: string; within: readonly string[] }[] = [
    { value: payload, parent: "", within: [] },
  ];
  for (const { value: object, parent, within } of objects) {
    for (const [name, sent] of Object.entries(object)) {
      if (leaves.length >= LEAVES_MAX || objects.length >= LEAVES_MAX) return leaves;
      const written = writtenName(name);
      const path = parent + (written ?? "");
      if (written === undefined || path.length > TEMPLATE_PATH_MAX_LENGTH) continue;
      const value = typeof sent === "string" ? (innerJson.read(sent) ?? sent) : sent;
      const inner = [...within, plainName(name)];
      if (Array.isArray(value)) {
        leaves.push(...namedElements(value, path, inner));
        for (const element of value.slice(0, ELEMENTS_MAX) as unknown[]) {
          if (isJsonObject(element)) addObject(objects, { value: element, parent: `${path}[].`, within: inner });
          else if (isScalar(element)) {
            leaves.push({ path: `${path}[]`, parent, name: plainName(name), within, value: element });
          }
        }
      } else if (isJsonObject(value)) addObject(objects, { value, parent: `${path}.`, within: inner });
      else if (isScalar(value)) leaves.push({ path, parent, name: plainName(name), within, value });
    }
  }
  return leaves;
}

function addObject<Place extends { within: readonly string[] }>(objects: Place[], place: Place): void {
  if (place.within.length < LEVELS_MAX) objects.push(place);
}

function isScalar(value: unknown): boolean {
  return value !== null && value !== undefined && !isJsonObject(value) && !Array.isArray(value);
}

/** `fields[name=email].value` of `[{"name":"email","value":"…"}, …]`. */
function namedElements(elements: readonly unknown[], path: string, within: readonly string[]): Leaf[] {
  return elements.slice(0, ELEMENTS_MAX).flatMap((element): Leaf[] => {
    if (!isJsonObject(element)) return [];
    const fields = element;
    const label = LABELS.find((name) => Object.hasOwn(fields, name) && isSelectable(fields[name]));
    const field = VALUES.find((name) => Object.hasOwn(fields, name) && isScalar(fields[name]));
    if (label === undefined || field === undefined) return [];
    const parent = `${path}[${label}=${String(fields[label])}].`;
    if (parent.length + field.length > TEMPLATE_PATH_MAX_LENGTH) return [];
    return [{ path: parent + field, parent, name: plainName(String(fields[label])), within, value: fields[field] }];
  });
}

/** Whether a selector can have this value. */
function isSelectable(value: unknown): value is string {
  return typeof value === "string" && /^[^\]*]{1,60}$/.test(value);
}

/** A name as a path writes it; undefined: no path can name it. */
function writtenName(name: string): string | undefined {
  if (/^[\w $:/-]+$/.test(name)) return name;
  return name.includes('"') ? undefined : `"${name}"`;
}
