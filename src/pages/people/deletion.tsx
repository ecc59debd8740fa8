/** The deletion of a person: what it removes, and its receipt. */
import type { Context } from "hono";
import { iso } from "../../control/database.ts";
import { deletionAskedMs } from "../../control/deletions.ts";
import { TRAIT_NAMES, traitsInWords } from "../../domain/signal/traits.ts";
import { DELETION_REMEMBERED_DAYS } from "../../limits.ts";
import type { DeletionReceipt } from "../../store/protocol/store-operations.ts";
import { deletePerson } from "../../workspace/delete-person.ts";
import { signalStore } from "../../workspace/objects.ts";
import { grouped } from "../kit/format.ts";
import { FormEnd, FormErrors, TextField } from "../kit/forms.tsx";
import { Badge, Fact, FactList, Notice, PageHead, Panel, Time } from "../kit/parts.tsx";
import { notFoundPage, page } from "../page.tsx";
import { formText, contextOf, pages, type PagesEnv, workspacePath } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { requireManager } from "../session/require-sign-in.ts";
import { emailOf, personPath } from "./person.tsx";

type Ctx = Context<PagesEnv>;

export const deletionPages = pages
  .createApp()
  .get("/deletions/:deletion_id", async (c) => {
    const id = c.req.param("deletion_id");
    const receipt = await storeOf(c).deletionById(id);
    if (receipt === null) return notBegunOr404(c, { id });
    return receiptPage(c, { email: null, receipt, isBack: false });
  })
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
  .get("/:email/delete", requireManager, async (c) => {
    const email = emailOf(c);
    if (!(await exists(c, email))) return receiptOr404(c, email);
    return page(c, { title: "Delete person", section: "people" }, <DeleteView base={workspacePath(c)} email={email} />);
  })
  .post("/:email/delete", requireManager, readForm(), async (c) => {
    const email = emailOf(c);
    const typed = formText(c.get("form"), "email");
    // A form that is sent twice must not delete twice: a second deletion would replace the receipt of the first.
    if (!(await exists(c, email))) return receiptOr404(c, email);
    if (typed.trim().toLowerCase() !== email) {
      const view = (
        <DeleteView base={workspacePath(c)} email={email} typed={typed} error={`Type ${email} to confirm.`} />
      );
      return page(c, { title: "Delete person", section: "people", status: 422 }, view);
    }
    await deletePerson(contextOf(c), email);
    return c.redirect(receiptPath(c, email), 303);
  })
  .get("/:email/deletion", async (c) => {
    const email = emailOf(c);
    const [receipt, isBack] = await Promise.all([storeOf(c).deletion(email), exists(c, email)]);
    return receipt === null ? notBegunOr404(c, { email }) : receiptPage(c, { email, receipt, isBack });
  });

function storeOf(c: Ctx) {
  return signalStore(c.env, c.get("workspace").id);
}

async function exists(c: Ctx, email: string): Promise<boolean> {
  return (await storeOf(c).people({ email }, { cursor: null, limit: 1 })).items.length > 0;
}

function receiptPath(c: Ctx, email: string): string {
  return `${personPath(workspacePath(c), email)}/deletion`;
}

async function receiptOr404(c: Ctx, email: string): Promise<Response> {
  return (await storeOf(c).deletion(email)) === null
    ? notFoundPage(c, "person")
    : c.redirect(receiptPath(c, email), 303);
}

function receiptPage(c: Ctx, receipt: Omit<ReceiptProps, "base" | "nowMs">): Promise<Response> {
  const view = <ReceiptView {...receipt} base={workspacePath(c)} nowMs={Date.now()} />;
  return page(c, { title: "Deletion receipt", section: "people" }, view);
}

/** A deletion that D1 knows and the store does not: it was interrupted before it began. */
async function notBegunOr404(c: Ctx, deletion: { id: string } | { email: string }): Promise<Response> {
  const nowMs = Date.now();
  const askedMs = await deletionAskedMs(c.get("db"), c.get("workspace").id, deletion, nowMs);
  if (askedMs === null) return notFoundPage(c, "deletion");
  const email = "email" in deletion ? deletion.email : null;
  return page(
    c,
    { title: "Deletion receipt", section: "people" },
    <NotBegunView base={workspacePath(c)} email={email} askedMs={askedMs} nowMs={nowMs} />,
  );
}

