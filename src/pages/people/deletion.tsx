/** The deletion of a person: what it removes, and its receipt. */
import { iso } from "../../d1/database.ts";
import { deletionRequestedMs } from "../../d1/deletions.ts";
import { emailAsStored } from "../../domain/signal/identity.ts";
import { TRAIT_NAMES, traitsInWords } from "../../domain/signal/traits.ts";
import { ok, reject } from "../../domain/result.ts";
import { DELETION_REMEMBERED_DAYS, EMAIL_MAX_LENGTH } from "../../limits.ts";
import type { DeletionReceipt } from "../../store/protocol/store-operations.ts";
import { deletePerson } from "../../use-cases/delete-person.ts";
import { Form, LinkButton, TextField } from "../kit/forms.tsx";
import { grouped } from "../kit/format.ts";
import { Badge, ValueList, Notice, Panel, Time } from "../kit/parts.tsx";
import { notFoundPage, page } from "../page.tsx";
import { contextOf, type Ctx, pages, storeOf, typedText, workspacePath, personPath, emailOf } from "../pages-env.ts";
import { checkTyped, readForm } from "../read-form.tsx";
import { requireManager } from "../session/sign-in.tsx";
import { unknownPersonPage } from "./person.tsx";

export const deletionPages = pages
  .createApp()
  .get("/deletions/:deletion_id", (c) => receiptPage(c, { id: c.req.param("deletion_id") }))
  .get("/deletions/:deletion_id/download", async (c) => {
    const receipt = await storeOf(c).deletionById(c.req.param("deletion_id"));
    if (receipt === null) return notFoundPage(c, "deletion");
    const { requestedAtMs, finishedAtMs, ...counts } = receipt;
    const times = { requestedAt: iso(requestedAtMs), finishedAt: finishedAtMs === null ? null : iso(finishedAtMs) };
    return c.body(JSON.stringify({ workspace: c.get("workspace").id, ...counts, ...times }, null, 2), 200, {
      "content-type": "application/json",
      "content-disposition": `attachment; filename="${receipt.id}.json"`,
      "x-content-type-options": "nosniff",
    });
  })
  .get("/:email/delete", requireManager, async (c) => ((await personExists(c)) ? deletePage(c) : redirectToReceipt(c)))
  .post("/:email/delete", requireManager, readForm(), async (c) => {
    const email = emailOf(c);
    // If the form is sent twice, a second deletion would replace the receipt of the first.
    if (!(await personExists(c))) return redirectToReceipt(c);
    const typed = typedText(c.get("form"), "email");
    const confirmed = checkTyped(typed, 2 * EMAIL_MAX_LENGTH, (text) =>
      emailAsStored(text) === email ? ok(null) : reject(`Type ${email} to confirm.`),
    );
    if (!confirmed.ok) return deletePage(c, typed, confirmed.rejection);
    await deletePerson(contextOf(c), email);
    return redirectToReceipt(c);
  })
  .get("/:email/deletion", (c) => receiptPage(c, { email: emailOf(c) }));

async function personExists(c: Ctx): Promise<boolean> {
  return (await storeOf(c).people({ email: emailOf(c) }, { cursor: null, limit: 1 })).items.length > 0;
}

async function redirectToReceipt(c: Ctx): Promise<Response> {
  const email = emailOf(c);
  const receipt = await storeOf(c).deletion(email);
  if (receipt === null) return unknownPersonPage(c, email);
  return c.redirect(`${personPath(workspacePath(c), email)}/deletion`, 303);
}

function deletePage(c: Ctx, typed = "", error?: string): Promise<Response> {
  const email = emailOf(c);
  const path = personPath(workspacePath(c), email);
  return page(
    c,
    {
      section: "people",
      title: "Delete person",
      crumbs: [[email, path]],
      intro: "Use it for deletion requests and test data. This cannot be undone.",
      status: error === undefined ? 200 : 422,
    },
    <Panel>
      <p>
        <strong>Deleted:</strong> {email} with {traitsInWords(TRAIT_NAMES, "and", "score")}; their ids; all their
        signals with payloads, including held signals, dead letters and copies in cold storage; their scoring signals;
        anonymous signals of their ids.
      </p>
      <p>
        <strong>Kept:</strong> of each signal its id, its event name and its place in usage and ledger, with nothing
        that names the person. Account data is not searched. A new signal with this email creates a new person.
      </p>
      <Form action={`${path}/delete`} submit="Delete person" look="danger" cancel={path}>
        <TextField
          name="email"
          label="Type the email to confirm"
          hint={email}
          value={typed}
          error={error}
          code
          autofocus
          required
        />
      </Form>
    </Panel>,
  );
}

