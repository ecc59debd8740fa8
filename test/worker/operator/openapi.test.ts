/** Design §9: the OpenAPI document matches the Worker, and the /docs page shows all of it. */
import { REJECTIONS } from "../../../src/http/rejection-table.ts";
import { exports } from "cloudflare:workers";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import * as z from "zod";
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

async function docsPage(): Promise<Part> {
  return readHtml(await (await send("GET", "/docs")).text());
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

  test("has a webhook for each notification type, with a valid example, and the page shows each", async () => {
    expect(Object.keys(api.webhooks)).toEqual([...notificationTypes, ...destinationNotificationTypes]);
    const page = await docsPage();
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

  test("returns problems that fit their schema and link to their code on the page", async () => {
    const page = await docsPage();
    for (const [method, path, body] of [
      ["GET", "/operator/workspaces/nobody", undefined],
      ["POST", "/operator/workspaces", { slug: "-" }],
      ["PUT", "/operator/workspaces", {}],
      ["POST", "/api/signal-staging/webhook/sk_no", {}],
    ] as const) {
      const response = await send(method, path, body, AUTHORISED);
      const problem = await response.json<{ type: string }>();
      expect(issuesOf(api.components.schemas["Problem"], problem)).toBeUndefined();
      const [address, anchor = ""] = problem.type.split("#");
      expect(address).toBe("/docs");
      expect(page.all(`tr[id="${anchor}"]`), anchor).toHaveLength(1);
    }
  });
});

describe("/docs", () => {
  test("shows every operation with a curl call, every schema and every code", async () => {
    const page = await docsPage();
    for (const { path, operation } of operations) {
      const article = page.only(`article[id="${operation.operationId}"]`);
      expect(
        article.all("code").map(({ text }) => text),
        operation.operationId,
      ).toContain(path);
      expect(article.text, operation.operationId).toContain(`${ORIGIN}/${path.split("/")[1]}`);
      expect(article.text, operation.operationId).toContain("curl ");
    }
    const ids = [
      ...Object.keys(api.components.schemas).map((name) => `schema-${name}`),
      ...api["x-error-codes"].map(({ code }) => code),
    ];
    for (const id of ids) expect(page.all(`[id="${id}"]`), id).toHaveLength(1);
  });

  test("begins with a guide: a first call in three languages, and the remedy for each code that a sender meets", async () => {
    const page = await docsPage();
    const { text } = page.only("#first-call");
    for (const call of ["curl -X POST", "await fetch(", "urllib.request"]) expect(text).toContain(call);
    const { targets } = page.only("#answers");
    for (const code of Object.keys(REJECTIONS)) expect(targets).toContain(`#${code}`);
  });

  test("names the origin at which it was asked for, also after another Host has asked", async () => {
    for (const origin of ["https://a.example", "https://b.example:8443", ORIGIN]) {
      const page = readHtml(await (await exports.default.fetch(`${origin}/docs`)).text());
      expect(page.only("#first-call").text).toContain(`${origin}/api/signal-staging/webhook/`);
      expect(new Set(page.text.match(/https:\/\/[^/ ]+(?=\/(?:api|operator|healthz)\b)/g))).toEqual(new Set([origin]));
    }
  });

  test("has no dead link", async () => {
    const page = await docsPage();
    const linked = page.all("[href], [src]").flatMap((part) => part.attribute("href") ?? part.attribute("src") ?? []);
    const isAnchor = (address: string) => address.startsWith("#");
    expect(linked.filter(isAnchor).length).toBeGreaterThan(100);
    for (const anchor of new Set(linked.filter(isAnchor)))
      expect(page.all(`[id="${anchor.slice(1)}"]`), anchor).toHaveLength(1);
    for (const address of linked.filter((href) => !isAnchor(href))) {
      expect((await send("GET", address)).status, address).toBe(200);
    }
  });

  test("needs no script and no third-party file, and its policy allows neither", async () => {
    const response = await send("GET", "/docs");
    expect(response.headers.get("content-type")).toMatch(/^text\/html/);
    expect(response.headers.get("content-security-policy")).toMatch(/^default-src 'none'; style-src 'self'/);
    const page = await response.text();
    expect(page.slice(0, 15)).toBe("<!doctype html>");
    expect(/<script|<iframe| style=|<style| on\w+="/.exec(page)?.[0]).toBeUndefined();
    expect(/(?:href|src)="(?:https?:)?\/\/.*?"/.exec(page)?.[0]).toBeUndefined();
    const style = await send("GET", "/docs/style.css");
    expect(style.headers.get("content-type")).toMatch(/^text\/css/);
    expect(await style.text()).toContain("prefers-color-scheme: dark");
  });
});

describe("liveness", () => {
  test("/healthz answers without a token", async () => {
    const response = await send("GET", "/healthz");
    expect([response.status, await response.json()]).toEqual([200, { status: "ok" }]);
  });

  test.each(["/healthz", "/openapi.json", "/docs", "/docs/style.css"])("%s takes GET and HEAD only", async (path) => {
    expect((await send("HEAD", path)).status).toBe(200);
    const response = await send("POST", path, {});
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toBe("GET, HEAD");
    await response.body?.cancel();
  });
});
