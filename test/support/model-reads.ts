/** Reads files and lists of a model run and compares each with the model. */
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { accountsOf, emailOf, lineOf, personLine } from "./model-expected.ts";
import type { Model, ModelSignal, Place } from "./model.ts";
import type { Real } from "./model-real.ts";
import { call } from "./workspace.ts";

type Format = "ndjson" | "csv";
/** Cells by column. Empty means that the field has no value. */
type Row = Record<string, string>;

/** The file contains each signal of the model once, with the exact payload. */
export async function expectSignals(model: Model, real: Real, format: Format): Promise<void> {
  const rows = await readFile(real, "signals", format);
  const signals = new Map(model.signals.filter(({ isGone }) => !isGone).map((signal) => [signal.id, signal]));
  expect(rows.map(({ id }) => id).toSorted()).toEqual([...signals.keys()].toSorted());
  const found = rows.map((row) => {
    const signal = signals.get(row["id"] ?? "");
    if (signal === undefined) throw new Error("not one of the model's");
    return { row, signal, place: foundPlace(row, signal) };
  });
  const twins = (place: Place, { n, period }: ModelSignal) => `${n} in period ${period}: ${place}`;
  expect(found.map(({ place, signal }) => twins(place, signal)).toSorted()).toEqual(
    [...signals.values()].map((signal) => twins(signal.place, signal)).toSorted(),
  );
  for (const { row, signal, place } of found) {
    expectLine(model, row, { signal, place });
    const { hasPayload } = lineOf(model, signal, place);
    expect(row["payload"]).toBe(hasPayload ? real.sent.get(signal.id) : "");
  }
}

function expectLine(model: Model, row: Row, { signal, place }: { signal: ModelSignal; place: Place }): void {
  const { isDeleted, hasPayload: _, ...cells } = lineOf(model, signal, place);
  expect(row).toMatchObject(cells);
  const original = model.signals.find(({ id }) => id === row["duplicate_of"]);
  expect({ id: row["id"], isDeleted: row["deleted_at"] !== "", repeats: original?.n }).toEqual({
    id: signal.id,
    isDeleted,
    repeats: place === "duplicate" ? signal.n : undefined,
  });
}

/** A signal's trace agrees with its line in a file. Signals deleted by retention have no trace. */
export async function expectTrace(model: Model, real: Real, signal: ModelSignal): Promise<void> {
  const path = `/workspaces/${real.workspace.id}/signals/${signal.id}`;
  const response = await callOperator(path);
  expect({ id: signal.id, status: response.status }).toEqual({ id: signal.id, status: signal.isGone ? 404 : 200 });
  if (signal.isGone) return;
  const { payload, ...trace } = await response.json<Record<string, unknown>>();
  const row = cellsOf(trace);
  const place = foundPlace(row, signal);
  // The trace of a dead letter names what was sent, whatever it is worth; a file does not.
  const line = place === "dead" ? { ...row, event: "", email: "" } : row;
  expectLine(model, line, { signal, place });
  const { hasPayload } = lineOf(model, signal, place);
  expect(payload).toEqual(hasPayload ? JSON.parse(real.sent.get(signal.id) ?? "") : null);
}

/** The status of a signal. Of twins the first recorded one has taken effect, as the file says. */
function foundPlace(row: Row, { place }: ModelSignal): Place {
  if (place !== "accepted" && place !== "deleted" && place !== "duplicate") return place;
  if (row["status"] === "duplicate") return "duplicate";
  return row["deleted_at"] === "" ? "accepted" : "deleted";
}

/** The file contains the people with their ids. */
export async function expectPeople(model: Model, real: Real, format: Format): Promise<void> {
  const rows = await readFile(real, "people", format);
  const lines = rows.map(({ email, anonymous_ids: anonymousIds, user_ids: userIds }) => ({
    email,
    anonymousIds: (JSON.parse(anonymousIds ?? "") as string[]).toSorted(),
    userIds: (JSON.parse(userIds ?? "") as string[]).toSorted(),
  }));
  expect(byText(lines)).toEqual(byText([...model.scores().keys()].map((person) => personLine(model, person))));
}

