/**
 * The deletion of a person: the Signal Store first, then what waits to be told of them, then the entry in the audit log,
 * which holds nothing of the person.
 */
import { writeAuditEntry } from "../control/audit.ts";
import type { Change, ControlDatabase } from "../control/database.ts";
import { newId } from "../platform/ids.ts";
import type { DeletionReceipt } from "../store/protocol/data-care.ts";
import { destinationsOf, signalStore } from "./objects.ts";

/**
 * Deletes a person with everything that is linked to them (store/deletion/person-deletions.ts). When it returns, person and
 * identities are gone. Repeating it is harmless, and finishes a call that failed.
 *
 * @param email trimmed and lower-cased.
 */
export async function deletePerson(
  env: Env,
  db: ControlDatabase,
  workspaceId: string,
  email: string,
  by: Change,
): Promise<DeletionReceipt> {
  const receipt = await signalStore(env, workspaceId).deletePerson(newId("del", by.nowMs), email);
  // The store comes first: it raises no event of the person any more, and what it raised before is refused by its time.
  await destinationsOf(env, workspaceId).deletePerson(email);
  const { id, requestedAtMs: _requested, finishedAtMs, ...counts } = receipt;
  const detail = { ...counts, complete: finishedAtMs !== null };
  await writeAuditEntry(db, by, { workspaceId, action: "person.deleted", target: id, detail });
  return receipt;
}
