/** The deletion of a person leaves none of their data, changes no other data, and the books balance. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { DELETION_REMEMBERED_DAYS } from "../../../../src/limits.ts";
import { DELETION_STEP_LINES } from "../../../../src/store/deletion/person-deletions.ts";
import type { ExportPage } from "../../../../src/store/protocol/store-operations.ts";
import { linesOf } from "../../../support/adds-up.ts";
import { expectToAddUp, readStore } from "../../../support/read-store.ts";
import { ring, ringUntilQuiet } from "../../../support/cold.ts";
import { DAY, consumeMessages, deliver, messageOf, type Delivered } from "../../../support/deliver.ts";
import { until } from "../../../support/until.ts";
import { newWorkspace, type TestWorkspace } from "../../../support/workspace.ts";

const NOW = Date.now();
/** Payloads of that time move to R2 with the next alarm. */
const OLD = NOW - 2 * DAY;
const JANE = "jane.doe@example.com";
const BOB = "bob@example.com";

let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace();
  const rule = { name: "R", event: "E", match: "all", conditions: [], scoring_signal: "s", points: 5 };
  await workspace.operator("POST", "/rules", rule);
});

interface Receipt {
  id: string;
  email: string;
  complete: boolean;
  finished_at: string | null;
  [count: string]: unknown;
}

const deletePerson = (email: string) => workspace.operator<Receipt>("DELETE", `/people/${encodeURIComponent(email)}`);
const receipt = (email: string) => workspace.operator<Receipt>("GET", `/people/${encodeURIComponent(email)}/deletion`);

/** Deletes, and waits until the deletion is complete. */
async function deleted(email: string): Promise<Receipt> {
  await deletePerson(email);
  await ringUntilQuiet(workspace.id);
  return until(async () => {
    const now = await receipt(email);
    expect(now.complete).toBe(true);
    return now;
  });
}

function send(...signals: Delivered[]) {
  return deliver(
    workspace.id,
    signals.map((signal) => ({ at: NOW - 60_000, ...signal })),
  );
}

function query<T extends Record<string, SqlStorageValue>>(text: string, ...bindings: unknown[]): Promise<T[]> {
  return runInDurableObject(workspace.store, (_, { storage }) => storage.sql.exec<T>(text, ...bindings).toArray());
}

const trace = (id: string) => workspace.operator("GET", `/signals/${id}`);

/** Of all signals of the store, in any place. */
function all(): Promise<{ id: string; status: string; deletedAtMs: number | null }[]> {
  return readStore(workspace.id, ({ signals, held, sql }) => [
    ...[...linesOf(signals), ...linesOf(held)].map(({ facts: { admission, status, deletedAtMs } }) => ({
      id: admission.id,
      status,
      deletedAtMs,
    })),
    ...sql.exec<{ id: string; status: string; deletedAtMs: number | null }>(
      "SELECT id, status, deleted_at AS deletedAtMs FROM dead_letters",
    ),
  ]);
}

/** All kinds of data of two people. One object of cold storage has payloads of both, and of Carol. */
async function history(): Promise<Record<"jane" | "bob", Delivered[]>> {
  const of = (who: string, email: string, from: number) => {
    const ids = { anonymousId: `visitor-${who}` };
    const visit = (n: number) => ({ type: "track", event: "Visit", messageId: `${who}-${n}`, ...ids });
    const identify = { type: "identify", messageId: `${who}-i`, ...ids, userId: `user-${who}`, traits: { email } };
    const form = (n: number) => ({ event: "E", email, properties: { n } });
    const held = { verdict: "held", periodEnd: NOW + DAY } as const;
    const signals: [name: string, payload: Delivered["payload"], more?: Partial<Delivered>][] = [
      ["cold", visit(0), { at: OLD }],
      ["identify", identify],
      ["form", form(1)],
      ["twin", form(1)],
      ["held", form(2), held],
      ["held_twin", form(2), held],
      ["held_visit", visit(3), held],
      ["dead", '{"event":"E", broken'],
    ];
    return signals.map(([name, payload, more], n) => ({
      id: `sig_${who}_${name}`,
      payload,
      ordinal: from + n,
      ...more,
    }));
  };
  const [jane, bob] = [of("jane", JANE, 1), of("bob", BOB, 101)];
  const carol = { type: "track", event: "Visit", messageId: "carol", anonymousId: "visitor-carol" };
  await send(...jane.slice(0, 1), ...bob.slice(0, 1), { id: "sig_carol", payload: carol, ordinal: 201, at: OLD });
  await ring(workspace.id);
  await send(...jane.slice(1), ...bob.slice(1));
  await until(async () => expect(await trace("sig_jane_cold")).toMatchObject({ status: "processed" }));
  return { jane, bob };
}

