/**
 * Sends the worst input to every route that reads a body: as a stranger, a member, an admin, a sender and the operator. Each
 * body is sent alone, then six times in parallel. Each call is answered within two seconds and with at most one megabyte.
 * Memory stays bounded, and a sender of another workspace is still served.
 */
import { readFileSync } from "node:fs";
import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { BODY_MAX_BYTES } from "../../src/limits.ts";
import { VISIT_RULE } from "../bench/rules.ts";
import { FORM_ROUTES } from "../support/access.ts";
import { signIn } from "../bench/operator-api.ts";
import { Service } from "../support/service.ts";
import { slowness } from "../support/slowness.ts";
import {
  anyFormBodies,
  importForms,
  ingestBodies,
  keyForms,
  operatorBodies,
  ruleFiles,
  ruleForms,
  shownFormBodies,
  WORST_TEMPLATE,
  type WorstBody,
} from "./support/worst-bodies.ts";

const ANSWER_MAX_MS = 2_000;
const ANSWER_MAX_BYTES = 1_000_000;
const MEBIBYTE = 1024 * 1024;
const GROWTH_MAX_BYTES = { alone: 64 * MEBIBYTE, together: 100 * MEBIBYTE } as const;
const TOGETHER = 6;
const NEIGHBOUR_MAX_MS = 1_000;
/** Pause between two calls of the neighbour, a sender of another workspace that must still be served. */
const NEIGHBOUR_PAUSE_MS = 20;
/** Number of attempts after which a failed check counts: other processes may disturb an attempt. */
const ATTEMPTS = 3;

let service: Service;
let token = "";
let workspaceId = "";
let neighbourKey = "";
const SLUG = "bench";
/** One person may send 120 forms a minute: each body is sent seven times. */
const BODIES_OF_AN_ADMIN = 15;

vi.setConfig({ testTimeout: 1_800_000 });

beforeAll(async () => {
  service = await Service.make({
    vars: { SIGN_IN: "local", REQUEST_RATE_PER_SECOND: "500", REQUEST_BURST: "1000" },
  });
  token = service.token;
  ({ id: workspaceId } = await service.api.provision({ slug: SLUG }));
  ({ key: neighbourKey } = await service.api.provision({ slug: "neighbour" }));
  await sendAsNeighbour();
});

afterAll(() => service.remove());

interface Call {
  title: string;
  method: string;
  path: string;
  headers: Record<string, string>;
  body: Buffer;
}

interface Answered {
  status: number;
  bytes: number;
  ms: number;
}

/**
 * Sends a body and reads the answer. If the service answers before it has read the whole body, it closes the
 * connection, and the answer may be lost: then the status is 0.
 */
function send({ method, path, headers, body }: Call): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const startedAt = performance.now();
    let answering = false;
    const sent = request(service.running.origin + path, { method, headers, agent: false }, (answer) => {
      answering = true;
      let bytes = 0;
      const done = () => resolve({ status: answer.statusCode ?? 0, bytes, ms: performance.now() - startedAt });
      answer.on("data", (chunk: Buffer) => (bytes += chunk.length));
      answer.on("end", done).on("error", done);
    });
    sent.on("error", (error: NodeJS.ErrnoException) => {
      if (answering) return;
      const isClosed = error.code === "ECONNRESET" || error.code === "EPIPE";
      if (isClosed) resolve({ status: 0, bytes: 0, ms: performance.now() - startedAt });
      else reject(error);
    });
    sent.end(body);
  });
}

async function sendAsNeighbour(): Promise<number> {
  const startedAt = performance.now();
  const { status } = await service.post(`signal-staging/webhook/${neighbourKey}`, '{"event":"Visit"}');
  if (status !== 202) throw new Error(`the neighbour was answered with ${status}`);
  return performance.now() - startedAt;
}

/**
 * Processor time since the start of the machine, in ticks: used by its own processes, and by other machines on its
 * host.
 */
