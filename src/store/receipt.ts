/** Where a signal stands among all of its workspace: those of one commit share the time, so the ordinal decides. */
export interface Receipt {
  receivedAtMs: number;
  ordinal: number;
}

export function isLater(one: Receipt, other: Receipt): boolean {
  return (one.receivedAtMs - other.receivedAtMs || one.ordinal - other.ordinal) > 0;
}
