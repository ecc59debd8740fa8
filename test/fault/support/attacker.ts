/**
 * The workspaces of an attack. One has everything that it may have: active keys of both types, API tokens of every
 * scope, members of each role, rules, destinations, accounts and stored signals, also of the worst shapes. Ten have the
 * free plan.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { randomBytes } from "node:crypto";
import { TOKEN_SCOPES, type TokenScope } from "../../../src/domain/keys/api-token.ts";
import {
  DESTINATIONS_MAX,
  SIGNAL_MAX_BYTES,
  WORKSPACE_MAX_ACTIVE_KEYS,
  WORKSPACE_MAX_ACTIVE_TOKENS,
  WORKSPACE_MAX_RULES,
} from "../../../src/limits.ts";
import { signIn } from "../../bench/operator-api.ts";
import type { Service } from "../../support/service.ts";
import type { Assault, AttackCall } from "./attack.ts";
import { shapedSignals } from "./shapes.ts";
import { WORST_TEMPLATE } from "./worst-bodies.ts";

export interface SenderKey {
  key: string;
  /** Its `X-Api-Secret`, if it has one. */
  secret: string | null;
}

export interface FreeWorkspace {
  id: string;
  slug: string;
  keys: SenderKey[];
}

export interface Attacker {
  id: string;
  slug: string;
  /** Keys for signals. */
  keys: SenderKey[];
  /** Keys for account updates, each with the worst template. */
  accountKeys: SenderKey[];
  tokens: Record<TokenScope, string[]>;
  /** Headers of signed-in people: fewer than the 500 of a workspace, because signing in takes time. */
  members: Record<string, string>[];
  admins: Record<string, string>[];
  ruleId: string;
  destinationId: string;
  keyId: string;
  /** Signals of the worst shapes, stored. */
  shapedSignalIds: string[];
}

/** All workspaces of the attacks. */
export interface World {
  origin: string;
  attacker: Attacker;
  free: FreeWorkspace[];
}

export interface PreparedAttack {
  /** Distinct calls. Each is also sent without others, and then its processor time is measured. */
  alone: AttackCall[];
  assaults: Assault[];
  /** Calls of the attacker that are accepted soon after the attack. */
  honest: AttackCall[];
}

export interface Attack {
  title: string;
  make: (world: World) => PreparedAttack | Promise<PreparedAttack>;
}

const FREE_WORKSPACES = 10;
const KEYS_OF_A_FREE_WORKSPACE = 10;
/** Few, because a mebibyte holds all templates of a workspace. */
const ACCOUNT_KEYS = 20;
const PEOPLE_OF_A_ROLE = 20;
/** Every fifth key has a secret. */
const SECRET_EACH = 5;
/** Stored bytes of large signals, so that an export is much larger than the buffers of a connection. */
const STORED_BODIES = 3;
const STORED_SIGNALS_OF_A_BODY = 100;

export async function makeAttacker(service: Service): Promise<Attacker> {
  const { api } = service;
  const { id, slug, key, keyId } = await api.provision({ slug: "attacker" });
  const keys = [{ key, secret: null }, ...(await newKeys(service, id, WORKSPACE_MAX_ACTIVE_KEYS - ACCOUNT_KEYS - 1))];
  const template = { endpoint_type: "product_org", payload_template: WORST_TEMPLATE };
  const accountKeys = await newKeys(service, id, ACCOUNT_KEYS, template);
  const base = `workspaces/${id}`;
  await api.post(`${base}/rules/import`, { items: rules() });
  const [rule] = await api.list<{ id: string }>(`${base}/rules`);
  const targets = Array.from({ length: DESTINATIONS_MAX }, (_, n) => `https://hooks.example.com/${n}`);
  const [destinationId = ""] = await api.addWebhooks(id, targets, ["usage.level"]);
  const members = await people(service, id, "member");
  const admins = await people(service, id, "admin");
  const shapedSignalIds = await storeSignals(service, key, accountKeys[0]);
  const tokens = await newTokens(service, id);
  const records = { ruleId: rule?.id ?? "", destinationId, keyId };
  return { id, slug, keys, accountKeys, tokens, members, admins, shapedSignalIds, ...records };
}

export async function makeFreeWorkspaces(service: Service): Promise<FreeWorkspace[]> {
  const anchor = new Date().toISOString();
  return Promise.all(
    Array.from({ length: FREE_WORKSPACES }, async (_, n) => {
      const slug = `free-${n}`;
      const { id } = await service.api.post<{ id: string }>("workspaces", { slug, name: slug, plan: "free", anchor });
      return { id, slug, keys: await newKeys(service, id, KEYS_OF_A_FREE_WORKSPACE) };
    }),
  );
}

