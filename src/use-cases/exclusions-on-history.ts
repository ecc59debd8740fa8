/** Exclusions on stored signals: preview before saving, job after saving. */
import { auditEntry } from "../d1/audit.ts";
import { findExclusions } from "../d1/exclusions.ts";
import { DAY_MS, dayOf } from "../domain/duration.ts";
import { withIds, type ImportedExclusion } from "../domain/rules/exclusion.ts";
import { PREVIEW_MAX_SIGNALS, PREVIEW_SAMPLES } from "../limits.ts";
import { newId } from "../platform/ids.ts";
import type {
  ExclusionSample,
  ExclusionsPreviewPart,
  PreviewRange,
  RuleJob,
  SingleMatch,
} from "../store/protocol/store-operations.ts";
import { signalStore, type WorkspaceContext } from "./objects.ts";
import { effectsOn, inTurn, readParts, type PersonEffect, type RulePreview } from "./rules-on-history.ts";

export interface ExclusionsPreview {
  /** Signals that would become excluded, and those that would not be excluded any more. */
  excluded: number;
  included: number;
  /** Signals that each exclusion covers, in the order of the list. The first exclusion that covers a signal counts. */
  covered: { name: string; signals: number }[];
  /** People whose score would change. */
  people: number;
  points: number;
  byPerson: PersonEffect[];
  crossing: RulePreview["crossing"];
  samples: (Omit<ExclusionSample, "excludedBy"> & { exclusion: string | null })[];
  scanned: number;
  complete: boolean;
}

/**
 * Previews a list of exclusions on the signals of known people of the last `days`, latest first: what changes if it is saved and applied.
 * Changes nothing. Null: the workspace has too many previews under way.
 */
export async function previewExclusions(
  { env, db, workspaceId }: Pick<WorkspaceContext, "env" | "db" | "workspaceId">,
  items: readonly ImportedExclusion[],
  days: number,
  maxSignals = PREVIEW_MAX_SIGNALS,
): Promise<ExclusionsPreview | null> {
  const { exclusions: known } = await findExclusions(db, workspaceId);
  const exclusions = withIds(items, known, () => newId("exc"));
  const names = new Map(exclusions.map(({ id, name }) => [id, name]));
  const store = signalStore(env, workspaceId);
  const nowMs = Date.now();
  const range = { sinceMs: nowMs - days * DAY_MS, today: dayOf(nowMs) };
  const sums = new Sums();
  const read = (place: Pick<PreviewRange, "beforeSeq" | "limit">) =>
    store.previewExclusionsPart(exclusions, { ...range, ...place });
  return inTurn(workspaceId, async () => {
    const { scanned, complete } = await readParts(workspaceId, maxSignals, read, (part) => sums.take(part));
    const { effects, byPerson, crossing } = await effectsOn(env, workspaceId, sums.pointsOfPeople());
    const { excluded, included } = sums;
    return {
      excluded,
      included,
      covered: exclusions.map(({ id, name }) => ({ name, signals: sums.covered.get(id) ?? 0 })),
      people: effects.length,
      points: effects.reduce((sum, effect) => sum + effect.points, 0),
      byPerson,
      crossing,
      samples: sums.samples.map(({ excludedBy, ...sample }) => ({
        ...sample,
        exclusion: excludedBy === null ? null : (names.get(excludedBy) ?? null),
      })),
      scanned,
      complete,
    };
  });
}

/** Adds up the parts. */
export class Sums {
  excluded = 0;
  included = 0;
  readonly covered = new Map<string, number>();
  readonly samples: ExclusionSample[] = [];
  readonly #points = new Map<number, number>();
  /** The latest first. */
  readonly #singles: SingleMatch[] = [];

  take(part: ExclusionsPreviewPart): void {
    this.excluded += part.excluded;
    this.included += part.included;
    this.samples.push(...part.samples.slice(0, PREVIEW_SAMPLES - this.samples.length));
    for (const [id, lines] of part.covered) this.covered.set(id, (this.covered.get(id) ?? 0) + lines);
    for (const [personId, points] of part.points) this.#add(personId, points);
    for (const single of part.singles) this.#singles.push(single);
  }

  /** Changes of scores, without people whose score stays. */
  pointsOfPeople(): ReadonlyMap<number, number> {
    for (const [personId, ofPerson] of Map.groupBy(this.#singles, (single) => single.personId)) {
      for (const matches of Map.groupBy(ofPerson, ({ ruleId }) => ruleId).values())
        this.#add(personId, changeOf(matches));
    }
    return new Map([...this.#points].filter(([, points]) => points !== 0));
  }

  #add(personId: number, points: number): void {
    this.#points.set(personId, (this.#points.get(personId) ?? 0) + points);
  }
}

/**
 * The change of points by a person's matches of a rule. The match that was recorded first counts, of each day or once ever. A match that the
 * preview has not read goes on to count, and so does one of a version that may not take a place any more.
 *
 * @param matches the latest first.
 */
function changeOf(matches: readonly SingleMatch[]): number {
  const read = new Set(matches.map(({ signalId }) => signalId));
  const taken = new Set<number>();
  let points = 0;
  const inOrder = matches.toReversed();
  const [fixed, others] = [inOrder.filter(({ mayTake }) => !mayTake), inOrder.filter(({ mayTake }) => mayTake)];
  for (const match of [...fixed, ...others]) {
    const { signalId, countedId, isOnceEver, day, firstDay, isExcluded } = match;
    if (countedId === signalId) points -= pointsFrom(firstDay ?? day, match);
    const isFree = isOnceEver ? taken.size === 0 : !taken.has(day);
    if (isExcluded || !isFree || (countedId !== null && !read.has(countedId))) continue;
    taken.add(day);
    points += pointsFrom(isOnceEver ? firstDayOf(match, matches) : day, match);
  }
  return points;
}

/** The earliest day of the matches of the same version, also of one that the preview has not read. */
function firstDayOf({ version, firstDay }: SingleMatch, matches: readonly SingleMatch[]): number {
  const same = matches.filter((match) => match.version === version);
  const isRead = firstDay === null || same.some(({ day }) => day === firstDay);
  const left = same.filter(({ isExcluded }) => !isExcluded);
  return left.reduce((first, { day }) => Math.min(first, day), isRead ? Number.POSITIVE_INFINITY : firstDay);
}

function pointsFrom(day: number, { points, lapsedDay }: SingleMatch): number {
  return lapsedDay !== null && day <= lapsedDay ? 0 : points;
}

/** Starts the job that applies the workspace's exclusions to the past. */
export async function applyExclusions({ env, db, workspaceId, by }: WorkspaceContext): Promise<RuleJob> {
  const { version, exclusions, rulesVersion } = await findExclusions(db, workspaceId);
  const job = await signalStore(env, workspaceId).applyExclusions({ exclusions, version, rulesVersion });
  await auditEntry(db, by, { workspaceId, action: "exclusions.applied", target: workspaceId, detail: { version } });
  return job;
}
