/** The state that queries read. A deletion under way hides as much as a finished one, because queries reach signals only through this state. */
import { ShownSignalLog } from "../log/shown-log.ts";
import type { StoreState } from "../state/store-state.ts";
import { ShownDeadLetters } from "./dead-letters.ts";
import { Names } from "./names.ts";

export interface ShownState extends Pick<StoreState, "sql" | "head" | "outcomes" | "singleScores"> {
  readonly signals: ShownSignalLog;
  readonly held: ShownSignalLog;
  readonly deadLetters: ShownDeadLetters;
  readonly names: Names;
}

/** The state as it is shown at this moment. A query that awaits asks again. */
export function shown({ sql, head, outcomes, singleScores, signals, held }: StoreState): ShownState {
  const names = new Names(sql);
  const openGate = (): Names => new Names(sql);
  return {
    sql,
    head,
    outcomes,
    singleScores,
    signals: new ShownSignalLog(signals, names, openGate),
    held: new ShownSignalLog(held, names, openGate),
    deadLetters: new ShownDeadLetters(sql, names),
    names,
  };
}