/**
 * The file contains the origins of the scores, also of deleted signals. The rules have been applied to all signals.
 */
export async function expectScores(model: Model, real: Real, format: Format): Promise<void> {
  const rows = await readFile(real, "scoring-signals", format);
  const scored = rows.map(({ email, scoring_signal, points }) => ({ email, scoring_signal, points }));
  const wanted = model.scored().map(({ person, event, points }) => ({
    email: emailOf(person),
    scoring_signal: event,
    points: String(points),
  }));
  expect(byText(scored)).toEqual(byText(wanted));
}

/** Accounts have the values and changes of the model. */
export async function expectAccounts(model: Model, real: Real, limit: number): Promise<void> {
  const shown = await readPages<{ external_id: string; history: { field: string }[] }>(real, "/accounts", limit);
  const wanted = accountsOf(model);
  const ids = (accounts: readonly { external_id: string }[]) =>
    accounts.map(({ external_id }) => external_id).toSorted();
  expect(ids(shown)).toEqual(ids(wanted));
  for (const { changes, ...account } of wanted) {
    const { history = [], ...values } = shown.find(({ external_id }) => external_id === account.external_id) ?? {};
    expect(values).toMatchObject(account);
    for (const [field, those] of Object.entries(changes)) {
      if (those !== null) expect(history.filter((change) => change.field === field)).toEqual(those);
    }
  }
}

export function byText<T>(lines: readonly T[]): T[] {
  return lines.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}

/** All pages of a list. */
export async function readPages<T>(real: Real, path: string, limit: number): Promise<T[]> {
  const items: T[] = [];
  let cursor = "";
  for (let pages = 0; pages < 200; pages++) {
    const query = `${path.includes("?") ? "&" : "?"}limit=${limit}${cursor}`;
    const page = await real.workspace.operator<{ items: T[]; next: string | null }>("GET", path + query);
    expect(page.items.length).toBeLessThanOrEqual(limit);
    items.push(...page.items);
    if (page.next === null) return items;
    cursor = `&cursor=${encodeURIComponent(page.next)}`;
  }
  throw new Error("the list has no end");
}

export async function readFile(real: Real, records: string, format: Format): Promise<Row[]> {
  const response = await callOperator(`/workspaces/${real.workspace.id}/export/${records}?format=${format}`);
  expect(response.status).toBe(200);
  const text = await response.text();
  return format === "csv" ? readCsv(text) : text.split("\n").slice(0, -1).map(readJsonLine);
}

/** The payload is compared as exact text. Only the times of occurrence stand behind it. */
function readJsonLine(line: string): Row {
  const { payload, ...members } = JSON.parse(line) as Record<string, unknown>;
  const letters =
    payload === undefined || payload === null
      ? ""
      : line.slice(line.indexOf('"payload":') + 10, line.lastIndexOf(',"occurred_at":'));
  return { ...cellsOf(members), payload: letters };
}

function cellsOf(members: Record<string, unknown>): Row {
  const cells = Object.entries(members).map(([name, value]) => {
    return [name, value === null ? "" : typeof value === "string" ? value : JSON.stringify(value)];
  });
  return Object.fromEntries(cells) as Row;
}

function callOperator(path: string): Promise<Response> {
  return call(`/operator${path}`, { headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}` } });
}

/** RFC 4180. */
function readCsv(text: string): Row[] {
  const [columns = [], ...rows] = text
    .split("\r\n")
    .slice(0, -1)
    .map((line) =>
      Array.from(line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g), ([, quoted, plain]) =>
        quoted === undefined ? (plain ?? "") : quoted.replaceAll('""', '"'),
      ),
    );
  return rows.map((cells) => Object.fromEntries(columns.map((column, index) => [column, cells[index] ?? ""])));
}