async function newKeys(service: Service, workspaceId: string, count: number, options = {}): Promise<SenderKey[]> {
  const keys: SenderKey[] = [];
  while (keys.length < count) {
    const hasSecret = keys.length % SECRET_EACH === 0;
    // oxlint-disable-next-line no-await-in-loop -- each creation counts the keys before it
    const { key, secret = null } = await service.api.newKey(workspaceId, { ...options, secret: hasSecret });
    keys.push({ key, secret });
  }
  return keys;
}

async function newTokens(service: Service, workspaceId: string): Promise<Attacker["tokens"]> {
  const tokens: Attacker["tokens"] = { read: [], rules: [], keys: [], export: [], delete: [] };
  for (let n = 0; n < WORKSPACE_MAX_ACTIVE_TOKENS; n++) {
    const scope = TOKEN_SCOPES[n % TOKEN_SCOPES.length] ?? "read";
    const created = await service.api.post<{ token: string }>(`workspaces/${workspaceId}/tokens`, {
      name: `${scope} ${n}`,
      scopes: [scope],
    });
    tokens[scope].push(created.token);
  }
  return tokens;
}

/** @returns the headers of signed-in people. */
function people(service: Service, workspaceId: string, role: string): Promise<Record<string, string>[]> {
  const { origin } = service;
  return Promise.all(
    Array.from({ length: PEOPLE_OF_A_ROLE }, async (_, n) => {
      const email = `${role}${n}@attacker.example`;
      await service.api.post(`workspaces/${workspaceId}/members`, { email, role });
      return { cookie: await signIn(origin, email) };
    }),
  );
}

/** As many rules as a workspace may have, of the largest total size. They match the event "Ruled" only. */
function rules(): object[] {
  const conditions = Array.from({ length: 5 }, (_, n) => ({
    path: `properties.list[].a${n}`,
    operator: "equals",
    value: "x",
  }));
  return Array.from({ length: WORKSPACE_MAX_RULES }, (_, n) => {
    return { name: `rule ${n}`, event: "Ruled", match: "any", scoring_signal: `s${n}`, points: 1, conditions };
  });
}

/** @returns the ids of the stored signals with the worst shapes. */
async function storeSignals(service: Service, key: string, accountKey: SenderKey | undefined): Promise<string[]> {
  const ids: string[] = [];
  for (const body of shapedSignals()) {
    const answer = await service.post(`signal-staging/webhook/${key}`, body);
    const { id } = (await answer.json()) as { id?: string };
    if (id === undefined) throw new Error(`a signal of a shape was answered with ${answer.status}`);
    ids.push(id);
  }
  for (let sent = 0; sent < STORED_BODIES; sent++) {
    const signals = Array.from({ length: STORED_SIGNALS_OF_A_BODY }, (_, n) => largeSignal(n));
    const answer = await service.post(`signal-staging/bulk/${key}`, signals.join("\n"));
    if (answer.status === 429) {
      await sleep(1_000 * Number(answer.headers.get("retry-after")));
      sent--;
    } else if (answer.status !== 202) throw new Error(`stored signals: ${answer.status} ${await answer.text()}`);
    await answer.arrayBuffer();
  }
  if (accountKey !== undefined) {
    const headers = accountKey.secret === null ? {} : { "x-api-secret": accountKey.secret };
    const accounts = Array.from({ length: 500 }, (_, n) => ({ id: `acme-${n}`, list: [{ a0: "x" }] }));
    const answer = await service.post(`product-orgs/webhook/${accountKey.key}`, accounts, headers);
    if (answer.status !== 202) throw new Error(`stored accounts: ${answer.status} ${await answer.text()}`);
    await answer.arrayBuffer();
  }
  return ids;
}

/** Of the maximum size, and incompressible. */
function largeSignal(n: number): string {
  const text = randomBytes((SIGNAL_MAX_BYTES - 300) * 0.75).toString("base64");
  return JSON.stringify({ email: `p${n}@attacker.example`, event: "Large", properties: { text } });
}

/** A call of a sender. */
export function callOf(title: string, path: string, sender: SenderKey, body: Buffer, headers = {}): AttackCall {
  return {
    title,
    method: "POST",
    path: path.replace("KEY", sender.key),
    headers: { "content-type": "application/json", ...secretOf(sender), ...headers },
    body,
  };
}

function secretOf({ secret }: SenderKey): Record<string, string> {
  return secret === null ? {} : { "x-api-secret": secret };
}