describe("a deleted person", () => {
  test("is hidden in traces, and does not return when signals are redelivered, released or replayed", async () => {
    const { jane } = await history();
    await deleted(JANE);
    const deletedAt = expect.stringMatching(/Z$/);
    const left = { status: "processed", event: "E", deleted_at: deletedAt };
    const hidden = { email: null, person: null, points: 0, payload: null };
    expect(await trace("sig_jane_form")).toMatchObject({ ...left, ...hidden });
    expect(await trace("sig_jane_held")).toMatchObject({ status: "purged", deleted_at: deletedAt });
    expect(await trace("sig_bob_form")).toMatchObject({ deleted_at: null });
    const before = await all();
    await send(...jane);
    const places = await readStore(workspace.id, ({ held }) =>
      linesOf(held).map(({ seq, facts }) => [facts.admission.id, seq] as const),
    );
    const released = places.flatMap(([id, place]) => {
      const signal = jane.find((sent) => sent.id === id);
      return signal === undefined
        ? []
        : [{ ...signal, verdict: "accepted" as const, resent: { from: "held" as const, place } }];
    });
    expect(released).toHaveLength(3);
    await send(...released);
    await send(...jane.map((signal) => ({ ...signal, payload: { event: "E", email: JANE } })));
    expect(await all()).toEqual(before);
    expect(await workspace.operator("GET", `/people?email=${JANE}`)).toMatchObject({ items: [] });
    await expectToAddUp(workspace.id);
  });
});

describe("a deletion", () => {
  test("hides the person from exports while it is in progress", async () => {
    const { jane } = await history();
    const many = Array.from({ length: 2 * DELETION_STEP_LINES + 1 }, (_, n) => ({
      id: `sig_${n}`,
      payload: { event: "E", email: JANE, n },
      ordinal: 1_000 + n,
    }));
    await send(...many);
    const dead = { id: "sig_jane_given_up", payload: { event: "E", email: JANE }, at: NOW - 60_000, ordinal: 900 };
    await consumeMessages([messageOf(workspace.id, [dead])], { queue: "signals-dlq" });
    expect(await trace(dead.id)).toMatchObject({ status: "dead", payload: { email: JANE } });
    const exported = await runInDurableObject(workspace.store, async (instance, { storage }) => {
      expect(await instance.deletePerson("del_1", JANE)).toMatchObject({ people: 1, held: 0, finishedAtMs: null });
      // Without its alarm the deletion does not continue while payloads are fetched.
      await storage.deleteAlarm();
      let text = "";
      for (const records of ["signals", "people", "scoring_signals"] as const) {
        let cursor: string | null = null;
        do {
          // oxlint-disable-next-line no-await-in-loop -- each page begins where the one before it ended
          const page: ExportPage = await instance.exportPage({ records, format: "ndjson", cursor });
          text += page.text;
          cursor = page.next;
        } while (cursor !== null);
      }
      return text;
    });
    expect(exported.replaceAll(/sig_\w+/g, "").toLowerCase()).not.toMatch(/jane|doe@/);
    expect(exported).toContain(dead.id);
    expect(jane.filter(({ id }) => exported.includes(`"${id}"`))).toHaveLength(jane.length);
    expect(exported).toContain(BOB);
    expect(exported).toContain("visitor-bob");
    await deleted(JANE);
  });

  test("has a receipt until its names are forgotten, and an audit entry without personal data", async () => {
    await expect(receipt(JANE)).rejects.toThrow("404");
    await send({ id: "sig_1", payload: { event: "E", email: JANE } });
    const { id } = await deletePerson(JANE);
    const audited = env.DB.prepare("SELECT actor, action, detail FROM audit_log WHERE target = ?").bind(id).first();
    expect(await audited).toEqual({ actor: "operator", action: "person.deleted", detail: "{}" });
    expect(await receipt(JANE)).toMatchObject({ id, people: 1, signals: 1, scoring_signals: 1, complete: true });
    const nothing = { people: 0, signals: 0, complete: true };
    expect(await deleted(` ${JANE.toUpperCase()} `)).toMatchObject({ email: JANE, ...nothing });
    expect(await deletePerson("nobody@example.com")).toMatchObject(nothing);
    const forgottenMs = (DELETION_REMEMBERED_DAYS + 1) * DAY;
    await query("UPDATE deleted_names SET at = at - ?", forgottenMs);
    await query("UPDATE deletions SET finished_at = finished_at - ?", forgottenMs);
    await ring(workspace.id);
    expect(await query("SELECT * FROM deleted_names")).toEqual([]);
    await expect(receipt(JANE)).rejects.toThrow("404");
  });
});
