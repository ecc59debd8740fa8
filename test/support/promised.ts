/** Guarantees for every signal despite any fault, checked against the stored data and the answers. */
import { expect } from "vitest";
import { linesOf } from "./adds-up.ts";
import { emailOf, POINTS } from "./faulty-life.ts";
import type { FaultyLife, Sent } from "./faulty-life.ts";
import { expectToAddUp, readStore } from "./read-store.ts";

interface Place {
  id: string;
  event: string | null;
  /** The status of a line, or `dead`. */
  status: string;
  isOwned: boolean;
}

const IS_A_PLACE = new Set(["processed", "anonymous", "duplicate", "held", "purged", "dead"]);

/** Call it when no work is in progress. */
export async function expectAsPromised(life: FaultyLife): Promise<void> {
  const { workspace, acknowledged, limit } = life;
  const places = await readPlaces(workspace.id);

  // Each counted signal is in exactly one place, including each signal answered with 202.
  const ids = new Set(places.map(({ id }) => id));
  expect(places.length).toBe(ids.size);
  const lost = [...acknowledged.keys()].filter((id) => !ids.has(id));
  expect(lost).toEqual([]);

  const books = await workspace.books();
  const statuses = Map.groupBy(places, ({ status }) => status);
  const count = (status: string): number => statuses.get(status)?.length ?? 0;
  expect(books).toEqual({
    ...books,
    accepted: places.length,
    processed: count("processed") + count("anonymous"),
    duplicates: count("duplicate"),
    held: count("held"),
    purged: count("purged"),
    dead_lettered: count("dead"),
    in_flight: 0,
    balanced: true,
  });
  const usage = await workspace.counter.usage();
  const { accepted = 0, held = 0, history = [] } = usage ?? {};
  if (history.length === 0) expect(accepted + held).toBe(places.length);
  if (history.length === 0 && !life.hasOverages) expect(accepted).toBe(Math.min(limit, places.length));

  await expectEachOnce(life, places);
  await expectToAddUp(workspace.id);
}

async function readPlaces(workspaceId: string): Promise<Place[]> {
  return readStore(workspaceId, (state) => {
    const dead = state.sql
      .exec<{ id: string; status: string; payload: string | null }>("SELECT id, status, payload FROM dead_letters")
      .toArray()
      .map(({ id, status, payload }) => {
        const { event = null } = JSON.parse(payload ?? "{}") as { event?: string };
        return { id, status, event, isOwned: false };
      });
    const lines = [...linesOf(state.signals), ...linesOf(state.held)].map(({ facts }) => ({
      id: facts.admission.id,
      event: facts.event,
      status: facts.status,
      isOwned: facts.owner !== null,
    }));
    return [...lines, ...dead].filter(({ status }) => IS_A_PLACE.has(status));
  });
}

/** However often it was sent, delivered or counted, each signal has taken effect once and for its person. */
async function expectEachOnce(life: FaultyLife, places: readonly Place[]): Promise<void> {
  const byEvent = Map.groupBy(places, ({ event }) => event);
  const statusOf = new Map(places.map(({ id, status }) => [id, status]));
  const known = new Set<number>();
  const tracked = new Map<string, Sent>(life.tracked().map((sent) => [`seen ${sent.n}`, sent]));
  for (const [id, { sent }] of life.acknowledged) {
    const status = statusOf.get(id);
    if (sent.kind === "identify" && (status === "processed" || status === "duplicate")) known.add(sent.person);
  }
  for (const [event, copies] of byEvent) {
    if (event === null || !event.startsWith("seen ")) continue;
    const originals = copies.filter(({ status }) => status === "processed" || status === "anonymous");
    const sent = tracked.get(event);
    if (sent?.hasId === true) expect(originals.length, event).toBeLessThanOrEqual(1);
    const isElsewhere = copies.some(({ status }) => status === "held" || status === "purged" || status === "dead");
    if (!isElsewhere) expect(originals.length, event).toBeGreaterThan(0);
    if (sent !== undefined && known.has(sent.person)) {
      for (const original of originals) expect([event, original.isOwned]).toEqual([event, true]);
    }
  }
  const { items } = await life.workspace.operator<{ items: { email: string; score: number }[] }>("GET", "/people");
  for (const { email, score } of items) {
    const trackedByPerson = life.tracked().filter(({ person }) => emailOf(person) === email);
    const owned = trackedByPerson
      .flatMap(({ n }) => byEvent.get(`seen ${n}`) ?? [])
      .filter((signal) => signal.isOwned && signal.status === "processed");
    expect([email, score]).toEqual([email, POINTS * owned.length]);
  }
}