function processorTicks(): { used: number; stolen: number } {
  // cpu, user, nice, system, idle, iowait, irq, softirq, steal
  const ticks = readFileSync("/proc/stat", "utf8").split("\n", 1)[0]?.split(/\s+/).slice(1).map(Number) ?? [];
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, stolen = 0] = ticks;
  return { used: user + nice + system + irq + softirq, stolen };
}

/** Sends the calls in parallel, and measures the answers, the memory of the service and the time that the neighbour waits. */
async function attack(calls: readonly Call[]) {
  const over = new AbortController();
  let slowestNeighbourMs = 0;
  const neighbour = (async () => {
    while (!over.signal.aborted) {
      slowestNeighbourMs = Math.max(slowestNeighbourMs, await sendAsNeighbour());
      await sleep(NEIGHBOUR_PAUSE_MS);
    }
  })();
  service.running.forgetPeak();
  const before = service.running.peakBytes();
  const answers = await Promise.all(calls.map(send)).finally(() => over.abort());
  await neighbour;
  return { answers, slowestNeighbourMs, growthBytes: service.running.peakBytes() - before };
}

/** Sends the calls in parallel. @returns the violated limits. */
async function complaints(calls: readonly Call[]): Promise<string[]> {
  let wrong: string[] = [];
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    wrong = await complaintsOnce(calls);
    if (wrong.length === 0) break;
  }
  return wrong;
}

async function complaintsOnce(calls: readonly Call[]): Promise<string[]> {
  const ticksBefore = processorTicks();
  const { answers, slowestNeighbourMs, growthBytes } = await attack(calls);
  const most = calls.length === 1 ? GROWTH_MAX_BYTES.alone : GROWTH_MAX_BYTES.together;
  const [first] = calls;
  const measured = `${calls.length} × ${first?.method} ${first?.path}: ${first?.title}`;
  if (process.env["WORST_INPUT_SHOW"] !== undefined) {
    const figures = answers.map(({ status, bytes, ms }) => `${status} ${bytes} B ${Math.round(ms)} ms`).join(", ");
    process.stdout.write(
      `${Math.round(growthBytes / MEBIBYTE)} MB, neighbour ${Math.round(slowestNeighbourMs)} ms, ${measured}: ${figures}\n`,
    );
  }
  const ticks = processorTicks();
  const [used, stolen] = [ticks.used - ticksBefore.used, ticks.stolen - ticksBefore.stolen];
  const isLate = slowestNeighbourMs > NEIGHBOUR_MAX_MS || answers.some(({ ms }) => ms > ANSWER_MAX_MS);
  const slow = isLate ? slowness() * (1 + stolen / Math.max(1, used)) : 1;
  return [
    ...answers.flatMap(({ status, bytes, ms }) => [
      ...(status >= 500 && status !== 503 ? [`${measured}: status ${status}`] : []),
      ...(bytes > ANSWER_MAX_BYTES ? [`${measured}: an answer of ${bytes} bytes`] : []),
      ...(ms > ANSWER_MAX_MS * slow ? [`${measured}: answered after ${Math.round(ms)} ms`] : []),
    ]),
    ...(growthBytes > most ? [`${measured}: memory grew by ${Math.round(growthBytes / MEBIBYTE)} MB`] : []),
    ...(slowestNeighbourMs > NEIGHBOUR_MAX_MS * slow
      ? [`${measured}: the neighbour waited ${Math.round(slowestNeighbourMs)} ms`]
      : []),
  ];
}

/** Sends each call alone, then six times in parallel. @returns the violated limits. */
async function bear(calls: readonly Call[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const call of calls) {
    wrong.push(...(await complaints([call])));
    wrong.push(...(await complaints(Array.from({ length: TOGETHER }, () => call))));
  }
  return wrong;
}

/** Signs a person in. @returns the headers of the person's browser. */
async function browser(email: string): Promise<Record<string, string>> {
  const { origin } = service.running;
  return { origin, cookie: await signIn(origin, email) };
}

/** Adds a member and signs the member in: each route gets a new one, because the number of forms per person is limited. */
async function newPerson(role: "member" | "admin", nth: number): Promise<Record<string, string>> {
  const email = `${role}${nth}@acme.example`;
  await service.api.call("POST", `workspaces/${workspaceId}/members`, { email, role });
  return browser(email);
}

