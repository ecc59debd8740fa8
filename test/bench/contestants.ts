/** The contestants: how each is started, provisioned, awaited, and audited. */
import { randomBytes } from "node:crypto";
import path from "node:path";
import { composeKey } from "../../src/domain/keys/api-key.ts";
import type { BuiltWorker } from "./build.ts";
import { OperatorApi, until } from "./operator-api.ts";
import { RULES } from "./rules.ts";
import { body } from "./signals.ts";
import { applySql, start, startEmpty, type RunningWorker } from "./start.ts";

/** `admission` is this service with a consumer that drops its messages. */
export type ContestantName = "bare" | "one-row" | "straightforward" | "service" | "admission";

export interface Contestant {
  name: ContestantName;
  running: RunningWorker;
  key: string;
  /** Keys whose calls are rejected, if the contestant has any. */
  rejected: RejectedKeys;
  /** Answers to a call with a bad key. */
  rejections: number[];
  /** Signals answered with 202. */
  accepted: number;
  /** Resolves when every accepted signal has taken effect. */
  settle(): Promise<void>;
  /** Errors found at the end; empty when every accepted signal is in its place. */
  audit(): Promise<string[]>;
}

interface RejectedKeys {
  deactivated: string;
  /** Has a secret. */
  guarded: string;
  /** The key of a workspace at its limit. */
  overQuota: string;
}

export interface BuiltWorkers {
  service: BuiltWorker;
  bare: BuiltWorker;
  oneRow: BuiltWorker;
  straightforward: BuiltWorker;
  sink: BuiltWorker;
}

/** The request rate must not limit the bench. Everything else is as deployed. */
const SERVICE_VARS = { REQUEST_RATE_PER_SECOND: "1000000", REQUEST_BURST: "1000000", OPERATOR_TOKEN: "bench" };
const SIGNAL_LIMIT = 1_000_000_000;
/** For contestants without key management. */
const SOME_KEY = composeKey(randomBytes);
const NO_REJECTED_KEYS: RejectedKeys = { deactivated: SOME_KEY, guarded: SOME_KEY, overQuota: SOME_KEY };

/** Contestants that accept everything. */
export async function startYardstick(
  name: "bare" | "one-row",
  worker: BuiltWorker,
  stateDir: string,
): Promise<Contestant> {
  return {
    name,
    running: await start(worker, { stateDir: path.join(stateDir, name) }),
    key: SOME_KEY,
    rejected: NO_REJECTED_KEYS,
    rejections: [202],
    accepted: 0,
    settle: () => Promise.resolve(),
    audit: () => Promise.resolve([]),
  };
}

export async function startStraightforward(
  workers: Pick<BuiltWorkers, "straightforward">,
  stateDir: string,
): Promise<Contestant> {
  const built = workers.straightforward;
  const running = await start(built, { stateDir: path.join(stateDir, "straightforward") });
  await applySql(running, built.configPath.replace(/\.toml$/, ".sql"));
  const database = await running.miniflare.getD1Database("DB", "worker");
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(SOME_KEY));
  const insertRule = database.prepare("INSERT INTO mapping_rules (id, workspace_id, rule) VALUES (?, 'bench', ?)");
  await database.batch([
    database
      .prepare("INSERT INTO api_keys (key_hash, workspace_id, signal_limit) VALUES (?, 'bench', ?)")
      .bind(Buffer.from(digest).toString("hex"), SIGNAL_LIMIT),
    ...RULES.map((rule, index) => insertRule.bind(`rule_${index}`, JSON.stringify({ id: `rule_${index}`, ...rule }))),
  ]);
  // Rows are never deleted and rejected rows take no rowid, so that the last rowid is the count. A scan at each poll
  // would be slow.
  const rows = async (): Promise<number> =>
    (await database.prepare("SELECT max(rowid) AS count FROM signals").first<number>("count")) ?? 0;
  const contestant: Contestant = {
    name: "straightforward",
    running,
    key: SOME_KEY,
    rejected: NO_REJECTED_KEYS,
    rejections: [401],
    accepted: 0,
    settle: () => until(async () => (await rows()) >= contestant.accepted),
    audit: async () => {
      const stored = await rows();
      return stored === contestant.accepted ? [] : [`${contestant.accepted} signals accepted, ${stored} stored`];
    },
  };
  return contestant;
}

/** A poll takes 2.5 ms of the processor, which counts as work of the service. */
const POLL_MS = 100;

export async function startService(
  name: "service" | "admission",
  workers: Pick<BuiltWorkers, "service" | "sink">,
  stateDir: string,
  vars: Record<string, string> = {},
  inspected = false,
): Promise<Contestant> {
  const running = await startEmpty(workers.service, {
    stateDir: path.join(stateDir, name),
    vars: { ...SERVICE_VARS, ...vars },
    inspected,
    ...(name === "admission" ? { consumer: workers.sink } : {}),
  });
  const api = new OperatorApi(running.origin, SERVICE_VARS.OPERATOR_TOKEN);
  const { id: workspaceId, key } = await api.provision({ rules: RULES });
  const rejected = await rejectedKeys(api, running.origin, workspaceId);
  const contestant: Contestant = {
    name,
    running,
    key,
    rejected,
    // 429: the address has failed too often.
    rejections: [401, 429],
    accepted: 0,
    settle: async () => {
      if (name === "service") await api.settled(workspaceId, POLL_MS);
    },
    audit: async () => {
      const books = await api.books(workspaceId);
      const taken = name === "admission" ? books.in_flight : books.processed;
      const right = books.balanced && books.accepted === contestant.accepted && taken === contestant.accepted;
      return right ? [] : [`${contestant.accepted} signals accepted, but the books say ${JSON.stringify(books)}`];
    },
  };
  return contestant;
}

async function rejectedKeys(api: OperatorApi, origin: string, workspaceId: string): Promise<RejectedKeys> {
  const ended = await api.newKey(workspaceId);
  await api.deactivate(workspaceId, ended.id);
  const full = await api.provision({ slug: "full", signalLimit: 1 });
  // The second is held; the third has no room.
  for (let sent = 0; sent < 2; sent++) {
    const url = `${origin}/api/signal-staging/webhook/${full.key}`;
    const { status } = await fetch(url, { method: "POST", body: body(2_000_000 + sent, 1) });
    if (status !== 202) throw new Error(`filling a workspace: ${status}`);
  }
  const guarded = await api.newKey(workspaceId, { secret: true });
  return { deactivated: ended.key, guarded: guarded.key, overQuota: full.key };
}
