/** Design §9: the OpenAPI document matches the Worker, and the pages of /docs show all of it, each part once. */
import { REJECTIONS } from "../../../src/http/rejection-table.ts";
import { STYLE_PATH } from "../../../src/pages/assets.ts";
import { exports } from "cloudflare:workers";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { SCOPE_MEANING, TOKEN_SCOPES } from "../../../src/domain/keys/api-token.ts";
import { destinationNotificationTypes, notificationTypes } from "../../../src/domain/notifications/notification.ts";
import { ACCESS } from "../../support/access.ts";
import { readHtml, type Part } from "../../support/html.ts";
import { listen } from "../../support/destination-harness.ts";
import { until } from "../../support/until.ts";
import {
  resolve,
  type ApiDocument,
  type ApiOperation,
  type JsonSchema,
} from "../../../src/operator/docs/api-document.ts";

const ORIGIN = "https://signals.example";
const AUTHORISED = { authorization: "Bearer test-operator" };

function send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return exports.default.fetch(
    new Request(ORIGIN + path, { method, headers, body: body === undefined ? null : JSON.stringify(body) }),
  );
}

async function docsPage(path: string): Promise<Part> {
  const response = await send("GET", path);
  expect(response.status, path).toBe(200);
  return readHtml(await response.text());
}

