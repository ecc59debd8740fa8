/** A workspace whose configuration may fail to arrive: the test breaks single calls of the Worker's bindings. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import worker from "../../src/index.ts";
import type { QuotaConfig } from "../../src/domain/quota/billing.ts";
import type { Usage } from "../../src/quota/protocol.ts";
import { intercept, type Call } from "./intercept.ts";
import { newPlan, newWorkspace, type TestWorkspace } from "./workspace.ts";

/** The points at which a configuration can get lost between D1 and the counter. */
export const BREAKS = ["nowhere", "D1", "the counter", "behind the counter"] as const;
export type Break = (typeof BREAKS)[number];

/** D1's configuration of a workspace. */
export interface StoredConfig {
  planId: string;
  overages: boolean;
  /** The version of the workspace's own part. */
  ownVersion: number;
  /** The version of its plan. */
  planVersion: number;
  /** The higher of the two. */
  configVersion: number;
  signalLimit: number;
  paid: boolean;
}

const HOST = "https://signals.example";
/** Matches only the statement that reads a configuration for a push. */
const READS_CONFIG = /FROM workspace_versions/;

export class LateConfiguration {
  readonly workspace: TestWorkspace;
  readonly plan: string;
  /** The point at which pushes break from now on. */
  breaks: Break = "nowhere";
  /** The version at the nearest replica; null: the version of D1. */
  replicaVersion: number | null = null;
  /** Runs before each `configure`. */
  hold: Promise<void> = Promise.resolve();
  /** Rows of D1 that calls have written and read. */
  readonly cost = { written: 0, read: 0 };
  /** The newest version of each push to the counter, in order; 0: a push without versions. */
  readonly pushed: number[] = [];

  private constructor(workspace: TestWorkspace, plan: string) {
    this.workspace = workspace;
    this.plan = plan;
  }

  static async make(signalLimit: number, anchor = new Date().toISOString()): Promise<LateConfiguration> {
    const plan = await newPlan(signalLimit);
    return new LateConfiguration(await newWorkspace({ plan, anchor }), plan);
  }

  /** Calls the operator API about the workspace, with the same faults as the edge. */
  async operator(method: string, path: string, body?: unknown): Promise<Response> {
    return this.#fetch(`/operator${path}`, {
      method,
      headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  change(body: object): Promise<Response> {
    return this.operator("PATCH", `/workspaces/${this.workspace.id}`, body);
  }

  putPlan(terms: object): Promise<Response> {
    return this.operator("PUT", `/plans/${this.plan}`, { name: this.plan, paid: true, ...terms });
  }

  /** Sends a signal and waits for the work behind the answer. @returns the status, or the code of the rejection. */
  async call(): Promise<string> {
    const { answer, behind } = await this.callOnly();
    await behind;
    return answer;
  }

  /** Sends a signal. @returns the answer and the work behind it. */
  async callOnly(): Promise<{ answer: string; behind: Promise<unknown> }> {
    const context = createExecutionContext();
    const path = `/api/signal-staging/webhook/${this.workspace.key.key}`;
    const body = JSON.stringify({ event: "x", messageId: crypto.randomUUID() });
    const request = new Request(HOST + path, { method: "POST", body });
    const response = await worker.fetch(request, this.bindings, context);
    const { code, status } = await response.json<{ code?: string; status: string }>();
    return { answer: code ?? status, behind: waitOnExecutionContext(context) };
  }

  async usage(): Promise<Usage> {
    const usage = (await this.workspace.counter.usage()) as Usage | null;
    if (usage === null) throw new Error("the counter has no ledger");
    return usage;
  }

  async stored(): Promise<StoredConfig> {
    const row = await env.DB.prepare(
      `SELECT plan_id AS planId, overages, w.config_version AS ownVersion, p.config_version AS planVersion,
         max(w.config_version, p.config_version) AS configVersion, signal_limit AS signalLimit, paid
       FROM workspaces w JOIN plans p ON p.id = plan_id WHERE w.id = ?`,
    )
      .bind(this.workspace.id)
      .first<Omit<StoredConfig, "overages" | "paid"> & { overages: number; paid: number }>();
    if (row === null) throw new Error("the workspace is gone");
    return { ...row, overages: row.overages === 1, paid: row.paid === 1 };
  }

  /** Restores the workspace's row and its plan in D1 to an earlier state. */
  async restoreD1(before: StoredConfig): Promise<void> {
    const { planId, overages, ownVersion, planVersion, signalLimit, paid } = before;
    await env.DB.batch([
      env.DB.prepare("UPDATE workspaces SET plan_id = ?, overages = ?, config_version = ? WHERE id = ?").bind(
        planId,
        Number(overages),
        ownVersion,
        this.workspace.id,
      ),
      env.DB.prepare("DELETE FROM workspace_versions WHERE workspace_id = ? AND version > ?").bind(
        this.workspace.id,
        ownVersion,
      ),
      env.DB.prepare("UPDATE plans SET signal_limit = ?, paid = ?, config_version = ? WHERE id = ?").bind(
        signalLimit,
        Number(paid),
        planVersion,
        planId,
      ),
      env.DB.prepare("DELETE FROM plan_versions WHERE plan_id = ? AND version > ?").bind(planId, planVersion),
    ]);
  }

  /** Without the summary log of requests, so that only a push runs behind an answer. */
  get bindings(): Env {
    const DB = intercept(env.DB, (call) => this.#d1(call));
    const QUOTA_COUNTER = intercept(env.QUOTA_COUNTER, (call) => this.#counter(call));
    return { ...env, LOG_REQUESTS: "all", DB, QUOTA_COUNTER };
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    const context = createExecutionContext();
    const response = await worker.fetch(new Request(HOST + path, init), this.bindings, context);
    await waitOnExecutionContext(context);
    return response;
  }

  async #counter({ method, given, make }: Call): Promise<unknown> {
    if (method !== "configure") return make();
    this.pushed.push((given[0] as QuotaConfig[]).at(-1)?.configVersion ?? 0);
    await this.hold;
    if (this.breaks === "the counter") throw new Error("the counter is away");
    const answer = await make();
    if (this.breaks === "behind the counter") throw new Error("the answer is lost");
    return answer;
  }

  async #d1({ statements, session, make }: Call): Promise<unknown> {
    const isReplica = session === "first-unconstrained";
    // Only the primary is sure to have the newest configuration.
    const readsConfig = statements.some(({ query }) => READS_CONFIG.test(query));
    if (readsConfig && (this.breaks === "D1" || isReplica)) throw new Error("D1 does not answer");
    const answer = (await make()) as D1Result<object>;
    for (const { meta } of [answer].flat()) {
      this.cost.written += meta?.rows_written ?? 0;
      this.cost.read += meta?.rows_read ?? 0;
    }
    if (!isReplica || this.replicaVersion === null) return answer;
    // A replica does not have the latest version yet.
    return { ...answer, results: answer.results.map((row) => ({ ...row, config_version: this.replicaVersion })) };
  }
}
