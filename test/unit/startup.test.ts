/**
 * Before its first signal, an isolate evaluates only ingest and the Durable Objects, but no pages. A bundled module that
 * is imported only with `import()` is evaluated when the code reaches the import.
 */
import path from "node:path";
import { build, type Metafile } from "esbuild";
import { beforeAll, describe, expect, test, vi } from "vitest";

const ENTRY = "src/index.ts";
let bundled: Metafile;

beforeAll(async () => {
  const result = await build({
    entryPoints: [ENTRY],
    absWorkingDir: path.join(import.meta.dirname, "../.."),
    bundle: true,
    write: false,
    metafile: true,
    format: "esm",
    outdir: "out",
    conditions: ["workerd", "worker", "browser"],
    // prom-client asks for Node's `util` by its short name.
    external: ["cloudflare:*", "node:*", "util"],
    loader: { ".sql": "text" },
    logLevel: "error",
  });
  bundled = result.metafile;
});

/** The modules that are evaluated at the start, each with its first importer. */
function evaluated(): Map<string, string> {
  const from = new Map([[ENTRY, ""]]);
  // The iteration of a Map includes entries that are added meanwhile.
  for (const importer of from.keys()) {
    for (const { kind, path: imported, external } of bundled.inputs[importer]?.imports ?? []) {
      if (kind === "import-statement" && external !== true && !from.has(imported)) from.set(imported, importer);
    }
  }
  return from;
}

/** A folder of the sources, or a package. */
function partOf(file: string): string {
  const [top, second, third] = file.split("/");
  if (top === "node_modules") return second?.startsWith("@") ? `${second}/${third}` : String(second);
  return third === undefined ? file : `${top}/${second}`;
}

describe("before the first signal", () => {
  test("ingestion and the Durable Objects are evaluated, and of all packages only the router", () => {
    const parts = new Set(Array.from(evaluated().keys(), partOf));
    expect([...parts].toSorted()).toEqual([
      "hono",
      "migrations/destinations",
      "migrations/quota-counter",
      "migrations/signal-store",
      "src/domain",
      "src/env.ts",
      "src/http",
      "src/index.ts",
      "src/ingest",
      "src/limits.ts",
      "src/notifications",
      "src/platform",
      "src/quota",
      "src/store",
      "src/wire",
    ]);
  });

  test("nothing of the control plane and of the consumer is evaluated", () => {
    const files = [...evaluated().keys()].filter((file) => /^src\/(control|queue)\//.test(file));
    expect(files).toEqual([]);
  });

  test("no trie router is evaluated", () => {
    expect([...evaluated().keys()].filter((file) => /trie-router/.test(file))).toEqual([]);
  });

  test("the rejection table creates no number formatter", async () => {
    const made = vi.spyOn(Intl, "NumberFormat");
    vi.resetModules();
    const { REJECTIONS } = await import("../../src/http/rejection-table.ts");
    expect(made).not.toHaveBeenCalled();
    made.mockRestore();
    expect(REJECTIONS.signal_too_large.advice).toContain("65,536 bytes");
  });

  test("none of Node's modules is loaded by a static import", () => {
    const externals = Object.entries(bundled.inputs).flatMap(([file, { imports }]) =>
      imports.filter((item) => item.external && item.path.startsWith("node:")).map((item) => `${file}: ${item.path}`),
    );
    expect(externals).toEqual([]);
  });
});