/** Every page that the documentation links to, by its path. */
async function docsPages(): Promise<Map<string, Part>> {
  const pages = new Map([["/docs", await docsPage("/docs")]]);
  // The iteration of a Map includes entries that are added meanwhile.
  for (const page of pages.values()) {
    const paths = page.targets.flatMap((target) => /^\/docs[^#?]*/.exec(target)?.[0] ?? []);
    for (const path of new Set(paths)) if (!pages.has(path)) pages.set(path, await docsPage(path));
  }
  return pages;
}

/** The pages with the documentation itself. The start page has all names again, as links. */
async function referencePages(): Promise<Map<string, Part>> {
  const pages = await docsPages();
  pages.delete("/docs");
  return pages;
}

let api: ApiDocument;
let operations: { method: string; path: string; operation: ApiOperation }[];

beforeAll(async () => {
  const response = await send("GET", "/openapi.json");
  expect(response.headers.get("content-type")).toMatch(/^application\/json/);
  api = await response.json();
  operations = Object.entries(api.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
});

const under = (prefix: string) => operations.filter(({ path }) => path.startsWith(prefix));

/** Errors of a value against a schema of the document; undefined if there are none. */
function issuesOf(schema: JsonSchema | undefined, value: unknown): unknown {
  const text = JSON.stringify({ ...schema, $defs: api.components.schemas }).replaceAll(
    "#/components/schemas/",
    "#/$defs/",
  );
  return z.fromJSONSchema(JSON.parse(text)).safeParse(value).error?.issues;
}

describe("the document", () => {
  test("is OpenAPI 3.1 with all five ingestion endpoints and the operator API", () => {
    expect(api.openapi).toBe("3.1.0");
    const addresses = operations.map(({ method, path }) => `${method} ${path}`);
    // The operator API's routes are the rows of the access table, which lists each route once.
    const ofOperator = Object.keys(ACCESS).filter((route) => route.includes(" /operator/"));
    expect(addresses.sort()).toEqual(
      [
        "POST /api/signal-staging/webhook/{apiKey}",
        "POST /api/signal-staging/webhook/{source}/{apiKey}",
        "POST /api/signal-staging/webhook/{apiKey}/batch",
        "POST /api/signal-staging/bulk/{apiKey}",
        "POST /api/product-orgs/webhook/{apiKey}",
        ...ofOperator.map((route) => route.replaceAll(/:(\w+)/g, "{$1}")),
        "GET /healthz",
      ].sort(),
    );
  });

  test("names every operation once, and every parameter of its path", () => {
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { path, operation } of operations) {
      const documented = (operation.parameters ?? []).filter((parameter) => parameter.in === "path");
      expect(documented.map((parameter) => parameter.name)).toEqual(
        Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name),
      );
      expect(documented.every((parameter) => parameter.required)).toBe(true);
      expect(api.tags.map((tag) => tag.name)).toEqual(expect.arrayContaining(operation.tags));
    }
  });

  test("says that a scope changes records if one of its operations does, and each way in which signals are purged", () => {
    const changing = operations.filter(({ method }) => method === "PATCH" || method === "PUT");
    const scopes = changing.flatMap(
      ({ operation }) => operation.security?.flatMap(({ apiToken = [] }) => apiToken) ?? [],
    );
    expect(new Set(scopes)).toEqual(new Set(["keys", "rules"]));
    for (const scope of TOKEN_SCOPES)
      expect(SCOPE_MEANING[scope].includes("changes"), scope).toBe(scopes.includes(scope));
    const { purged } = api.components.schemas["Books"]?.properties ?? {};
    for (const way of ["deleted with their person", "their period ended", "misfits"])
      expect(purged?.description).toContain(way);
  });

  test("answers 201 to what creates a record, and to nothing else", () => {
    const creating = under("/operator").filter(({ operation }) => operation.responses[201] !== undefined);
    expect(creating.map(({ method, path }) => `${method} ${path.split("/{workspace_id}").at(-1)}`).sort()).toEqual([
      "POST /destinations",
      "POST /destinations/{destination_id}/rotate-secret",
      "POST /destinations/{destination_id}/test",
      "POST /keys",
      "POST /keys/{key_id}/rotate",
      "POST /members",
      "POST /operator/imports",
      "POST /operator/workspaces",
      "POST /rules",
      "POST /tokens",
      "PUT /operator/plans/{plan_id}",
    ]);
  });

  test("names the scope that an API token needs for each operation of the operator API", () => {
    for (const { method, path, operation } of under("/operator")) {
      const row = `${method} ${path.replaceAll(/\{(\w+)\}/g, ":$1")}`;
      const scope = ACCESS[row]?.split(" ").at(-1) ?? "";
      const isForTokens = scope !== "none";
      expect(operation.security, row).toEqual([{ operator: [] }, ...(isForTokens ? [{ apiToken: [scope] }] : [])]);
      const code = isForTokens ? "insufficient_scope" : "operator_only";
      expect(operation.responses["403"]?.description, row).toBe(`\`${code}\``);
    }
  });

  test("has no dangling reference", () => {
    for (const [, name = ""] of JSON.stringify(api).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      expect(api.components.schemas).toHaveProperty(name);
    }
  });

  test("has a webhook for each notification type, with a valid example, and a page shows each", async () => {
    expect(Object.keys(api.webhooks)).toEqual([...notificationTypes, ...destinationNotificationTypes]);
    const page = await docsPage("/docs/api/notifications");
    for (const [type, { post }] of Object.entries(api.webhooks)) {
      const { schema, example } = post.requestBody?.content["application/json"] ?? {};
      expect(example, type).toMatchObject({ type });
      expect(issuesOf(schema, example), type).toBeUndefined();
      expect(issuesOf(schema, { ...(example as object), data: { other: 1 } }), type).toBeDefined();
      expect(post.parameters?.map(({ name }) => name)).toEqual([
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
      ]);
      expect(page.all(`article[id="${post.operationId}"]`), type).toHaveLength(1);
    }
  });

  test("documents the headers and every rejection of the ingestion endpoints", () => {
    for (const { path, operation } of under("/api/")) {
      const headers = (operation.parameters ?? []).filter((parameter) => parameter.in === "header");
      const names = headers.map((header) => header.name);
      expect(names, path).toEqual(["X-Api-Secret", "Idempotency-Key"]);
      const statuses = Object.keys(operation.responses).join(" ");
      expect(statuses).toBe("202 400 401 403 404 405 413 415 422 429 503");
      expect(operation.responses["429"]?.description).toBe(
        "`rate_limited`, `allowance_exceeded`, `extra_room_exceeded`, `key_limit_exceeded`",
      );
      expect(operation.responses["429"]).toHaveProperty("headers.Retry-After");
      expect(operation.requestBody?.content["application/json"]).toHaveProperty("example");
    }
  });

  test("has examples that fit its schemas", () => {
    for (const { method, path, operation } of operations) {
      const contents = [
        operation.requestBody?.content ?? {},
        ...Object.values(operation.responses).map((response) => response.content ?? {}),
      ];
      for (const { schema, example } of contents.flatMap((content) => Object.values(content))) {
        if (example === undefined) continue;
        expect(issuesOf(schema, example), `${method} ${path}: ${JSON.stringify(example)}`).toBeUndefined();
      }
    }
  });
});

describe("the Worker behaves as documented", () => {
  /** Path parameters of existing records. */
  const known: Record<string, string> = { plan_id: "growth" };
  const addressOf = (path: string) => path.replace(/\{(\w+)\}/g, (_, name: string) => known[name] ?? "unknown");

  /** A value that does not fit the schema; none if every value fits. */
  function wrongValue(reference: JsonSchema): unknown[] {
    const field = resolve(reference, api);
    const { type, enum: values, anyOf: [choice] = [] } = field;
    if (values !== undefined) return ["no such value"];
    if (choice !== undefined) return wrongValue(choice);
    return type === undefined || type === "object" ? [] : [{}];
  }

  beforeAll(async () => {
    const create = async (path: string, body: unknown): Promise<Record<string, string>> =>
      (await send("POST", path, body, AUTHORISED)).json();
    const { id = "" } = await create("/operator/workspaces", { slug: "documented", name: "D", plan: "growth" });
    const workspace = `/operator/workspaces/${id}`;
    await create(`${workspace}/members`, { email: "owner@example.com", role: "owner" });
    const key = await create(`${workspace}/keys`, { name: "K" });
    const condition = { path: "properties.form_name", operator: "in", value: ["demo", 1, true] };
    const rule = { name: "R", event: "*", conditions: [condition], scoring_signal: "s", points: 1 };
    await create(`${workspace}/rules`, { ...rule, conditions: [], name: "Any" });
    const { id: doomed = "" } = await create(`${workspace}/keys`, { name: "K", secret: true });
    const webhook = `/api/signal-staging/webhook/${key["key"]}`;
    const sent = await send("POST", webhook, { email: "jane@example.com", event: "E" });
    const { id: signal } = await sent.json<{ id: string }>();
    await send("POST", webhook, { type: "group", groupId: "acme-42", anonymousId: "a", traits: { plan: "Growth" } });
    await send("POST", webhook, { event: "" });
    const read = async (path: string) => (await send("GET", workspace + path, undefined, AUTHORISED)).text();
    await until(async () => expect(await read(`/signals/${signal}`)).toContain('"processed"'));
    await until(async () => expect(await read("/accounts")).toContain("acme-42"));
    const { id: ruleId = "" } = await create(`${workspace}/rules`, rule);
    const staff = { name: "Staff", conditions: [{ path: "email", operator: "ends_with", value: "@own.example" }] };
    await send("PUT", `${workspace}/exclusions`, { items: [staff] }, AUTHORISED);
    const { id: token = "" } = await create(`${workspace}/tokens`, { name: "T", scopes: ["read"] });
    await send("DELETE", `${workspace}/people/gone@example.com`, undefined, AUTHORISED);
    await create(`${workspace}/members`, { email: "jane@example.com", role: "admin" });
    // No request leaves this machine.
    listen();
    const wanted = { type: "webhook", target: "https://nobody.example.com/in", notifications: ["person.scored"] };
    const { id: destination = "" } = await create(`${workspace}/destinations`, { name: "Doomed", ...wanted });
    const { id: delivery = "" } = await create(`${workspace}/destinations/${destination}/test`, undefined);
    Object.assign(known, {
      workspace_id: id,
      email: "jane@example.com",
      person_email: "gone@example.com",
      key_id: doomed,
      apiKey: key["key"] ?? "",
      token_id: token,
      rule_id: ruleId,
      version: "1",
      signal_id: signal,
      source: "website",
      external_id: "acme-42",
      destination_id: destination,
      delivery_id: delivery,
    });
  });

  afterAll(() => {
    vi.restoreAllMocks();
  });

  /** These need a file, or a workspace that ends or has ended: workspace-file and workspace-end test them. */
  const NEEDS_MORE = /\{workspace_id\}\/(end|import|exports\/)|\/imports$/;

  test("answers every documented call as documented, with a valid body", async () => {
    const order = ["POST", "PUT", "PATCH", "GET", "DELETE"];
    const calls = operations
      .filter(({ path }) => !path.startsWith("/api/product-orgs") && !NEEDS_MORE.test(path))
      .filter(({ method, path }) => !(method === "DELETE" && path.endsWith("{workspace_id}")))
      .sort((a, b) => order.indexOf(a.method) - order.indexOf(b.method));
    for (const { method, path, operation } of calls) {
      // The member of the example exists.
      const isNewMember = operation.operationId === "postWorkspacesWorkspaceIdMembers";
      const { example } = operation.requestBody?.content["application/json"] ?? {};
      const body = isNewMember ? { email: "new@example.com", role: "member" } : example;
      const response = await send(method, addressOf(path), body, path.startsWith("/operator") ? AUTHORISED : {});
      const text = await response.text();
      const documented = operation.responses[response.status];
      expect(response.ok && documented !== undefined, `${method} ${path}: ${response.status} ${text}`).toBe(true);
      const content = documented?.content ?? {};
      const schema = content["application/json"]?.schema;
      const mediaType = response.headers.get("content-type")?.split(";")[0] ?? "";
      if (documented?.content === undefined) expect(text).toBe("");
      else if (schema === undefined) expect(Object.keys(content)).toContain(mediaType);
      else expect(issuesOf(schema, JSON.parse(text)), `${method} ${path}: ${text}`).toBeUndefined();
    }
  });

  test("rejects unknown fields and wrong values in every body of the operator API", async () => {
    for (const { method, path, operation } of under("/operator")) {
      const { schema, example } = operation.requestBody?.content["application/json"] ?? {};
      if (schema === undefined) continue;
      const { properties = {} } = resolve(schema, api);
      const wrong = Object.entries(properties).flatMap(([name, field]) =>
        wrongValue(field).map((value) => [name, value]),
      );
      for (const change of [["unknown", 1], ...wrong]) {
        const body = { ...(example as object), ...Object.fromEntries([change]) };
        const response = await send(method, addressOf(path), body, AUTHORISED);
        expect(await response.json(), `${method} ${path} ${JSON.stringify(change)}`).toMatchObject({ status: 422 });
      }
    }
  });

  test("returns problems that fit their schema and link to their code in the documentation", async () => {
    const pages = await docsPages();
    for (const [method, path, body] of [
      ["GET", "/operator/workspaces/nobody", undefined],
      ["POST", "/operator/workspaces", { slug: "-" }],
      ["PUT", "/operator/workspaces", {}],
      ["POST", "/api/signal-staging/webhook/sk_no", {}],
    ] as const) {
      const response = await send(method, path, body, AUTHORISED);
      const problem = await response.json<{ type: string }>();
      expect(issuesOf(api.components.schemas["Problem"], problem)).toBeUndefined();
      const [address = "", anchor] = problem.type.split("#");
      expect(pages.get(address)?.all(`tr[id="${anchor}"]`), problem.type).toHaveLength(1);
    }
  });
});

describe("/docs", () => {
  test("shows every operation on exactly one page with a curl call, and every schema on exactly one", async () => {
    const pages = [...(await referencePages()).values()];
    const shown = (selector: string): Part => {
      const found = pages.flatMap((page) => page.all(selector));
      expect(found, selector).toHaveLength(1);
      return found[0] as Part;
    };
    for (const { path, operation } of operations) {
      const article = shown(`article[id="${operation.operationId}"]`);
      expect(
        article.all("code").map(({ text }) => text),
        operation.operationId,
      ).toContain(path);
      expect(article.text, operation.operationId).toContain(`${ORIGIN}/${path.split("/")[1]}`);
      expect(article.text, operation.operationId).toContain("curl ");
    }
    // A notification shows the fields of its own schema.
    const schemas = Object.keys(api.components.schemas).filter((name) => !name.startsWith("Event_"));
    for (const name of schemas) shown(`section[id="schema-${name}"]`);
  });

  test("explains every code once in each part whose calls answer with it", async () => {
    const pages = [...(await referencePages())];
    const explained = (part: string, code: string) =>
      pages.flatMap(([path, page]) => (path.startsWith(part) ? page.all(`tr[id="${code}"]`) : []));
    for (const { code } of api["x-error-codes"])
      expect(explained("/docs/", code).length, code).toBeGreaterThanOrEqual(1);
    for (const { path, operation } of operations) {
      const part = path.startsWith("/operator/") ? "/docs/api/" : "/docs/senders/";
      const codes = Object.entries(operation.responses).flatMap(([status, { description }]) =>
        Number(status) < 400 ? [] : [...description.matchAll(/`(\w+)`/g)].map(([, code = ""]) => code),
      );
      for (const code of codes.filter((name) => api["x-error-codes"].some((known) => known.code === name)))
        expect(explained(part, code), `${path} ${code}`).toHaveLength(1);
    }
  });

  test("keeps what senders need apart from what programs call", async () => {
    for (const [path, page] of await referencePages()) {
      const calls = page.all("article pre").map(({ text }) => text);
      const isForSenders = path.startsWith("/docs/senders");
      expect(calls.filter((call) => call.includes("/operator/")).length > 0 && isForSenders, path).toBe(false);
      expect(calls.filter((call) => call.includes("/api/signal-staging/")).length > 0 && !isForSenders, path).toBe(
        false,
      );
    }
    const { targets } = await docsPage("/docs/senders/endpoints");
    expect(targets.filter((target) => target.startsWith("/docs/api/"))).toEqual([]);
  });

  test("begins with a first call in three languages, and has the remedy for each code that a sender meets", async () => {
    const { text } = (await docsPage("/docs/senders")).only("#first-call");
    for (const call of ["curl -X POST", "await fetch(", "urllib.request"]) expect(text).toContain(call);
    const codes = await docsPage("/docs/senders/codes");
    for (const [code, { advice }] of Object.entries(REJECTIONS))
      expect(codes.only(`tr[id="${code}"]`).text).toContain(advice);
  });

  test("begins with the token that a workspace has, then names the operator's", async () => {
    const [workspace, operator] = ["an API token of the workspace", "OPERATOR_TOKEN"];
    const { text } = await docsPage("/docs");
    expect(text.indexOf(workspace)).toBeGreaterThan(0);
    expect(text.indexOf(operator)).toBeGreaterThan(text.indexOf(workspace));
  });

  test("names the origin at which it was asked for, also after another Host has asked", async () => {
    for (const origin of ["https://a.example", "https://b.example:8443", ORIGIN]) {
      const page = readHtml(await (await exports.default.fetch(`${origin}/docs/senders`)).text());
      expect(page.only("#first-call").text).toContain(`${origin}/api/signal-staging/webhook/`);
      expect(new Set(page.text.match(/https:\/\/[^/ ]+(?=\/(?:api|operator|healthz)\b)/g))).toEqual(new Set([origin]));
    }
  });

  test("marks the current page in the navigation, which leads to every page and back to the product", async () => {
    const pages = await docsPages();
    for (const [path, page] of pages) {
      const { links, current } = {
        links: page.only(".sidebar").targets,
        current: page.all('nav a[aria-current="page"]'),
      };
      expect(links).toEqual(expect.arrayContaining(["/", "/docs/senders", "/docs/api"]));
      expect(current.map(({ target }) => target)).toEqual(path === "/docs" ? [] : [path]);
    }
    const { targets } = (await docsPage("/docs")).only(".sidebar");
    expect(targets).toEqual(expect.arrayContaining([...(await referencePages()).keys()]));
  });

  test("has no dead link and no anchor twice", async () => {
    const pages = await docsPages();
    const ids = new Map(
      Array.from(pages, ([path, page]) => [path, page.all("[id]").map((part) => part.attribute("id"))]),
    );
    let anchors = 0;
    const others = new Set<string>();
    for (const [path, page] of pages) {
      expect(new Set(ids.get(path)).size, path).toBe(ids.get(path)?.length);
      for (const part of page.all("[href], [src]")) {
        const address = part.attribute("href") ?? part.attribute("src") ?? "";
        const [to = "", anchor] = address.split("#");
        if (anchor === undefined) others.add(to);
        else expect(ids.get(to || path), `${path}: ${address}`).toContain(anchor);
        anchors += Number(anchor !== undefined);
      }
    }
    expect(anchors).toBeGreaterThan(500);
    for (const address of others) expect((await send("GET", address)).status, address).toBe(200);
  });

  test("leads from each anchor that the documentation had on one page to its place", async () => {
    const start = await docsPage("/docs");
    const anchors = [
      "first-call",
      "batches",
      "retries",
      "answers",
      ...operations.map(({ operation }) => operation.operationId),
      ...Object.values(api.webhooks).map(({ post }) => post.operationId),
      ...Object.keys(api.components.schemas).flatMap((name) => (name.startsWith("Event_") ? [] : [`schema-${name}`])),
      ...api["x-error-codes"].map(({ code }) => code),
    ];
    for (const anchor of anchors)
      expect(start.only(`a[id="${anchor}"]`).target).toMatch(new RegExp(`^/docs/.*#${anchor}$`));
  });

  test("needs no script and no third-party file, and its policy allows neither", async () => {
    const paths = [...(await docsPages()).keys(), "/docs/search?q=key"];
    for (const path of paths) {
      const response = await send("GET", path);
      expect(response.headers.get("content-type")).toMatch(/^text\/html/);
      expect(response.headers.get("content-security-policy")).toBe(
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
      );
      const page = await response.text();
      expect(page.slice(0, 15)).toBe("<!doctype html>");
      expect(/<script|<iframe| style=|<style| on\w+="/.exec(page)?.[0]).toBeUndefined();
      expect(/(?:href|src|action)="(?:https?:)?\/\/.*?"/.exec(page)?.[0]).toBeUndefined();
      // The one style sheet of the product's pages.
      expect(readHtml(page).only('link[rel="stylesheet"]').target).toBe(STYLE_PATH);
    }
  });
});

describe("the search of /docs", () => {
  const search = (text: string) => docsPage(`/docs/search?q=${encodeURIComponent(text.toWellFormed())}`);
  const results = async (text: string) =>
    (await search(text)).all("tbody tr").map((row) => [row.only("th").text, row.only("th a").target]);

  test.each([
    ["rotate key", "Rotate an API key", "/docs/api/keys#postWorkspacesWorkspaceIdKeysKeyIdRotate"],
    ["event_missing", "event_missing", "/docs/senders/codes#event_missing"],
    ["last_owner", "last_owner", "/docs/api/codes#last_owner"],
    ["points_last_days", "points_last_days", "/docs/api/rules#schema-MappingRule"],
    ["X-Api-Secret", "X-Api-Secret", "/docs/senders/endpoints#sendSignal"],
    [
      "/operator/workspaces/{workspace_id}/books",
      "Books: where every accepted signal is",
      "/docs/api/quota#getWorkspacesWorkspaceIdBooks",
    ],
    ["person.scored", "person.scored", "/docs/api/notifications#on_person_scored"],
    ["SIGNALPAYLOAD", "SignalPayload", "/docs/senders/shapes#schema-SignalPayload"],
    ["handshake", "Handshakes", "/docs/senders/templates#handshakes"],
  ])("finds %s", async (text, name, address) => {
    expect(await results(text)).toContainEqual([name, address]);
  });

  test("puts the name that was typed first, and leads to anchors that exist", async () => {
    expect((await results("rate_limited"))[0]).toEqual(["rate_limited", "/docs/senders/codes#rate_limited"]);
    const pages = await docsPages();
    const found = (await Promise.all(["key", "signal", "score", "the", "id", "code"].map(results))).flat();
    expect(found.length).toBeGreaterThan(100);
    for (const [, target = ""] of found) {
      const [path = "", anchor] = target.split("#");
      if (anchor !== undefined) expect(pages.get(path)?.all(`[id="${anchor}"]`), target).toHaveLength(1);
      else expect([...pages.keys()]).toContain(path);
    }
  });

  test("says how many results it leaves out", async () => {
    const page = await search("e");
    expect(page.all("tbody tr")).toHaveLength(50);
    expect(page.text).toMatch(/The first 50 of [\d,]+ results\./);
  });

  test.each(["", "  ", "\u{d800}"])("asks for a text if it gets %j", async (text) => {
    expect((await search(text)).headings("Enter a search text")).toHaveLength(text === "\u{d800}" ? 0 : 1);
  });

  test("says that nothing was found, and shows the text as a text", async () => {
    const hostile = `"><script>alert(1)</script>'&amp;`;
    const page = await search(hostile);
    expect(page.inlineScripts).toEqual([]);
    expect(page.text).toContain(`No results for “${hostile}”`);
    expect(page.fields("q").map(({ value }) => value)).toEqual([hostile, hostile]);
  });

  test("searches and shows the first hundred characters only", async () => {
    const page = await search(`${"x".repeat(100)}yyy`);
    expect(page.text).toContain(`“${"x".repeat(100)}”`);
    expect(page.text).not.toContain("xy");
  });
});

describe("liveness", () => {
  test("/healthz answers without a token", async () => {
    const response = await send("GET", "/healthz");
    expect([response.status, await response.json()]).toEqual([200, { status: "ok" }]);
  });

  test.each(["/healthz", "/openapi.json", "/docs", "/docs/search", "/docs/api/keys"])(
    "%s takes GET and HEAD only",
    async (path) => {
      expect((await send("HEAD", path)).status).toBe(200);
      const response = await send("POST", path, {});
      expect(response.status).toBe(405);
      expect(response.headers.get("allow")).toBe("GET, HEAD");
      await response.body?.cancel();
    },
  );
});
