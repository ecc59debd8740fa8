/**
 * `npm run upgrade:leave`: writes the state that this version leaves, with records of every kind, into an archive
 * next to this file. Run it once for each released version; every later version must be able to continue it.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { DAY_MS } from "../../../src/domain/duration.ts";
import type { CreatedKeyAnswer } from "../../../src/dev/operator-client.ts";
import type { ApiDocument } from "../../../src/operator/docs/api-document.ts";
import { writeMessage } from "../../../src/wire/message.ts";
import { textOf } from "../../support/wire.ts";
import { ROOT, SERVICE_CONFIG, benchWorker, build } from "../../bench/build.ts";
import { objectFile } from "../support/object-file.ts";
import { PARTS, migrationsNow, packLeft, type Left } from "../support/left-state.ts";
import { Service } from "../../support/service.ts";

const SLUG = "left";
const OWNER = "owner@left.example";
/** Long enough for payloads to move to R2. */
const LONG_AGO_MS = -3 * DAY_MS;
const PATIENCE_MS = 60_000;
/** More steps than one signal may take, see RULES_MAX_STEPS. */
const TOO_MANY = Array.from({ length: 3_000 }, (_, n) => n);
const STRANGER = { anonymousId: "stranger", signals: 4 };

const service = await Service.shifted();
const { version } = JSON.parse(readFileSync(path.join(ROOT, "package.json"), "utf8")) as { version: string };
const leaving = path.join(service.scratch, "left");
mkdirSync(leaving);

try {
  await service.startEmpty({ aheadMs: LONG_AGO_MS, vars: { SIGN_IN: "local" } });

  // With a retention, signals are sealed at the end of their day.
  const terms = { name: "Left", paid: true, retention_days: 60 };
  const setPlan = (limit: number) => service.api.call("PUT", "plans/left", { ...terms, signal_limit: limit });
  await setPlan(1_000);
  const created = { slug: SLUG, name: "Left", plan: "left", anchor: new Date(Date.now() + LONG_AGO_MS).toISOString() };
  const { id } = await service.api.post<{ id: string }>("workspaces", created);
  const home = `workspaces/${id}`;
  const setLimit = async (limit: number) => {
    await setPlan(limit);
    // A change of the workspace notifies its objects at once, which wakes their alarms; a change of the plan does not.
    await service.api.call("PATCH", home, { plan: "left" });
  };
  await service.api.post(`${home}/members`, { email: OWNER, role: "owner" });
  await service.api.post(`${home}/members`, { email: "member@left.example", role: "member" });
  const key = (settings: object) => service.api.post<CreatedKeyAnswer>(`${home}/keys`, settings);
  const [plain, secret, deactivated, rotated] = [
    await key({ name: "Plain" }),
    await key({ name: "With a secret", secret: true }),
    await key({ name: "Deactivated" }),
    await key({ name: "Rotated" }),
  ];
  const accounts = await key({
    name: "Accounts",
    endpoint_type: "product_org",
    payload_template: [
      { target: "external_id", path: "id", type: "string", required: true },
      { target: "plan", path: "plan", type: "string" },
    ],
  });
  await service.api.deactivate(id, deactivated.id);
  const successor = await service.api.post<CreatedKeyAnswer>(`${home}/keys/${rotated.id}/rotate`, { overlap: "7d" });
  const rule = (content: object) =>
    service.api.post<{ id: string }>(`${home}/rules`, { match: "all", conditions: [], ...content });
  const { id: ruleId } = await rule({ name: "Visits", event: "Visit", scoring_signal: "visit", points: 1 });
  await rule({ name: "Opened", event: "Opened", scoring_signal: "open", points: 5, frequency: "once_per_day" });
  const greedy = { path: "properties.all[]", operator: "in", value: TOO_MANY.slice(0, 100).map((n) => `value ${n}`) };
  const conditions = Array.from({ length: 4 }, () => greedy);
  for (let number = 0; number < 20; number++) {
    await rule({
      name: `Greedy ${number}`,
      event: "Greedy",
      match: "any",
      conditions,
      scoring_signal: "greedy",
      points: 1,
    });
  }
  const send = async (signals: object[]): Promise<string[]> => {
    const answer = await service.post(`signal-staging/webhook/${plain.key}/batch`, signals);
    const text = await answer.text();
    if (answer.status !== 202) throw new Error(text);
    return (JSON.parse(text) as { results: { id: string }[] }).results.map((result) => result.id);
  };
  const update = async (plan: string) => {
    const answer = await service.post(`product-orgs/webhook/${accounts.key}`, { id: "acme", plan });
    if (answer.status !== 202) throw new Error(await answer.text());
  };
  const visits = (count: number, idsOf: (n: number) => object, when: string) =>
    Array.from({ length: count }, (_, n) => ({ ...idsOf(n), event: "Visit", properties: { n, when } }));
  const known = (n: number) => ({ email: `p${n % 4}@left.example` });

  // Three days ago: 12 visits of 4 people, 4 of an unknown visitor, 3 of a browser that is then identified, a
  // duplicate.
  const [coldId = ""] = await send(visits(12, known, "long ago"));
  await send(visits(STRANGER.signals, () => ({ type: "track", anonymousId: STRANGER.anonymousId }), "long ago"));
  await send(visits(3, () => ({ type: "track", anonymousId: "browser" }), "long ago"));
  await send([{ type: "identify", anonymousId: "browser", traits: { email: "p0@left.example", name: "Pia Null" } }]);
  const opened = { messageId: "opened", email: "p1@left.example", event: "Opened" };
  await send([opened, opened, { email: "p1@left.example", event: "Opened", properties: { again: true } }]);
  await update("starter");
  await service.api.settled(id);

  // Now: the old payloads move to R2, and more signals come.
  await service.start();
  await setLimit(1_000);
  await until(async () => (await payloadsLeft(id)) === 0);
  await send([
    ...visits(8, known, "now"),
    { email: "p2@left.example", event: "Greedy", properties: { all: TOO_MANY } },
  ]);
  await update("scale");
  await service.api.settled(id);
  const target = { name: "Receiver", type: "webhook", target: "http://127.0.0.1:9/", notifications: ["person.scored"] };
  const destination = await service.api.post<{ id: string; secret: string }>(`${home}/destinations`, target);
  await send(visits(1, known, "notified"));
  await service.api.settled(id);
  await until(async () => (await service.api.list(`${home}/destinations/${destination.id}/deliveries`)).length > 0);
  await service.api.post(`${home}/destinations/${destination.id}/pause`);
  const rejected = await service.post(`signal-staging/webhook/${plain.key}`, "{ broken");
  await rejected.body?.cancel();
  await service.api.settled(id);
  const used = await service.api.get<{ accepted: number }>(`${home}/usage`);
  await setLimit(used.accepted);
  await send(visits(3, known, "held"));
  await service.api.settled(id);

  // Signals that are not recorded: a consumer takes the messages and drops them. Four signals are accepted, two held.
  await setLimit(used.accepted + 3 + 4);
  const sink = await build(benchWorker("sink.toml"), path.join(service.scratch, "sink"));
  await service.start({ consumer: sink });
  const api = (await (await fetch(`${service.origin}/openapi.json`)).json()) as ApiDocument;
  const unsettled = await send(visits(6, known, "unsettled"));
  await until(async () => (await service.api.books(id)).in_flight === unsettled.length);
  const outbox = await objectFile(service, "QUOTA_COUNTER", id);
  await service.stop();

  const counter = new DatabaseSync(outbox, { readOnly: true });
  const rows = counter.prepare("SELECT body FROM outbox WHERE bytes > 0 ORDER BY row").all() as { body: Uint8Array }[];
  counter.close();
  const accepted = 12 + STRANGER.signals + 3 + 1 + 3 + 1 + 8 + 1 + 1 + 1 + 3 + unsettled.length;
  const left: Left = {
    version,
    commit: execFileSync("git", ["rev-parse", "HEAD"], { cwd: ROOT, encoding: "utf8" }).trim(),
    atMs: Date.now(),
    migrations: migrationsNow(),
    workspaceId: id,
    slug: SLUG,
    owner: OWNER,
    keys: {
      plain: plain.key,
      secret: { key: secret.key, secret: secret.secret ?? "" },
      accounts: accounts.key,
      deactivated: deactivated.key,
      rotated: rotated.key,
      successor: successor.key,
    },
    ruleId,
    unsettled,
    messages: rows.map(({ body }) => textOf(writeMessage(id, 0, [body]))),
    stranger: STRANGER,
    cold: { id: coldId, payload: visits(1, known, "long ago")[0] },
    arrived: {
      books: {
        accepted,
        processed: accepted - 1 - 5 - 1,
        duplicates: 1,
        held: 3 + 2,
        purged: 0,
        dead_lettered: 1,
        in_flight: 0,
        balanced: true,
      },
      scores: {
        "p0@left.example": 3 + 3 + 2 + 1 + 1,
        "p1@left.example": 3 + 5 + 2 + 1,
        "p2@left.example": 3 + 2 + 1,
        "p3@left.example": 3 + 2 + 1,
      },
    },
    api,
    destination: { id: destination.id, secret: destination.secret },
  };
  writeFileSync(path.join(leaving, PARTS.left), JSON.stringify(left, null, 2));
  copyState(path.join(leaving, PARTS.state));
  await copyWorker(path.join(leaving, PARTS.worker));
  const archive = packLeft(version, leaving);
  process.stdout.write(`${path.relative(ROOT, archive)}: ${statSync(archive).size} bytes\n`);
} finally {
  await service.remove();
}

