/**
 * An upgrade: this version reads and continues the state of an earlier one, and both versions answer during the
 * switch. `npm run upgrade:leave` has created the files in the folder upgrade.
 */
import path from "node:path";
import { cpSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import type { BooksAnswer } from "../../src/dev/operator-client.ts";
import { DAY_MS } from "../../src/domain/duration.ts";
import { ROOT, SERVICE_CONFIG, readBuilt, type BuiltWorker } from "../bench/build.ts";
import { OperatorApi, signIn } from "../bench/operator-api.ts";
import { applySql } from "../bench/start.ts";
import { Receiver } from "../notifications/support/receiver.ts";
import type { ApiDocument } from "../../src/operator/docs/api-document.ts";
import { expectStateToAddUp } from "../support/adds-up.ts";
import { brokenPromises } from "../support/api-changes.ts";
import { leftVersions, migrationsNow, PARTS, unpackLeft, type Left } from "./support/left-state.ts";
import { Service, type ServiceOptions } from "../support/service.ts";
import { readStored } from "./support/stored.ts";
import { bytesOf } from "../support/wire.ts";

const PATIENCE = { timeout: 20_000, interval: 50 };
const PAGES = [
  "signals",
  "signals/all",
  "signals/dead-letters",
  "rules",
  "people",
  "people/p0@left.example",
  "accounts",
];
const MORE_PAGES = ["usage", "rejections", "live", "connect"];
const SETTINGS = ["settings/notifications", "settings/api-keys", "settings/members", "settings/activity"];

let ends: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const end of ends) await end();
  ends = [];
});

