/**
 * A built Worker whose functions note that they run. V8's own coverage would need no change of the code, but the inspector of workerd
 * does not offer it.
 */
import { readFileSync } from "node:fs";
import { SourceMap, type SourceMapPayload } from "node:module";
import path from "node:path";
import { parseAst } from "vitest/node";
import { ROOT, type BuiltWorker } from "../bench/build.ts";

export interface SourceFunction {
  /** Below `src/`. */
  file: string;
  name: string;
}

export interface CountedWorker {
  worker: BuiltWorker;
  /** The index is the number that a function notes. */
  functions: readonly SourceFunction[];
}

/** The set of the Worker with the numbers of the functions that have run. */
export const RUN_SET = "__functionsRun";

interface Node {
  type: string;
  start: number;
  end: number;
  [child: string]: unknown;
}

/** @param built not minified, with a source map. */
export function countFunctions(built: BuiltWorker): CountedWorker {
  const [main, ...others] = built.modules;
  if (main === undefined) throw new Error(`${built.outDir} has no bundle`);
  const sourceAt = sourceReader(built.outDir, main);
  const functions: SourceFunction[] = [];
  const inserted: { at: number; text: string }[] = [];
  visit(parseAst(main.contents) as unknown as Node, null, (node, named) => {
    const { file } = sourceAt(node.start);
    const name = named === null ? "(anonymous)" : (sourceAt(named.start).name ?? nameOf(named) ?? "(computed)");
    // Developers' commands and their clock are no part of the service. esbuild names the statements of a module after its file.
    if (file === null || file.startsWith("dev/") || name.includes("/")) return;
    const call = `${RUN_SET}.add(${functions.push({ file, name }) - 1})`;
    const { start, end, type } = node["body"] as Node;
    if (type === "BlockStatement") inserted.push({ at: start + 1, text: `${call};` });
    else inserted.push({ at: start, text: `(${call},` }, { at: end, text: ")" });
  });
  const contents = `const ${RUN_SET} = globalThis.${RUN_SET} = new Set();${insert(main.contents, inserted)}`;
  return { worker: { ...built, modules: [{ ...main, contents }, ...others] }, functions };
}

function insert(code: string, inserted: readonly { at: number; text: string }[]): string {
  let done = 0;
  const parts: string[] = [];
  for (const { at, text } of inserted.toSorted((a, b) => a.at - b.at)) {
    parts.push(code.slice(done, at), text);
    done = at;
  }
  return parts.join("") + code.slice(done);
}

/** Calls `onFunction` for each function with its name: its own, or that of the variable, field or method that it is. */
function visit(node: Node, given: Node | null, onFunction: (node: Node, named: Node | null) => void): void {
  const named = [node["id"], node["key"]].find(isNode) ?? null;
  if (/Function/.test(node.type)) onFunction(node, named ?? given);
  for (const [field, child] of Object.entries(node)) {
    const childName = field === "value" || field === "init" ? named : null;
    for (const one of Array.isArray(child) ? child : [child]) if (isNode(one)) visit(one, childName, onFunction);
  }
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value;
}

/** Of an identifier, a private name or a quoted property. */
function nameOf({ name, value }: Node): string | undefined {
  return [name, value].find((text) => typeof text === "string");
}

interface Source {
  /** Below `src/`; null: a library. */
  file: string | null;
  /** If the bundler gave the identifier here another name. */
  name: string | undefined;
}

/** Returns the source of a position in the bundle. */
function sourceReader(outDir: string, main: BuiltWorker["modules"][number]): (offset: number) => Source {
  const map = new SourceMap(JSON.parse(readFileSync(`${main.path}.map`, "utf8")) as SourceMapPayload);
  const lineStarts = [0, ...Array.from(main.contents.matchAll(/\n/g), ({ index }) => index + 1)];
  return (offset) => {
    let [line, above] = [0, lineStarts.length];
    while (above - line > 1) {
      const middle = (line + above) >> 1;
      if ((lineStarts[middle] ?? 0) <= offset) line = middle;
      else above = middle;
    }
    const entry = map.findEntry(line, offset - (lineStarts[line] ?? 0));
    if (!("originalSource" in entry)) return { file: null, name: undefined };
    const file = path.relative(path.join(ROOT, "src"), path.resolve(outDir, entry.originalSource));
    return { file: file.startsWith("..") ? null : file, name: (entry as { name?: string }).name };
  };
}
