/**
 * The deletion of a person. D1 is first: the entry in the audit log, which names the receipt only, and a row with the email's
 * hash, by which a restore repeats the deletion. Then the Signal Store, which finishes alone and has Destinations delete the
 * person too. So a call that is interrupted leaves an entry whose receipt says how far the deletion is.
 */
import { beginPersonDeletion, renameDeletion } from "../control/restores.ts";
import type { Change, ControlDatabase } from "../control/database.ts";
import { newId } from "../platform/ids.ts";
import type { DeletionReceipt } from "../store/protocol/store-operations.ts";
import { signalStore } from "./objects.ts";

/**
 * Deletes a person with everything that is linked to them (store/deletion/person-deletions.ts). When it returns, person and
 * identities are gone. Repeating it is harmless.
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
  const id = newId("del", by.nowMs);
  const auditId = await beginPersonDeletion(db, by, { id, workspaceId, email });
  const receipt = await signalStore(env, workspaceId).deletePerson(id, email);
  // A deletion of the same person was under way: its receipt is the one that counts.
  if (receipt.id !== id) await renameDeletion(db, auditId, receipt.id);
  return receipt;
}
