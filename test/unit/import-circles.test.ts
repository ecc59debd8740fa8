/**
 * src/ has no import circles: the files and folders of a folder never import each other in a circle. A folder counts with
 * all of its content, and imports of types count too. .oxlintrc.json sets the direction of imports between the folders
 * of src/.
 */
import { existsSync, globSync, readFileSync } from "node:fs";
import path from "node:path";
import { parseAst } from "vitest/node";
import { expect, test } from "vitest";

const ROOT = path.join(import.meta.dirname, "../..");

/** Each file or folder with the files or folders that it imports. */
type Graph = Map<string, Set<string>>;

const IMPORTING = new Set([
  "ImportDeclaration",
  "ExportNamedDeclaration",
  "ExportAllDeclaration",
  "ImportExpression",
  "TSImportType",
]);

/** Files that a file imports, however it says so. */
function importedBy(file: string): string[] {
  const specifiers: string[] = [];
  const look = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return;
    const { type, source } = node as { type?: unknown; source?: { value?: unknown } | null };
    if (typeof type === "string" && IMPORTING.has(type) && typeof source?.value === "string") {
      specifiers.push(source.value);
    }
    for (const child of Object.values(node)) look(child);
  };
  look(parseAst(readFileSync(path.join(ROOT, file), "utf8"), { lang: file.endsWith("x") ? "tsx" : "ts" }));
  return specifiers.filter((name) => name.startsWith(".")).map((name) => path.join(path.dirname(file), name));
}

/** Files of src/ except generated declarations, each with the files that it imports. */
function importsOf(): Graph {
  const files = globSync("src/**/*.{ts,tsx}", { cwd: ROOT }).filter((file) => !file.endsWith(".d.ts"));
  return new Map(files.map((file) => [file, new Set(importedBy(file))] as const));
}

/** The children of a folder, each with the other children that it imports. */
function importsWithin(imports: Graph, folder: string): Graph {
  const childOf = (file: string): string => path.join(folder, file.slice(folder.length + 1).split("/")[0] ?? "");
  const graph: Graph = new Map();
  for (const [file, imported] of imports) {
    if (!file.startsWith(`${folder}/`)) continue;
    const needs = graph.get(childOf(file)) ?? new Set();
    graph.set(childOf(file), needs);
    for (const target of imported) {
      if (target.startsWith(`${folder}/`) && childOf(target) !== childOf(file)) needs.add(childOf(target));
    }
  }
  return graph;
}

/** Returns an import circle, from a node back to the same node; null if there is none. */
function circleIn(graph: Graph): string[] | null {
  const done = new Set<string>();
  const follow = (node: string, way: readonly string[]): string[] | null => {
    if (way.includes(node)) return [...way.slice(way.indexOf(node)), node];
    if (done.has(node)) return null;
    for (const target of graph.get(node) ?? []) {
      const circle = follow(target, [...way, node]);
      if (circle !== null) return circle;
    }
    done.add(node);
    return null;
  };
  for (const node of graph.keys()) {
    const circle = follow(node, []);
    if (circle !== null) return circle;
  }
  return null;
}

const imports = importsOf();
const folders = [...new Set([...imports.keys()].flatMap(foldersOf))].sort();

/** The folders that a file is in. */
function foldersOf(file: string): string[] {
  const folder = path.dirname(file);
  return folder === "." ? [] : [folder, ...foldersOf(folder)];
}

test("reads every import of src/, which names an existing file", () => {
  const named = [...imports.values()].flatMap((files) => [...files]);
  expect(named.length).toBeGreaterThan(1_000);
  expect(named.filter((file) => !existsSync(path.join(ROOT, file)))).toEqual([]);
});

test.each(folders)("finds no import cycle in %s", (folder) => {
  const circle = circleIn(importsWithin(imports, folder));
  expect(circle?.join(" → ") ?? "no circle").toBe("no circle");
});

test("finds a cycle of folders although none of their files is on one", () => {
  const graph: Graph = new Map([
    ["src/a/one.ts", new Set(["src/b/two.ts"])],
    ["src/b/two.ts", new Set()],
    ["src/b/three.ts", new Set(["src/c/four.ts"])],
    ["src/c/four.ts", new Set(["src/a/five.ts"])],
    ["src/a/five.ts", new Set()],
  ]);
  expect(circleIn(importsWithin(graph, "src"))).toEqual(["src/a", "src/b", "src/c", "src/a"]);
  graph.delete("src/c/four.ts");
  expect(circleIn(importsWithin(graph, "src"))).toBeNull();
});