function DeleteView({
  base,
  email,
  typed = "",
  error,
}: {
  base: string;
  email: string;
  typed?: string;
  error?: string;
}) {
  const path = personPath(base, email);
  return (
    <>
      <PageHead title="Delete person" crumbs={crumbs(base, email)}>
        Use it for deletion requests and test data. This cannot be undone.
      </PageHead>
      <Panel>
        <FormErrors title="The person was not deleted" errors={error === undefined ? [] : [error]} />
        <p>
          <strong>Deleted:</strong> {email} with {traitsInWords(TRAIT_NAMES, "and", "score")}; their ids; all their
          signals with payloads, including held signals, dead letters and copies in cold storage; their scoring signals;
          anonymous signals of their ids.
        </p>
        <p>
          <strong>Kept:</strong> of each signal its id, its event name and its place in usage and ledger, with nothing
          that names the person. Account data is not searched. A new signal with this email creates a new person.
        </p>
        <form method="post" action={`${path}/delete`} class="form" data-once>
          <TextField
            name="email"
            label="Type the email to confirm"
            hint={email}
            value={typed}
            error={error}
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            autofocus
            required
          />
          <FormEnd submit="Delete person" tone="danger" cancel={path} />
        </form>
      </Panel>
    </>
  );
}

interface ReceiptProps {
  base: string;
  /** The deleted person's email; null: unknown, because the receipt was found by its id. */
  email: string | null;
  receipt: DeletionReceipt;
  /** Whether a new person has this email. */
  isBack: boolean;
  nowMs: number;
}

function ReceiptView({ base, email, receipt, isBack, nowMs }: ReceiptProps) {
  const { requestedAtMs, finishedAtMs } = receipt;
  return (
    <>
      <PageHead
        title="Deletion receipt"
        crumbs={crumbs(base, isBack ? email : null)}
        actions={
          <a class="button" href={`${base}/people/deletions/${receipt.id}/download`}>
            Download receipt
          </a>
        }
      >
        {email ?? receipt.id}
      </PageHead>
      <div id="receipt" class="stack" {...(finishedAtMs === null ? { "data-refresh": "3000" } : {})}>
        {finishedAtMs === null ? (
          <Notice tone="warn" title="Deletion in progress">
            <p>The person and their ids are deleted. The rest follows, and the counts grow.</p>
          </Notice>
        ) : (
          <Notice tone="good" title="Deletion complete" />
        )}
        <Panel>
          <FactList>
            <Fact name="Status">
              {finishedAtMs === null ? <Badge tone="warn">In progress</Badge> : <Badge tone="good">Complete</Badge>}
            </Fact>
            <Fact name="Receipt">
              <code>{receipt.id}</code>
            </Fact>
            <Fact name="Requested">
              <Time ms={requestedAtMs} nowMs={nowMs} />
            </Fact>
            {finishedAtMs !== null && (
              <Fact name="Finished">
                <Time ms={finishedAtMs} nowMs={nowMs} />
              </Fact>
            )}
            {COUNTS.map(([field, name]) => (
              <Fact name={name}>{grouped(receipt[field])}</Fact>
            ))}
          </FactList>
        </Panel>
      </div>
      <p class="quiet small">
        This receipt is kept for {DELETION_REMEMBERED_DAYS} days. Find it by searching People for the email. The entry
        under <a href={`${base}/settings/activity?action=person.deleted`}>Activity</a> stays, without the email.
        {isBack && " New signals have named this email since, and created a new person."}
      </p>
    </>
  );
}

function NotBegunView({
  base,
  email,
  askedMs,
  nowMs,
}: Pick<ReceiptProps, "base" | "email" | "nowMs"> & { askedMs: number }) {
  return (
    <>
      <PageHead title="Deletion receipt" crumbs={crumbs(base, email)} />
      <Notice tone="bad" title="The deletion did not begin">
        <p>
          It was requested <Time ms={askedMs} nowMs={nowMs} /> and interrupted before anything was deleted.{" "}
          {email === null ? (
            <>
              <a href={`${base}/people`}>Find the person</a> and delete them again.
            </>
          ) : (
            <a href={`${personPath(base, email)}/delete`}>Delete the person again</a>
          )}
        </p>
      </Notice>
    </>
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

function crumbs(base: string, email: string | null) {
  const people = <a href={`${base}/people`}>People</a>;
  return email === null ? [people] : [people, <a href={personPath(base, email)}>{email}</a>];
}