/** @returns the paths of all forms of the pages, with the ids of existing records. */
async function formPaths(): Promise<string[]> {
  const api = service.api;
  const base = `workspaces/${workspaceId}`;
  const { id: keyId } = await api.newKey(workspaceId);
  const { id: ruleId } = await api.post<{ id: string }>(`${base}/rules`, VISIT_RULE);
  const [id = ""] = await api.addWebhooks(workspaceId, ["https://hooks.example.com/x"], ["usage.level"]);
  const known: Record<string, string> = { slug: SLUG, key_id: keyId, rule_id: ruleId, id, version: "1" };
  // A test call to a destination reads no body, and would look for a receiver that is not there.
  const paths = FORM_ROUTES.filter((path) => !path.endsWith("/test")).map((path) =>
    path.replaceAll(/:(\w+)(\{.*?\}\})?/g, (_, name: string) => known[name] ?? "x@acme.example"),
  );
  // Forms that end a record come last.
  const ends = /\/(delete|remove|deactivate|revoke|role|rotate|sign-out)$/;
  return paths.toSorted((a, b) => Number(ends.test(a)) - Number(ends.test(b)));
}

/** Fields that a route shows again when it rejects its form, by the end of its path. */
const SHOWN_AGAIN: [RegExp, string[]][] = [
  [/\/rules(\/rule_[^/]+)?$/, ["name", "event", "points"]],
  [/\/api-keys\/new$/, ["name", "sample"]],
  [/\/api-tokens\/new$/, ["name"]],
  [/\/notifications\/(new|[^/]+\/change)$/, ["name", "target"]],
  [/\/members$/, ["email"]],
  [/\/thresholds$/, ["thresholds", "account_thresholds"]],
  [/\/name$/, ["name"]],
  [/\/silence$/, ["silent_after_days"]],
  [/\/people\/[^/]+\/delete$/, ["email"]],
];

function bodiesOf(path: string): WorstBody[] {
  const shown = SHOWN_AGAIN.find(([end]) => end.test(path))?.[1] ?? [];
  const bodies = [...anyFormBodies(), ...shownFormBodies(shown)];
  if (path.endsWith("/rules/import")) bodies.push(...importForms());
  if (/\/rules(\/preview|\/rule_[^/]+)?$/.test(path)) bodies.push(...ruleForms());
  if (/\/api-keys\/new/.test(path)) bodies.push(...keyForms());
  return bodies;
}

const asCall =
  (method: string, path: string, headers: Record<string, string>) =>
  (worst: WorstBody): Call => ({
    title: worst.title,
    method,
    path,
    headers: { ...headers, ...worst.headers, "content-length": String(worst.body.length) },
    body: worst.body,
  });

describe("the largest allowed form to every page", () => {
  test("from a stranger, with an invented session and without a session", async () => {
    const { origin } = service.running;
    const wrong: string[] = [];
    for (const path of await formPaths()) {
      const some = [...anyFormBodies(), ...(path.endsWith("/import") ? importForms().slice(0, 1) : [])];
      const [first, ...rest] = some.map(asCall("POST", path, { origin, cookie: "session=invented" }));
      const withoutSession = some.slice(0, 1).map(asCall("POST", path, { origin }));
      wrong.push(...(await bear([...(first === undefined ? [] : [first]), ...rest.slice(-1), ...withoutSession])));
    }
    expect(wrong).toEqual([]);
  });

  test("from a member", async () => {
    const wrong: string[] = [];
    const paths = (await formPaths()).filter((path) => path !== "/sign-out");
    for (const [nth, path] of paths.entries()) {
      const headers = await newPerson("member", nth);
      const some = bodiesOf(path).slice(0, 1);
      wrong.push(...(await bear(some.map(asCall("POST", path, headers)))));
    }
    expect(wrong).toEqual([]);
  });

  test("from an admin", async () => {
    const wrong: string[] = [];
    let admins = 0;
    for (const path of (await formPaths()).filter((formPath) => formPath !== "/sign-out")) {
      const bodies = bodiesOf(path);
      for (let at = 0; at < bodies.length; at += BODIES_OF_AN_ADMIN) {
        const toCall = asCall("POST", path, await newPerson("admin", admins++));
        wrong.push(...(await bear(bodies.slice(at, at + BODIES_OF_AN_ADMIN).map(toCall))));
      }
    }
    expect(wrong).toEqual([]);
  });
});

