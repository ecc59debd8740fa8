/** The paths of a signal's properties, as conditions of mapping rules name them. */
import type { JsonObject } from "../json/json-object.ts";
import { isJsonObject, parseDotPath, readValue } from "../json/dot-path.ts";
import { isRulePath } from "./mapping-rule.ts";

/** Every value that is neither an object nor an array, with its path, in the payload's order; of an array the first element. */
export function* leavesOf(properties: JsonObject): Generator<[path: string, value: unknown]> {
  yield* leavesAt("properties", properties);
}

function* leavesAt(path: string, value: unknown): Generator<[path: string, value: unknown]> {
  if (Array.isArray(value)) {
    yield* leavesAt(`${path}[]`, value[0]);
  } else if (isJsonObject(value)) {
    for (const [name, inner] of Object.entries(value)) yield* leavesAt(`${path}.${name}`, inner);
  } else if (value !== undefined) {
    yield [path, value];
  }
}

/** The paths of all samples, each once, at most `limit`. Those that reach nothing, for how names are written, are left out. */
export function propertyPaths(samples: readonly JsonObject[], limit: number): string[] {
  const paths = new Set<string>();
  for (const properties of samples) {
    for (const [path] of leavesOf(properties)) {
      if (paths.size === limit) return [...paths];
      if (hasValueAt(properties, path)) paths.add(path);
    }
  }
  return [...paths];
}

function hasValueAt(properties: JsonObject, path: string): boolean {
  const steps = isRulePath(path) ? parseDotPath(path.slice("properties.".length)) : undefined;
  return steps !== undefined && readValue(properties, steps) !== undefined;
}
