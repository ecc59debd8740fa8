/** What is left of a line of which the person has been deleted, the period has ended, or the days are over. */
import { withoutPerson } from "./line-cells.ts";
import type { Facts } from "./line.ts";

/** What is left of a signal whose person is deleted: id, event and its place in the books. */
export function afterDeletion(facts: Facts, nowMs: number): Facts {
  const status = facts.status === "anonymous" ? "processed" : facts.status === "held" ? "purged" : facts.status;
  return { ...withoutPerson(facts), status, deletedAtMs: nowMs };
}

/** What is left of a held signal whose period is over. */
export function afterPurge(facts: Facts): Facts {
  return { ...withoutPerson(facts), status: "purged" };
}

/** What is left of a line that has been kept long enough, while others of its segment are kept: its place. */
export function afterRetention(facts: Facts): Facts {
  const left = withoutPerson(facts);
  return {
    ...left,
    admission: { ...left.admission, id: "", keyId: "" },
    status: "released",
    event: null,
    deletedAtMs: null,
  };
}

/** Whether retention has deleted the signal. */
export function isDropped({ admission }: Facts): boolean {
  return admission.id === "";
}
