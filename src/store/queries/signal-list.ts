/**
 * Signals by a filter, latest first. A page scans at most LIST_SCAN_SIGNALS, so that a rare combination takes more
 * pages but no page takes long.
 */
import type { SignalStatus } from "../../domain/signal/signal.ts";
import { LIST_SCAN_SIGNALS } from "../../limits.ts";
import type { Page } from "../../platform/list-page.ts";
import type { FindFilter, FoundSignals, SignalSummary } from "../protocol/stored-signals.ts";
import type { StoreState } from "../state/store-state.ts";
import { Names } from "./named-people.ts";
import { ALL, newestFirst } from "./newest-signals.ts";
import type { Found, Places } from "./newest-signals.ts";

/** A page of the signals that are asked for. A cursor that was not given out here finds nothing. */
export function findSignals(state: StoreState, filter: FindFilter, { cursor, limit }: Page): FoundSignals {
  const names = new Names(state.sql);
  const email = filter.email?.trim().toLowerCase();
  const asked = email === undefined ? filter : { ...filter, email };
  const places = readPlaces(cursor);
  if (places === null) return { items: [], next: null, complete: true };
  const found: Found[] = [];
  let looked = 0;
  for (const step of newestFirst(state, asked, places, names)) {
    const full = found.length === limit;
    if ((full && step.found !== null) || looked >= LIST_SCAN_SIGNALS) {
      return { items: toSummaries(found, names), next: places.join("."), complete: full };
    }
    looked += step.cost;
    places[step.source] = step.place;
    if (step.found !== null) found.push(step.found);
  }
  return { items: toSummaries(found, names), next: null, complete: true };
}

function toSummaries(found: readonly Found[], names: Names): SignalSummary[] {
  names.load(found.flatMap(({ facts }) => (facts === null ? [] : [facts])));
  return found.map((one) => toSummary(one, names));
}

export function toSummary({ facts, dead }: Found, names: Names): SignalSummary {
  if (facts === null) {
    const { id, status, received_at: receivedAtMs } = dead;
    return { id, status, kind: "unknown", event: null, source: null, email: null, receivedAtMs };
  }
  const { admission, kind, event, source } = facts;
  return {
    id: admission.id,
    status: shownStatus(facts.status),
    kind,
    event,
    source,
    email: names.of(facts),
    receivedAtMs: admission.receivedAtMs,
  };
}

/** A status as it is shown. @throws for a line that is never shown. */
export function shownStatus(status: SignalStatus | "released"): SignalStatus {
  if (status === "released") throw new Error("a released signal is recorded elsewhere");
  return status;
}

/** The places that a cursor tells; null for a cursor that this list did not give out. */
function readPlaces(cursor: string | null): Places | null {
  if (cursor === null) return [...ALL];
  const [, signals, held, dead] = /^(\d{1,16})\.(\d{1,16})\.(\d{1,16})$/.exec(cursor) ?? [];
  return dead === undefined ? null : [Number(signals), Number(held), Number(dead)];
}
