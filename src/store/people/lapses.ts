/**
 * Points that lapse. A person's row stores them as a sum for each UTC day at whose start points lapse, at most 366 days. Every change
 * of a person first removes the points that are due, so a score never has points of an earlier day. The alarm visits people whom nothing
 * else changes.
 *
 * The text in the row is `day:points,…`, ascending, in base 36.
 */
import { DAY_MS } from "../../domain/duration.ts";

/** The columns of a person that lapses change. */
export interface LapsingScore {
  score: number;
  lapses: string;
  /** When the next points lapse, in milliseconds since 1970; null: none will. */
  next_lapse_at: number | null;
}

/** Adds points that lapse at the start of a day, or takes them away. */
export function addPointsUntil(person: LapsingScore, day: number, points: number): void {
  const lapses = readLapses(person.lapses);
  lapses.set(day, (lapses.get(day) ?? 0) + points);
  person.score += points;
  writeLapses(person, lapses);
}

/** Removes the points that have lapsed by the start of a day. Returns whether there were any. */
export function removeLapsed(person: LapsingScore, today: number): boolean {
  if (person.next_lapse_at === null || person.next_lapse_at > today * DAY_MS) return false;
  const lapses = readLapses(person.lapses);
  for (const [day, points] of lapses) {
    if (day > today) continue;
    person.score -= points;
    lapses.delete(day);
  }
  writeLapses(person, lapses);
  return true;
}

/** A person's score without the points that have lapsed by a day. */
export function scoreAt(person: LapsingScore, day: number): LapsingScore {
  const { score, lapses, next_lapse_at } = person;
  const left = { score, lapses, next_lapse_at };
  removeLapsed(left, day);
  return left;
}

function writeLapses(person: LapsingScore, lapses: ReadonlyMap<number, number>): void {
  const days = [...lapses].filter(([, points]) => points !== 0).sort(([a], [b]) => a - b);
  person.lapses = days.map(([day, points]) => `${day.toString(36)}:${points.toString(36)}`).join(",");
  person.next_lapse_at = days[0] === undefined ? null : days[0][0] * DAY_MS;
}

function readLapses(text: string): Map<number, number> {
  const parts = text === "" ? [] : text.split(",").map((part) => part.split(":"));
  return new Map(parts.map(([day = "", points = ""]) => [Number.parseInt(day, 36), Number.parseInt(points, 36)]));
}
