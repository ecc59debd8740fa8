/**
 * On workerd, tests load the Worker's lazy modules (`await import`) together with the rest. There an import is a call
 * of the test runner, even for loaded modules. Two objects that import the same module at once share the call, and
 * one of them would continue with the other's storage, which the platform refuses.
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
      // On the first line, so that the line numbers stay the same.
      return imports.length === 0 ? null : { code: imports.join("") + changed, map: null };
    },
  };
}
