/**
 * In tests on workerd, what the Worker loads when it is first asked for (`await import`) is loaded with the rest. There an
 * import is a call of the test runner, also of what is loaded already; two objects that import the same at once share the
 * call, and the one that did not make it goes on with the other's storage, which the platform refuses.
 */
import path from "node:path";
import type { Plugin } from "vitest/config";

const SRC = path.join(import.meta.dirname, "../../src/");

export function importsAtOnce(): Plugin {
  return {
    name: "imports-at-once",
    transform(code, id) {
      if (!id.startsWith(SRC)) return null;
      const imports: string[] = [];
      const changed = code.replaceAll(/\bimport\(("[^"]+")\)/g, (_, specifier: string) => {
        const name = `__loaded_${imports.length}`;
        imports.push(`import * as ${name} from ${specifier};`);
        return `Promise.resolve(${name})`;
      });
      // On the first line, so that all lines keep their numbers.
      return imports.length === 0 ? null : { code: imports.join("") + changed, map: null };
    },
  };
}
