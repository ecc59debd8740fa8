/** A separate workspace for each test, created through the operator API, and the calls that tests make on it. */
import { createExecutionContext } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { expect } from "vitest";
import { controlDatabase } from "../../src/d1/database.ts";
import { composeKey } from "../../src/domain/keys/api-key.ts";
import type { TokenScope } from "../../src/domain/keys/api-token.ts";
import type { WorkspaceContext } from "../../src/use-cases/objects.ts";
import { ownWorkspace } from "./logged.ts";
import { sharedForFile } from "./shared-for-file.ts";
import worker from "../../src/index.ts";
import type { BooksAnswer } from "../../src/dev/operator-client.ts";

const HOST = "https://signals.example";

export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  return exports.default.fetch(new Request(HOST + path, init));
}

export interface OperatorAnswer {
  status: number;
  headers: Headers;
  body: Record<string, unknown>;
}

/** Calls the operator API. A text is sent as it is, other bodies as JSON. An empty answer has the body `{}`. */
export async function askOperator(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<OperatorAnswer> {
  const response = await call(`/operator${path}`, {
    method,
    headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}`, "content-type": "application/json", ...headers },
    ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  const json = JSON.parse(text || "{}") as Record<string, unknown>;
  return { status: response.status, headers: response.headers, body: json };
}

/** As `askOperator`, with the body of the answer, which must be 2xx. */
export async function operator<T = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<T> {
  const answer = await askOperator(method, path, body);
  if (answer.status > 299) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body as T;
}

/** An error's body (RFC 9457); `results` and counts if the call carried several signals. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  request_id: string;
  results?: ItemResult[];
}

export async function problemOf(response: Response): Promise<Problem> {
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  return response.json<Problem>();
}

/** A key or a token as pages and the operator API show it. */
export const masked = (key: string) => `${key.slice(0, 8)}…${key.slice(-4)}`;

/** A well formed key that no workspace has. */
export const unknownKey = () => composeKey((n) => crypto.getRandomValues(new Uint8Array(n)));

export async function gzip(text: string): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

interface ItemResult {
  index: number;
  status: "accepted" | "held" | "rejected";
  id?: string;
  misfit?: true;
  code?: string;
  detail?: string;
}

/** A change of an account's field in its history. */
export interface AccountChange {
  field: string;
  before: unknown;
  after: unknown;
  at: string;
  signal_id: string;
}

/** The answer to several signals if some of them were accepted. */
export interface BatchAnswer {
  status: "accepted" | "partial";
  accepted: number;
  held: number;
  rejected: number;
  results: ItemResult[];
}

/** Makes `calls` calls, at most `callers` at a time; results in the order of the calls. */
export async function concurrently<T>(
  callers: number,
  calls: number,
  make: (index: number) => Promise<T>,
): Promise<T[]> {
  const results: T[] = [];
  let next = 0;
  const caller = async () => {
    for (let index = next++; index < calls; index = next++) results[index] = await make(index);
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return results;
}

export interface TestKey {
  id: string;
  key: string;
  secret?: string;
}

export interface TestToken {
  id: string;
  token: string;
}

export class TestWorkspace {
  readonly id: string;
  readonly key: TestKey;

  constructor(id: string, key: TestKey) {
    ownWorkspace(id);
    this.id = id;
    this.key = key;
  }

  get counter() {
    return env.QUOTA_COUNTER.getByName(this.id);
  }

  get store() {
    return env.SIGNAL_STORE.getByName(this.id);
  }

  get destinations() {
    return env.DESTINATIONS.getByName(this.id);
  }

  operator<T = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<T> {
    return operator<T>(method, `/workspaces/${this.id}${path}`, body);
  }

  /** The items of a list of the operator API, or of its first page. */
  async list<T = Record<string, unknown>>(path: string): Promise<T[]> {
    return (await this.operator<{ items: T[] }>("GET", path)).items;
  }

  deactivate(key: Pick<TestKey, "id"> = this.key): Promise<Record<string, unknown>> {
    return this.operator("POST", `/keys/${key.id}/deactivate`);
  }

  /** Calls the operator API; any answer. */
  ask(method: string, path: string, body?: unknown): Promise<OperatorAnswer> {
    return askOperator(method, `/workspaces/${this.id}${path}`, body);
  }

  /** The context of use cases on this workspace. */
  context(more: Partial<WorkspaceContext> = {}): WorkspaceContext {
    const by = { actor: "operator", nowMs: Date.now() };
    return { env, db: controlDatabase(env.DB), workspaceId: this.id, by, ...more };
  }

  /** The entries of the audit log, oldest first. `prefix`: only actions that begin with it. */
  async auditLog(prefix = "") {
    const query =
      "SELECT actor, action, target, detail FROM audit_log WHERE workspace_id = ? AND action LIKE ? ORDER BY id";
    const { results } = await env.DB.prepare(query)
      .bind(this.id, `${prefix}%`)
      .all<{ actor: string; action: string; target: string; detail: string }>();
    return results.map((entry) => ({ ...entry, detail: JSON.parse(entry.detail) as Record<string, unknown> }));
  }

  /** The entries of the audit log without their actors. */
  async audit(prefix = "") {
    return (await this.auditLog(prefix)).map(({ action, target, detail }) => ({ action, target, detail }));
  }

  newKey(body: Record<string, unknown> = {}): Promise<TestKey> {
    return this.operator<TestKey>("POST", "/keys", { name: "another key", ...body });
  }

  /** Creates an API token with these scopes. */
  newToken(scopes: readonly TokenScope[], body: Record<string, unknown> = {}): Promise<TestToken> {
    return this.operator<TestToken>("POST", "/tokens", { name: "a program", scopes, ...body });
  }

  /** Calls the operator API with an API token; any answer. */
  askWith({ token }: Pick<TestToken, "token">, method: string, path: string, body?: unknown): Promise<OperatorAnswer> {
    const headers = { authorization: `Bearer ${token}`, "cf-connecting-ip": crypto.randomUUID() };
    return askOperator(method, `/workspaces/${this.id}${path}`, body, headers);
  }

  /**
   * Posts to the universal webhook, or to `path` with `{key}` in it. Each call comes from a new address, so that
   * failures of other calls do not limit it.
   * @param bindings of the Worker instead of the real ones.
   */
  send(
    body: unknown,
    {
      path = "/api/signal-staging/webhook/{key}",
      headers = {},
      key = this.key.key,
      bindings = undefined as Env | undefined,
    } = {},
  ): Promise<Response> {
    const isRaw = typeof body === "string" || body instanceof Uint8Array || body instanceof ReadableStream;
    const request = new Request(HOST + path.replace("{key}", key), {
      method: "POST",
      headers: { "content-type": "application/json", "cf-connecting-ip": crypto.randomUUID(), ...headers },
      body: isRaw ? body : JSON.stringify(body),
    });
    return bindings === undefined
      ? exports.default.fetch(request)
      : worker.fetch(request, bindings, createExecutionContext());
  }

  /** Sets the retention of the workspace's plan in D1, and notifies the store. Other workspaces may share the plan. */
  async retain(days: number | null): Promise<void> {
    await env.DB.prepare("UPDATE plans SET retention_days = ? WHERE id = (SELECT plan_id FROM workspaces WHERE id = ?)")
      .bind(days, this.id)
      .run();
    await this.store.configure({ retentionDays: days });
  }

  books(): Promise<BooksAnswer> {
    return this.operator<BooksAnswer>("GET", "/books");
  }

  /** Waits until no signal is in flight. */
  async settled(): Promise<BooksAnswer> {
    for (let tries = 0; tries < 1_200; tries++) {
      // Read first, because a signal that is settled now was recorded before.
      const { unsettled } = await this.counter.books();
      if (unsettled === 0) {
        const books = await this.books();
        if (books.in_flight === 0) return books;
      }
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    throw new Error(`still in flight: ${JSON.stringify(await this.books())}`);
  }
}

let planNumber = 0;

/** A paid plan with this signal limit; `paid: false` for an unpaid one. */
export async function newPlan(signalLimit: number, paid = true): Promise<string> {
  const id = `plan-${++planNumber}-${crypto.randomUUID().slice(0, 8)}`;
  await operator("PUT", `/plans/${id}`, { name: id, signal_limit: signalLimit, paid });
  return id;
}

export interface NewWorkspace {
  name?: string;
  signalLimit?: number;
  paid?: boolean;
  overages?: boolean;
  anchor?: string;
  /** The default is a plan that the workspaces of a file share, for tests that change no plan. */
  plan?: string;
  /** Options of its key; null: it has no key, and `TestWorkspace.key` is unusable. */
  key?: Record<string, unknown> | null;
}

export async function newWorkspace({
  signalLimit = 1_000_000,
  paid = true,
  key = {},
  plan,
  ...workspace
}: NewWorkspace = {}): Promise<TestWorkspace> {
  plan ??= await sharedForFile(`plan ${signalLimit} ${paid}`, () => newPlan(signalLimit, paid));
  const slug = `w-${crypto.randomUUID()}`;
  const { id } = await operator<{ id: string }>("POST", "/workspaces", { slug, name: slug, plan, ...workspace });
  if (key === null) return new TestWorkspace(id, { id: "", key: "" });
  const created = await operator<TestKey>("POST", `/workspaces/${id}/keys`, { name: "test key", ...key });
  return new TestWorkspace(id, created);
}