describe.each(leftVersions())("data left by version %s", (version) => {
  test("was created by unchanged migrations: new changes have their own files", async () => {
    const { left } = await Upgrade.of(version);
    expect(migrationsNow()).toMatchObject(left.migrations);
  });

  test("comes from a version whose API this one still has: programs that were written for it work", async () => {
    const upgrade = await Upgrade.of(version);
    const { origin } = await upgrade.start();
    const now = (await (await fetch(`${origin}/openapi.json`)).json()) as ApiDocument;
    expect(brokenPromises(upgrade.left.api, now)).toEqual([]);
  });

  test("is read and continued by this version: books, scores, keys, cold payloads, waiting messages, and every page", async () => {
    const upgrade = await Upgrade.of(version);
    const { left, service } = upgrade;
    await upgrade.start();
    // A queue outlives a deployment: this version's consumer gets the waiting messages.
    for (const message of left.messages) await upgrade.queue(message);
    await upgrade.expectArrived();
    const { api } = service;
    for (const id of left.unsettled) {
      const { status } = await api.get<{ status: string }>(`${upgrade.home}/signals/${id}`);
      expect(["processed", "held"]).toContain(status);
    }
    expect(await api.get(`${upgrade.home}/signals/${left.cold.id}`)).toMatchObject({
      status: "processed",
      payload: left.cold.payload,
    });
    const { items: accounts } = await api.get<{ items: unknown[] }>(`${upgrade.home}/accounts?external_id=acme`);
    expect(accounts).toMatchObject([{ plan: "scale" }]);

    const { keys } = left;
    const secret = { "x-api-secret": keys.secret.secret };
    const visit = { email: "p3@left.example", event: "Visit" };
    expect(await upgrade.send(keys.plain, visit)).toBe(202);
    expect(await upgrade.send(keys.rotated, visit)).toBe(202);
    expect(await upgrade.send(keys.successor, visit)).toBe(202);
    expect(await upgrade.send(keys.secret.key, visit, secret)).toBe(202);
    expect(await upgrade.send(keys.secret.key, visit)).toBe(401);
    expect(await upgrade.send(keys.deactivated, visit)).toBe(401);
    expect(await upgrade.send(keys.accounts, { id: "acme", plan: "pro" }, {}, "product-orgs")).toBe(202);

    // All held signals, and the five new ones, fit into a larger plan.
    await upgrade.setLimit(1_000);
    await expect.poll(() => upgrade.inFlight(), PATIENCE).toBe(0);
    expect(await api.post(`${upgrade.home}/held/release`)).toMatchObject({ still_held: 0 });
    // The visitor becomes known: the signals in R2 are evaluated by the rules.
    const identify = { type: "identify", anonymousId: left.stranger.anonymousId, traits: { email: "s@left.example" } };
    expect(await upgrade.send(keys.plain, identify)).toBe(202);
    await expect.poll(() => upgrade.scores(), PATIENCE).toMatchObject({ "s@left.example": left.stranger.signals });
    await expect.poll(() => upgrade.inFlight(), PATIENCE).toBe(0);
    const { books } = left.arrived;
    const [accepted, processed] = [books.accepted + 6, books.processed + books.held + 6];
    expect(await upgrade.books()).toEqual({ ...books, accepted, processed, held: 0 });
    await upgrade.expectToAddUp();

    expect(await upgrade.pageStatuses([...PAGES, ...MORE_PAGES, ...SETTINGS])).toEqual([]);
  });

  test("a delivery that waited for a paused destination is sent when it resumes, signed with the secret of that time", async () => {
    const upgrade = await Upgrade.of(version);
    const receiver = await Receiver.listen();
    ends.push(async () => receiver.close());
    const { id, secret } = upgrade.left.destination;
    receiver.secret = secret;
    receiver.aheadMs = upgrade.aheadMs;
    const { api } = await upgrade.start();
    const home = `${upgrade.home}/destinations/${id}`;
    await api.call("PATCH", home, { target: receiver.url });
    await api.post(`${home}/resume`);
    await expect.poll(() => receiver.ofType("person.scored").length, PATIENCE).toBeGreaterThan(0);
    expect(receiver.forged).toEqual([]);
  });

  test("is still right a month later: the period is closed, held signals are purged, and cold payloads are readable", async () => {
    const upgrade = await Upgrade.of(version);
    const { left } = upgrade;
    await upgrade.start();
    await upgrade.expectArrived();
    await upgrade.start({}, 40 * DAY_MS);
    const { processed, held } = left.arrived.books;
    await upgrade.setLimit(500);
    await expect
      .poll(() => upgrade.books(), PATIENCE)
      .toMatchObject({ processed, held: 0, purged: held, balanced: true });
    const usage = await upgrade.service.api.get<{ history: object[] }>(`${upgrade.home}/usage`);
    expect(usage.history.at(-1)).toMatchObject({ accepted: left.arrived.books.accepted - held, held });
    expect(await upgrade.service.api.get(`${upgrade.home}/signals/${left.cold.id}`)).toMatchObject({
      payload: left.cold.payload,
    });
    await upgrade.expectToAddUp();
  });

  test("both versions answer, with objects of the old version and with objects of this version", async () => {
    const upgrade = await Upgrade.of(version);
    const { left, service } = upgrade;
    const before = await upgrade.before();
    let sent = 0;
    const sendToBoth = async (): Promise<void> => {
      const { origin, besideOrigin } = service.running;
      for (const edge of [origin, besideOrigin, origin, besideOrigin]) {
        const visit = { email: "both@left.example", event: "Visit", properties: { sent: sent++ } };
        expect(await upgrade.send(left.keys.plain, visit, {}, "signal-staging", edge)).toBe(202);
      }
    };
    await upgrade.start();
    await upgrade.setLimit(1_000);

    // This version's edge and consumer, with objects of the earlier one.
    await upgrade.start({ main: before, consumer: service.built });
    await sendToBoth();
    await expect.poll(() => upgrade.scoreAtBeside("both@left.example"), PATIENCE).toBe(sent);
    // The earlier version's edge and consumer, with objects of this one.
    await upgrade.start({ consumer: before });
    await sendToBoth();
    await expect.poll(async () => (await upgrade.scores())["both@left.example"], PATIENCE).toBe(sent);

    await upgrade.start();
    await expect.poll(() => upgrade.inFlight(), PATIENCE).toBe(0);
    expect(await upgrade.books()).toMatchObject({ accepted: left.arrived.books.accepted + sent, balanced: true });
    await upgrade.expectToAddUp();
  });
});

