/** Deleting a person, and the receipt for it. */
import * as z from "zod";
import { iso } from "../../control/database.ts";
import { DELETION_REMEMBERED_DAYS } from "../../limits.ts";
import type { DeletionReceipt } from "../../store/protocol/data-care.ts";
import { deletePerson } from "../../workspace/delete-person.ts";
import { signalStore } from "../../workspace/objects.ts";
import { byOperator, operator } from "../environment.ts";
import { notFound, operation } from "../operation.ts";
import { count, idOf, instant, isoOrNull } from "../schema-parts.ts";

const receiptAnswer = z
  .object({
    id: idOf("del", "Of the deletion; the audit log has it too."),
    email: z.string(),
    requested_at: instant,
    finished_at: instant.nullable(),
    complete: z.boolean().meta({ description: "False while it is under way, in cold storage too: the counts grow." }),
    people: count.meta({ description: "0 when nobody had this address." }),
    identities: count,
    signals: count.meta({ description: "Of the person, identify calls and linked signals included." }),
    anonymous: count.meta({ description: "Of the person's ids, not linked yet." }),
    held: count,
    dead_letters: count,
    scoring_signals: count,
    cold_objects: count.meta({ description: "Objects of cold storage that held a copy of one of these signals." }),
  })
  .meta({ id: "Deletion" });

const DELETED =
  "With everything that is linked to them: signals, held ones too, dead letters that name them, scoring signals, identities, what " +
  "their ids have sent anonymously, copies in cold storage. Of each signal, and of its duplicates, only the id, the name of its " +
  "event and its place in the books stay; of a duplicate also its source, where that names nobody. Signals that were received " +
  "before and are still on their way are deleted as they arrive; what is received later makes a new person. Account data is not " +
  "searched. Repeating it is harmless.";

export const deletionRoutes = operator
  .createApp()
  .delete(
    "/workspaces/:workspace_id/people/:person_email",
    operation({
      tag: "Data care",
      summary: "Delete a person",
      description: DELETED,
      answers: {
        200: { description: "The receipt; while `complete` is false, ask for it again.", schema: receiptAnswer },
      },
    }),
    async (c) => {
      const email = addressOf(c.req.param("person_email"));
      const receipt = await deletePerson(c.env, c.get("db"), c.get("workspace").id, email, byOperator());
      return c.json(receiptJson(receipt, email));
    },
  )
  .get(
    "/workspaces/:workspace_id/people/:person_email/deletion",
    operation({
      tag: "Data care",
      summary: "Get the receipt of a person's deletion",
      description: `The latest one, for ${DELETION_REMEMBERED_DAYS} days.`,
      answers: { 200: { description: "The receipt.", schema: receiptAnswer } },
    }),
    async (c) => {
      const email = addressOf(c.req.param("person_email"));
      const receipt = await signalStore(c.env, c.get("workspace").id).deletion(email);
      return receipt === null ? notFound(c, "deletion") : c.json(receiptJson(receipt, email));
    },
  );

/** An email as the store has it. */
function addressOf(text: string): string {
  return text.trim().toLowerCase();
}

function receiptJson(receipt: DeletionReceipt, email: string): z.infer<typeof receiptAnswer> {
  return {
    id: receipt.id,
    email,
    requested_at: iso(receipt.requestedAtMs),
    finished_at: isoOrNull(receipt.finishedAtMs),
    complete: receipt.finishedAtMs !== null,
    people: receipt.people,
    identities: receipt.identities,
    signals: receipt.signals,
    anonymous: receipt.anonymous,
    held: receipt.held,
    dead_letters: receipt.deadLetters,
    scoring_signals: receipt.scoringSignals,
    cold_objects: receipt.coldObjects,
  };
}
