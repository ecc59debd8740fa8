/** The public documents are made once in an isolate, because anybody may ask for them at any rate. */
import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { explanationOf } from "../../../src/http/problem.ts";
import { createDocumentRoutes } from "../../../src/operator/docs/docs-page.tsx";
import { openApiDocument } from "../../../src/operator/docs/openapi.ts";
import { PAGES } from "../../../src/operator/docs/site.ts";
import { OPERATIONS } from "../../../src/operator/operator-api.ts";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const document = openApiDocument(OPERATIONS);
const DOCS_PAGES = ["/docs", ...PAGES.map((page) => page.path)];

let routes: ReturnType<typeof createDocumentRoutes>;
/** How often the document was made, and how often a part of it was read. */
let made: number;
let reads: number;

beforeEach(() => {
  [made, reads] = [0, 0];
  routes = createDocumentRoutes(() => {
    made++;
    return new Proxy(document, {
      get(target, name, receiver) {
        reads++;
        return Reflect.get(target, name, receiver);
      },
    });
  });
});

async function textOf(address: string, origin = "https://signals.example"): Promise<string> {
  const answer = await routes.request(origin + address);
  expect(answer.status).toBe(200);
  return answer.text();
}

test.each([...DOCS_PAGES, "/openapi.json"])(
  "%s is made with the first request for it, and kept for every Host",
  async (address) => {
    expect(made).toBe(0);
    const first = await textOf(address);
    expect(made).toBe(1);
    const readsOfOne = reads;
    expect(readsOfOne).toBeGreaterThan(0);
    const other = await textOf(address, "https://other.example:8443");
    for (let n = 0; n < 20; n++) await textOf(address, `https://host-${n}.example`);
    expect([made, reads]).toEqual([1, readsOfOne]);
    expect(await textOf(address)).toBe(first);
    expect(other.replaceAll("https://other.example:8443", "https://signals.example")).toBe(first);
  },
);

test("all texts are made from one document, and a search reads nothing of it again", async () => {
  for (const address of [...DOCS_PAGES, "/openapi.json", "/docs/search?q=key"]) await textOf(address);
  const readsOfAll = reads;
  for (const address of ["/docs/search?q=points", "/docs/search", "/docs/search?q=nothing-like-it"])
    await textOf(address);
  expect([made, reads]).toEqual([1, readsOfAll]);
});

test.each(DOCS_PAGES)("%s is smaller than 60 KB", async (address) => {
  expect(Buffer.byteLength(await textOf(address))).toBeLessThan(60 * 1024);
});

test("the pages name the origin at which they were asked for, and no other", async () => {
  const origins = [
    "https://signals.example",
    "http://localhost:8787",
    "http://[::1]:8787",
    "https://sub_domain.example",
  ];
  for (const origin of origins) {
    const texts = await Promise.all(DOCS_PAGES.map((address) => textOf(address, origin)));
    const text = texts.join("\n");
    const named = new Set(
      Array.from(text.matchAll(/\bhttps?:\/\/[^\s/]+(?=\/(?:api|operator|healthz)\b)/g), ([found]) => found),
    );
    expect([...named]).toEqual([origin]);
    expect(text).not.toContain(".invalid");
  }
});

test.each(['"', "'", "&", "`", "$(id)", "{", "}", ";", "*", "=", "%22", "%27%3b"])(
  "a Host with %s ends no attribute, string or shell word of a page, and stays the same host",
  async (hostile) => {
    const asked = `https://a${hostile}b.example`;
    const [, host = ""] = /POST &#39;https:\/\/([^/]*)\//.exec(await textOf("/docs/senders", asked)) ?? [];
    expect(host).toMatch(/^a(%[\da-f]{2}|\w)+b\.example$/);
    expect(new URL(`https://${host}`).host).toBe(new URL(asked).host);
    for (const address of DOCS_PAGES) {
      const text = await textOf(address, asked);
      expect(text.replaceAll(host, "ab.example")).toBe(await textOf(address, "https://ab.example"));
    }
  },
);

test("the code of every problem in the sources has an explanation at the address that the problem names", async () => {
  const files = globSync("src/{http,ingest,operator}/**/*.ts", { cwd: ROOT });
  const texts = files.map((file) => readFileSync(path.join(ROOT, file), "utf8")).join("\n");
  const codes = new Set(
    [...texts.matchAll(/\bcode: "(\w+)", title: |\n +code: "(\w+)",/g)].map(([, a, b]) => a ?? b ?? ""),
  );
  expect(codes.size).toBeGreaterThan(10);
  for (const code of codes) {
    const [address = "", anchor = ""] = explanationOf(code).split("#");
    expect(await textOf(address), code).toContain(`<tr id="${anchor}">`);
  }
});

describe("a search", () => {
  const search = (text: string) => textOf(`/docs/search?q=${encodeURIComponent(text)}`);

  test("costs little and has a short answer, whatever is searched", async () => {
    await search("key");
    const texts = [
      ..."aeiost ".split("").map((letter) => letter.repeat(20_000)),
      "e ".repeat(10_000),
      "operator/workspaces/{workspace_id}/".repeat(500),
      "\u{1f511}".repeat(10_000),
      "<&\"'".repeat(5_000),
    ];
    for (const text of ["e", "a e i o s t", ...texts]) {
      const before = process.threadCpuUsage();
      const answer = await search(text);
      const { user, system } = process.threadCpuUsage(before);
      expect(Buffer.byteLength(answer), text.slice(0, 20)).toBeLessThan(60 * 1024);
      expect((user + system) / 1_000, text.slice(0, 20)).toBeLessThan(50);
    }
  });
});
