/** The deletion of a person: what it takes away, and the receipt for it. */
import { TRAIT_NAMES, traitsInWords } from "../../domain/signal/traits.ts";
import { DELETION_REMEMBERED_DAYS } from "../../limits.ts";
import type { DeletionReceipt } from "../../store/protocol/store-operations.ts";
import { FormErrors, TextField } from "../kit/forms.tsx";
import { grouped } from "../kit/format.ts";
import { Badge, Fact, FactList, PageHead, Notice, Panel, Time } from "../views/parts.tsx";
import { personPath } from "./people-view.tsx";

export function DeletePersonView({
  base,
  email,
  typed,
  error,
}: {
  base: string;
  email: string;
  typed: string;
  error?: string;
}) {
  const path = personPath(base, email);
  return (
    <>
      <PageHead title="Delete this person" crumbs={<Crumbs base={base} email={email} />}>
        For a request to be forgotten, or for test data. It cannot be undone.
      </PageHead>
      <Panel>
        <FormErrors errors={error === undefined ? [] : [error]} />
        <div class="stack">
          <p>
            <strong>What is deleted:</strong> {email} with {traitsInWords(TRAIT_NAMES, "and", "score")}; their
            identities; all their signals with payloads, held ones and dead letters too, and copies in cold storage;
            their scoring signals; what their ids have sent anonymously.
          </p>
          <p>
            <strong>What stays:</strong> of each signal its id, the name of its event, and its place in the usage and
            the books, with nothing in it that says whose it was. Account data is not searched. What is received from
            now on makes a new person.
          </p>
        </div>
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
          <div class="row">
            <button class="danger">Delete for good</button>
            <a class="button" href={path}>
              Keep
            </a>
          </div>
        </form>
      </Panel>
    </>
  );
}

export function ReceiptView({
  base,
  email,
  receipt,
  isBack,
  nowMs,
}: {
  base: string;
  /** The deleted person's email; null: not known, because the receipt was found by its id. */
  email: string | null;
  receipt: DeletionReceipt;
  /** Whether there is a person of this email again. */
  isBack: boolean;
  nowMs: number;
}) {
  const { requestedAtMs, finishedAtMs } = receipt;
  return (
    <>
      <PageHead
        title="Deletion receipt"
        crumbs={<Crumbs base={base} email={isBack ? email : null} />}
        actions={
          <a class="button" href={`${base}/people/deletions/${receipt.id}/download`}>
            Download
          </a>
        }
      >
        {email ?? receipt.id}
      </PageHead>
      <div id="receipt" class="stack" {...(finishedAtMs === null ? { "data-refresh": "3000" } : {})}>
        {finishedAtMs === null ? (
          <Notice tone="warn" title="The deletion is under way.">
            <p>The person and what they are known by are gone already. The rest follows by itself; the counts grow.</p>
          </Notice>
        ) : (
          <Notice tone="good" title="The deletion is complete." />
        )}
        <Panel>
          <FactList>
            <Fact name="Status">
              {finishedAtMs === null ? <Badge tone="warn">Under way</Badge> : <Badge tone="good">Complete</Badge>}
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
        The receipt can be found for {DELETION_REMEMBERED_DAYS} days, from Activity or by searching People for the
        email; the entry under <a href={`${base}/settings/activity?action=person.deleted`}>Activity</a> stays, without
        the email.
        {isBack && " Since the deletion, signals have named this email again, and made a new person."}
      </p>
    </>
  );
}

/** A deletion that was asked for and did not reach the store. */
export function NotBegunView({
  base,
  email,
  askedMs,
  nowMs,
}: {
  base: string;
  /** Null: not known, because the deletion was found by its receipt. */
  email: string | null;
  askedMs: number;
  nowMs: number;
}) {
  return (
    <>
      <PageHead title="Deletion receipt" crumbs={<Crumbs base={base} email={email} />} />
      <Notice tone="bad" title="The deletion did not begin.">
        <p>
          It was requested <Time ms={askedMs} nowMs={nowMs} /> and interrupted before anything was deleted.{" "}
          {email === null ? (
            <>
              <a href={`${base}/people`}>Find the person</a> by their email, and delete them again.
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
  ["identities", "Identities"],
  ["signals", "Signals"],
  ["anonymous", "Anonymous signals"],
  ["held", "Held signals"],
  ["deadLetters", "Dead letters"],
  ["scoringSignals", "Scoring signals"],
  ["coldObjects", "Objects of cold storage"],
] as const satisfies readonly (readonly [keyof DeletionReceipt, string])[];

function Crumbs({ base, email }: { base: string; email: string | null }) {
  return (
    <>
      <a href={`${base}/people`}>People</a>
      {email !== null && (
        <>
          {" › "}
          <a href={personPath(base, email)}>{email}</a>
        </>
      )}
    </>
  );
}
