/**
 * Signals, people and scoring signals as files, a page at a time. The text is made here, where the rows are: it crosses to
 * the Worker as it is, so that an export costs it next to no CPU time, however long it is.
 */
import type { ColdObjects } from "../log/cold-objects.ts";
import type { ExportPage, ExportRange } from "../protocol/data-care.ts";
import type { StoreState } from "../state/store-state.ts";
import { exportPeople } from "./export-people.ts";
import { exportScores } from "./export-scores.ts";
import { exportSignals } from "./export-signals.ts";

/**
 * One page of an export. @throws when payloads that are in cold storage cannot be had: an export leaves nothing out without
 * a word.
 */
export async function exportPage(
  state: StoreState,
  objects: ColdObjects,
  { records, format, cursor }: ExportRange,
): Promise<ExportPage> {
  switch (records) {
    case "signals":
      return exportSignals(state, objects, format, cursor);
    case "people":
      return exportPeople(state, format, cursor);
    case "scoring_signals":
      return exportScores(state, format, cursor);
  }
}
