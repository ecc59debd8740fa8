/** The built service as on a developer's machine, where receivers on loopback are allowed. */
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { buildOnce } from "../../bench/build.ts";
import { OperatorApi } from "../../bench/operator-api.ts";
import type { BenchRule } from "../../bench/rules.ts";
import { applySql, start } from "../../bench/start.ts";
import type { Receiver } from "./receiver.ts";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const TOKEN = "events-operator";

export interface Attempt {
  ms: number;
  status: number | null;
  error: string | null;
  answer: string | null;
}

export interface Delivery {
  id: string;
  event_id: string;
  type: string;
  state: "waiting" | "delivered" | "failed";
  end_reason: string | null;
  due_at: string | null;
  attempts: Attempt[];
}

export interface Destination {
  id: string;
  target: string;
  state: "active" | "paused" | "disabled";
  disabled_reason: string | null;
  waiting: number;
}

export class EventService {
  readonly api: OperatorApi;
  readonly origin: string;
  readonly #end: () => Promise<void>;
  #workspaces = 0;

  private constructor(origin: string, end: () => Promise<void>) {
    this.origin = origin;
    this.api = new OperatorApi(origin, TOKEN);
    this.#end = end;
  }

  static async start(vars: Record<string, string> = {}): Promise<EventService> {
    const scratch = mkdtempSync(path.join(os.tmpdir(), "signal-ingestion-events-"));
    const built = await buildOnce(path.join(ROOT, "wrangler.toml"));
    const running = await start(built, {
      stateDir: path.join(scratch, "state"),
      vars: { OPERATOR_TOKEN: TOKEN, SIGN_IN: "local", DRAIN_PACE_MS: "50", ...vars },
    });
    await applySql(running, "DB", path.join(ROOT, "migrations/d1"));
    return new EventService(running.origin, async () => {
      await running.stop();
      rmSync(scratch, { recursive: true, force: true });
    });
  }

  async newWorkspace(rules: BenchRule[] = []): Promise<EventWorkspace> {
    const slug = `events-${this.#workspaces++}`;
    const { workspaceId, key } = await this.api.provision(1_000_000, rules, slug);
    return new EventWorkspace(this, workspaceId, slug, key);
  }

  stop(): Promise<void> {
    return this.#end();
  }
}

export class EventWorkspace {
  readonly id: string;
  readonly slug: string;
  readonly key: string;
  readonly #service: EventService;

  constructor(service: EventService, id: string, slug: string, key: string) {
    this.#service = service;
    this.id = id;
    this.slug = slug;
    this.key = key;
  }

  call<T>(method: "GET" | "POST" | "PUT" | "PATCH", resource: string, body?: object): Promise<T> {
    return this.#service.api.call<T>(method, `workspaces/${this.id}${resource}`, body);
  }

  /** A webhook whose deliveries the receiver checks. */
  async tell(
    receiver: Receiver,
    events = ["person.score_crossed", "person.scored"],
    type = "webhook",
  ): Promise<string> {
    const wanted = { name: "Receiver", type, target: receiver.url, events };
    const { id, secret } = await this.call<{ id: string; secret?: string }>("POST", "/destinations", wanted);
    receiver.secret = secret ?? null;
    return id;
  }

  test(id: string): Promise<Delivery> {
    return this.call("POST", `/destinations/${id}/test`);
  }

  destination(id: string): Promise<Destination> {
    return this.call("GET", `/destinations/${id}`);
  }

  async deliveries(id: string): Promise<Delivery[]> {
    return (await this.call<{ items: Delivery[] }>("GET", `/destinations/${id}/deliveries?limit=200`)).items;
  }

  async send(signals: object[]): Promise<void> {
    const url = `${this.#service.origin}/api/signal-staging/bulk/${this.key}`;
    const body = JSON.stringify(signals);
    const response = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
    if (response.status !== 202) throw new Error(`${response.status}: ${await response.text()}`);
  }
}