/** The service on a copy of the state that a version has left, by the clock of that time. */
class Upgrade {
  readonly left: Left;
  readonly service: Service;
  readonly #folder: string;
  readonly #atMs = Date.now();

  private constructor(left: Left, service: Service, folder: string) {
    this.left = left;
    this.service = service;
    this.#folder = folder;
  }

  static async of(version: string): Promise<Upgrade> {
    const service = await Service.shifted();
    ends.push(() => service.remove());
    const folder = path.join(service.scratch, "left");
    const left = unpackLeft(version, folder);
    cpSync(path.join(folder, PARTS.state), service.stateDir, { recursive: true });
    const upgrade = new Upgrade(left, service, folder);
    const added = Object.keys(migrationsNow()).filter((file) => !(file in left.migrations));
    const forD1 = added.filter((file) => file.startsWith("migrations/d1/"));
    if (forD1.length === 0) return upgrade;
    await upgrade.start();
    for (const file of forD1) await applySql(service.running, path.join(ROOT, file));
    return upgrade;
  }

  get home(): string {
    return `workspaces/${this.left.workspaceId}`;
  }

  /** The service continues at the time at which its state was left. */
  get aheadMs(): number {
    return this.left.atMs - this.#atMs;
  }

  async start(options: ServiceOptions = {}, laterMs = 0): Promise<Service> {
    const aheadMs = this.aheadMs + laterMs;
    await this.service.start({ aheadMs, vars: { SIGN_IN: "local" }, ...options });
    return this.service;
  }

  before(): Promise<BuiltWorker> {
    return readBuilt(SERVICE_CONFIG, path.join(this.#folder, PARTS.worker));
  }

  async queue(message: string): Promise<void> {
    const queue = await this.service.running.miniflare.getQueueProducer<Uint8Array>("SIGNALS", "worker");
    await queue.send(bytesOf(message), { contentType: "bytes" });
  }

  async send(
    key: string,
    signal: object,
    headers: Record<string, string> = {},
    family = "signal-staging",
    origin = this.service.running.origin,
  ): Promise<number> {
    const response = await fetch(`${origin}/api/${family}/webhook/${key}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ ...signal, at: Math.random() }),
    });
    await response.body?.cancel();
    return response.status;
  }

  books(): Promise<BooksAnswer> {
    return this.service.api.books(this.left.workspaceId);
  }

  async inFlight(): Promise<number> {
    return (await this.books()).in_flight;
  }

  async scores(api = this.service.api): Promise<Record<string, number>> {
    const people = await api.list<{ email: string; score: number }>(`${this.home}/people`);
    return Object.fromEntries(people.map(({ email, score }) => [email, score]));
  }

  /** As the second Worker reports it. */
  async scoreAtBeside(email: string): Promise<number | undefined> {
    return (await this.scores(new OperatorApi(this.service.running.besideOrigin, this.service.token)))[email];
  }

  async expectArrived(): Promise<void> {
    await expect.poll(() => this.books(), PATIENCE).toEqual(this.left.arrived.books);
    expect(await this.scores()).toEqual(this.left.arrived.scores);
  }

  async expectToAddUp(): Promise<void> {
    await readStored(this.service, this.left.workspaceId, (state) => expectStateToAddUp(state));
  }

  async setLimit(signalLimit: number): Promise<void> {
    const plan = { name: "Left", paid: true, signal_limit: signalLimit };
    await this.service.api.call("PUT", "plans/left", plan);
    // A change of the workspace notifies its objects, which wakes their alarms; a change of the plan does not.
    await this.service.api.call("PATCH", this.home, { plan: "left" });
  }

  /** Pages with unexpected answers. */
  async pageStatuses(pages: readonly string[]): Promise<string[]> {
    const { origin } = this.service;
    const cookie = await signIn(origin, this.left.owner);
    const failed: string[] = [];
    for (const page of pages) {
      const answer = await fetch(`${origin}/w/${this.left.slug}/${page}`, { headers: { cookie }, redirect: "manual" });
      const text = await answer.text();
      if (answer.status !== 200 || !text.includes("</html>")) failed.push(`${page}: ${answer.status}`);
    }
    return failed;
  }
}
