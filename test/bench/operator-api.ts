/** The calls of this service's operator API that the bench and the tests of the built Worker need (design §9). */
import { setTimeout as sleep } from "node:timers/promises";
import {
  OperatorClient,
  type BooksAnswer,
  type CreatedKeyAnswer,
  type WorkspaceAnswer,
} from "../../src/dev/operator-client.ts";
import type { BenchRule } from "./rules.ts";

const POLL_MS = 20;
const TIMEOUT_MS = 600_000;

export interface NewWorkspace {
  slug?: string;
  /** Of the workspace's own plan. */
  signalLimit?: number;
  rules?: readonly BenchRule[];
  /** Begin of the first billing period; the default is now. */
  anchorMs?: number;
  /** Options of its key, such as `{ secret: true }`. */
  key?: object;
}

export interface ProvisionedWorkspace {
  id: string;
  slug: string;
  /** The path of its resources. */
  home: string;
  keyId: string;
  key: string;
}

export class OperatorApi extends OperatorClient {
  /** Creates a workspace with one key, on its own plan. */
  async provision({
    slug = "bench",
    signalLimit = 1_000_000_000,
    rules = [],
    anchorMs = Date.now(),
    key = {},
  }: NewWorkspace = {}): Promise<ProvisionedWorkspace> {
    await this.call("PUT", `plans/${slug}`, { name: slug, signal_limit: signalLimit, paid: true });
    const anchor = new Date(anchorMs).toISOString();
    const { id } = await this.post<WorkspaceAnswer>("workspaces", { slug, name: slug, plan: slug, anchor });
    const created = await this.newKey(id, key);
    for (const rule of rules) await this.post(`workspaces/${id}/rules`, rule);
    return { id, slug, home: `workspaces/${id}`, keyId: created.id, key: created.key };
  }

  newKey(workspaceId: string, options: object = {}): Promise<CreatedKeyAnswer> {
    return this.post(`workspaces/${workspaceId}/keys`, { name: "Bench", ...options });
  }

  async deactivate(workspaceId: string, keyId: string): Promise<void> {
    await this.post(`workspaces/${workspaceId}/keys/${keyId}/deactivate`);
  }

  /** @returns the ids of the workspace's new webhooks, one for each target. */
  async addWebhooks(
    workspaceId: string,
    targets: readonly string[],
    notifications: readonly string[],
  ): Promise<string[]> {
    const ids: string[] = [];
    for (const [index, target] of targets.entries()) {
      const wanted = { name: `Receiver ${index}`, type: "webhook", target, notifications };
      ids.push((await this.post<{ id: string }>(`workspaces/${workspaceId}/destinations`, wanted)).id);
    }
    return ids;
  }

  books(workspaceId: string): Promise<BooksAnswer> {
    return this.get(`workspaces/${workspaceId}/books`);
  }

  /** Waits until no signal is in flight. */
  async settled(workspaceId: string, pollMs?: number): Promise<BooksAnswer> {
    await until(async () => (await this.books(workspaceId)).in_flight === 0, pollMs);
    return this.books(workspaceId);
  }
}

/** Polls until a condition holds. @throws after TIMEOUT_MS. */
export async function until(isSo: () => Promise<boolean>, pollMs = POLL_MS): Promise<void> {
  for (const endMs = performance.now() + TIMEOUT_MS; !(await isSo()); await sleep(pollMs)) {
    if (performance.now() > endMs) throw new Error(`not so after ${TIMEOUT_MS} ms`);
  }
}

/** Signs in as a member, at a service with local sign-in. @returns the cookie of the session. */
export async function signIn(origin: string, email: string): Promise<string> {
  const response = await fetch(`${origin}/sign-in/local`, {
    method: "POST",
    headers: { origin, "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ email }).toString(),
    redirect: "manual",
  });
  const cookie = response.headers.getSetCookie()[0]?.split(";")[0];
  if (cookie === undefined) throw new Error(`sign-in: ${response.status} ${await response.text()}`);
  return cookie;
}