const COUNTS = [
  ["people", "People"],
  ["identities", "Ids"],
  ["signals", "Signals"],
  ["anonymous", "Anonymous signals"],
  ["held", "Held signals"],
  ["deadLetters", "Dead letters"],
  ["scoringSignals", "Scoring signals"],
  ["coldObjects", "Objects in cold storage"],
] as const satisfies readonly (readonly [keyof DeletionReceipt, string])[];

async function receiptPage(c: Ctx, deletion: { id: string } | { email: string }): Promise<Response> {
  const base = workspacePath(c);
  const email = "email" in deletion ? deletion.email : null;
  const [receipt, isBack] = await Promise.all([
    "email" in deletion ? storeOf(c).deletion(deletion.email) : storeOf(c).deletionById(deletion.id),
    email !== null && personExists(c),
  ]);
  if (receipt === null) return notBegunOr404(c, deletion);
  const { id, requestedAtMs, finishedAtMs } = receipt;
  const isFinished = finishedAtMs !== null;
  return page(
    c,
    {
      ...HEAD,
      crumbs: email !== null && isBack ? [[email, personPath(base, email)]] : [],
      intro: email ?? id,
      actions: <LinkButton href={`${base}/people/deletions/${id}/download`} text="Download receipt" />,
    },
    <div id="receipt" class="stack" {...(isFinished ? {} : { "data-refresh": "3000" })}>
      {isFinished ? (
        <Notice tone="good" title="Deletion complete" />
      ) : (
        <Notice
          tone="warn"
          title="Deletion in progress"
          text="The person and their ids are deleted. The rest follows, and the counts grow."
        />
      )}
      <Panel>
        <ValueList
          of={[
            ["Status", isFinished ? <Badge tone="good">Complete</Badge> : <Badge tone="warn">In progress</Badge>],
            ["Receipt", <code>{id}</code>],
            ["Requested", <Time ms={requestedAtMs} />],
            ["Finished", isFinished && <Time ms={finishedAtMs} />],
            ...COUNTS.map(([field, name]) => [name, grouped(receipt[field])] as const),
          ]}
        />
      </Panel>
    </div>,
    <p class="quiet small">
      This receipt is kept for {DELETION_REMEMBERED_DAYS} days. Find it by searching People for the email. The entry
      under <a href={`${base}/settings/activity?action=person.deleted`}>Activity</a> stays, without the email.
      {isBack && " New signals have named this email since, and created a new person."}
    </p>,
  );
}

const HEAD = { section: "people", title: "Deletion receipt" } as const;

/** D1 knows a deletion that the store does not know, if it was interrupted before it began. */
async function notBegunOr404(c: Ctx, deletion: { id: string } | { email: string }): Promise<Response> {
  const base = workspacePath(c);
  const askedMs = await deletionRequestedMs(c.get("db"), c.get("workspace").id, deletion, Date.now());
  if (askedMs === null) return notFoundPage(c, "deletion");
  const path = "email" in deletion ? personPath(base, deletion.email) : null;
  return page(
    c,
    { ...HEAD, crumbs: "email" in deletion && path !== null ? [[deletion.email, path]] : [] },
    <Notice tone="bad" title="The deletion did not begin">
      <p>
        It was requested <Time ms={askedMs} /> and interrupted before anything was deleted.{" "}
        {path === null ? (
          <>
            <a href={`${base}/people`}>Find the person</a> and delete them again.
          </>
        ) : (
          <a href={`${path}/delete`}>Delete the person again</a>
        )}
      </p>
    </Notice>,
  );
}