interface OpenApi {
  paths: Record<string, Record<string, { requestBody?: { content: Record<string, OpenApiContent> } }>>;
  components: { schemas: Record<string, OpenApiSchema> };
}
interface OpenApiContent {
  schema: OpenApiSchema;
  example?: object;
}
interface OpenApiSchema {
  $ref?: string;
  properties?: Record<string, unknown>;
}

/** The routes of the operator API that take a body, with the names of its fields and an example. */
async function operatorBodyRoutes() {
  const response = await fetch(`${service.running.origin}/openapi.json`);
  const { paths, components } = (await response.json()) as OpenApi;
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { requestBody }]) => {
      const content = requestBody?.content["application/json"];
      if (content === undefined || !path.startsWith("/operator/")) return [];
      const schema = components.schemas[content.schema.$ref?.split("/").at(-1) ?? ""] ?? content.schema;
      const names = Object.keys(schema.properties ?? {});
      return [{ method: method.toUpperCase(), path, names, example: content.example ?? {} }];
    }),
  );
}

test("the worst body to every route of the operator API, with the right and with a wrong token", async () => {
  const routes = await operatorBodyRoutes();
  expect(routes.length).toBeGreaterThan(10);
  const wrong: string[] = [];
  for (const { method, path, names, example } of routes) {
    const at = path.replace("{workspace_id}", workspaceId).replaceAll(/\{\w+\}/g, "x");
    const bodies = [...operatorBodies(names, example), ...(path.endsWith("/rules/import") ? ruleFiles() : [])];
    wrong.push(...(await bear(bodies.map(asCall(method, at, { authorization: `Bearer ${token}` })))));
    wrong.push(...(await bear(bodies.slice(0, 1).map(asCall(method, at, { authorization: "Bearer wrong" })))));
  }
  expect(wrong).toEqual([]);
});

/** The endpoints share their code. One endpoint of each kind gets all bodies, the rest get some bodies. */
const SOME = /^(one signal of small elements|small signals|large signals|updates with long lists)/;
const ENDPOINTS: [string, number, RegExp][] = [
  ["signal-staging/webhook/KEY", BODY_MAX_BYTES, /./],
  ["signal-staging/webhook/source/KEY", BODY_MAX_BYTES, SOME],
  ["signal-staging/webhook/KEY/batch", BODY_MAX_BYTES, SOME],
  ["signal-staging/bulk/KEY", BODY_MAX_BYTES, /./],
  ["product-orgs/webhook/KEY", BODY_MAX_BYTES, SOME],
];

test.each(ENDPOINTS)(
  "the worst body from a sender, with a known and an unknown key: %s",
  async (path, maxBytes, titles) => {
    const isOfAccounts = path.startsWith("product-orgs");
    const options = isOfAccounts ? { endpoint_type: "product_org", payload_template: WORST_TEMPLATE } : {};
    const to = (key: string): string => `/api/${path.replace("KEY", key)}`;
    const bodies = ingestBodies(maxBytes).filter(({ title }) => titles.test(title));
    // Building them takes seconds, in which the runtime closes the kept connections.
    await sleep(100);
    const sender = await service.api.provision({ slug: `sender-${path.replaceAll("/", "-").toLowerCase()}` });
    const wrong: string[] = [];
    for (const worst of bodies) {
      // A new key for each body, because the request rate is counted for each key.
      const { key } = await service.api.newKey(sender.id, options);
      wrong.push(...(await bear([asCall("POST", to(key), {})(worst)])));
    }
    const unknown = `sk_${"x".repeat(neighbourKey.length - 3)}`;
    wrong.push(...(await bear(bodies.slice(0, 2).map(asCall("POST", to(unknown), {})))));
    expect(wrong).toEqual([]);
  },
);
