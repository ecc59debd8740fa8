/** Lines of people whose deletion is in progress and has not reached them: exports show no names in them. */
import { afterDeletion } from "../log/line.ts";
import type { Facts } from "../log/line.ts";
import { claimsInStore } from "../people/identities.ts";
import { namesOnLine } from "../people/visitor-names.ts";
import type { VisitorNames } from "../people/visitor-names.ts";
import type { VisitorId } from "../people/visitor-keys.ts";
import { admissionOf } from "../record/dead-letters.ts";
import type { DeadLetterRow } from "../record/dead-letters.ts";
import type { ReceivedOrder } from "../../wire/admission.ts";
import { visitorOfPayload } from "../people/visitor-names.ts";
import { isOfDeleted, isOfOneBeingDeleted } from "../people/deleted-names.ts";

export class BeingDeleted {
  readonly #sql: SqlStorage;
  readonly #isAnybody: boolean;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    const jobs = sql.exec("SELECT 1 FROM deletions WHERE finished_at IS NULL AND email IS NOT NULL LIMIT 1");
    this.#isAnybody = jobs.toArray().length > 0;
  }

  /** The facts of a line as its person's deletion will leave them. */
  factsOf(facts: Facts, nowMs: number): Facts {
    if (!this.#isAnybody || facts.deletedAtMs !== null) return facts;
    const { owner, admission } = facts;
    const isLeaving = owner === null ? this.#names(namesOnLine(facts), admission) : !this.#isThere(owner.personId);
    return isLeaving ? afterDeletion(facts, nowMs) : facts;
  }

  hasDeadLetter(row: DeadLetterRow): boolean {
    if (!this.#isAnybody || row.status !== "dead") return false;
    const admission = admissionOf(row);
    const visitor = visitorOfPayload(row.payload, admission);
    return visitor !== null && this.#names(visitor, admission);
  }

  #names(visitor: VisitorNames, receipt: ReceivedOrder): boolean {
    const claimsOf = (id: VisitorId) => claimsInStore(this.#sql, id).filter(({ personId }) => this.#isThere(personId));
    return isOfDeleted(this.#sql, visitor, receipt, claimsOf) || isOfOneBeingDeleted(this.#sql, visitor, receipt);
  }

  #isThere(personId: number): boolean {
    return this.#sql.exec("SELECT 1 FROM people WHERE id = ?", personId).toArray().length > 0;
  }
}
