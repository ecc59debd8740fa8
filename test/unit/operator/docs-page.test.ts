/** The public documents are made once in an isolate, because anybody may ask for them at any rate. */
import { beforeEach, expect, test } from "vitest";
import { createDocumentRoutes } from "../../../src/operator/docs/docs-page.tsx";
import { openApiDocument } from "../../../src/operator/docs/openapi.ts";
import { OPERATIONS } from "../../../src/operator/operator-api.ts";

const document = openApiDocument(OPERATIONS);

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

async function textOf(path: string, origin = "https://signals.example"): Promise<string> {
  const answer = await routes.request(origin + path);
  expect(answer.status).toBe(200);
  return answer.text();
}

test.each(["/docs", "/openapi.json"])(
  "%s is made with the first request for it, and kept for every Host",
  async (path) => {
    expect(made).toBe(0);
    const first = await textOf(path);
    expect(made).toBe(1);
    const readsOfOne = reads;
    expect(readsOfOne).toBeGreaterThan(0);
    const other = await textOf(path, "https://other.example:8443");
    for (let n = 0; n < 20; n++) await textOf(path, `https://host-${n}.example`);
    expect([made, reads]).toEqual([1, readsOfOne]);
    expect(await textOf(path)).toBe(first);
    expect(other.replaceAll("https://other.example:8443", "https://signals.example")).toBe(first);
  },
);

test("both texts are made from one document", async () => {
  for (const path of ["/docs", "/openapi.json"]) await textOf(path);
  expect(made).toBe(1);
});

test("/docs names the origin at which it was asked for, and no other", async () => {
  const origins = [
    "https://signals.example",
    "http://localhost:8787",
    "http://[::1]:8787",
    "https://sub_domain.example",
  ];
  for (const origin of origins) {
    const text = await textOf("/docs", origin);
    const named = new Set(
      Array.from(text.matchAll(/\bhttps?:\/\/[^\s/]+(?=\/(?:api|operator|healthz)\b)/g), ([found]) => found),
    );
    expect([...named]).toEqual([origin]);
    expect(text).not.toContain(".invalid");
  }
});

test.each(['"', "'", "&", "`", "$(id)", "{", "}", ";", "*", "=", "%22", "%27%3b"])(
  "a Host with %s ends no attribute, string or shell word of /docs, and stays the same host",
  async (hostile) => {
    const asked = `https://a${hostile}b.example`;
    const text = await textOf("/docs", asked);
    const [, host = ""] = /POST &#39;https:\/\/([^/]*)\//.exec(text) ?? [];
    expect(host).toMatch(/^a(%[\da-f]{2}|\w)+b\.example$/);
    expect(new URL(`https://${host}`).host).toBe(new URL(asked).host);
    expect(text.replaceAll(host, "ab.example")).toBe(await textOf("/docs", "https://ab.example"));
  },
);