/** The stored state, each database in one file. */
function copyState(to: string): void {
  for (const kept of ["d1", "do", "r2"]) {
    const folder = path.join(service.stateDir, kept);
    for (const name of readdirSync(folder, { encoding: "utf8", recursive: true })) {
      if (!name.endsWith(".sqlite")) continue;
      const database = new DatabaseSync(path.join(folder, name));
      database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
      database.close();
    }
    cpSync(folder, path.join(to, kept), { recursive: true });
  }
}

/** The Worker that accepts signals and processes them. */
async function copyWorker(to: string): Promise<void> {
  const main = path.join(import.meta.dirname, "../workers/without-pages.ts");
  const built = await build(SERVICE_CONFIG, path.join(service.scratch, "before"), main);
  mkdirSync(to);
  for (const module of built.modules) writeFileSync(path.join(to, path.basename(module.path)), module.contents);
}

/** Payloads of a workspace that are not in R2. */
async function payloadsLeft(workspaceId: string): Promise<number> {
  const store = new DatabaseSync(await objectFile(service, "SIGNAL_STORE", workspaceId), { readOnly: true });
  try {
    const { segments } = store.prepare("SELECT count(*) AS segments FROM signals_segments").get() as {
      segments: number;
    };
    const { left } = store.prepare("SELECT count(*) AS left FROM signals_payloads").get() as { left: number };
    return segments === 0 ? Number.POSITIVE_INFINITY : left;
  } finally {
    store.close();
  }
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  const endsAt = Date.now() + PATIENCE_MS;
  while (!(await isSo())) {
    if (Date.now() > endsAt) throw new Error("it does not become so");
    await sleep(100);
  }
}
