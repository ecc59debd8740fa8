/**
 * Deletes a person. D1 comes first: an audit entry that names only the receipt, and a row with the email's hash.
 * With this row, the import of an older file repeats the deletion. The Signal Store then completes the work alone, and has
 * Destinations delete the person too. After an interrupted call, the receipt in the audit entry shows the state of the deletion.
 */
import { recordDeletion, setAuditReceipt } from "../d1/deletions.ts";
import { newId } from "../platform/ids.ts";
import type { DeletionReceipt } from "../store/protocol/store-operations.ts";
import { signalStore, type WorkspaceContext } from "./objects.ts";

/**
 * When it returns, person and identities are gone. Idempotent.
 *
 * @param email trimmed and lower-cased.
 */
export async function deletePerson(context: WorkspaceContext, email: string): Promise<DeletionReceipt> {
  const { env, db, workspaceId, by } = context;
  const id = newId("del", by.nowMs);
  const auditId = await recordDeletion(context, { id, email });
  const receipt = await signalStore(env, workspaceId).deletePerson(id, email);
  // A deletion of the same person was already in progress: use its receipt.
  if (receipt.id !== id) await setAuditReceipt(db, auditId, receipt.id);
  return receipt;
}
