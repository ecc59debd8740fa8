/** The page of a delivery, and "Deliver again": counts the deliveries that failed since a time, and sends them. */
import type { AttemptResult } from "../../domain/notifications/attempts.ts";
import { NOTIFICATION_CATALOGUE } from "../../domain/notifications/notification.ts";
import { time as timeSchema } from "../../http/fields.ts";
import { DELIVERIES_KEPT } from "../../limits.ts";
import type { Delivery, ResentDeliveries } from "../../notifications/destination-calls.ts";
import { deliverAgain, findDelivery, resendDeliveries } from "../../use-cases/manage-destinations.ts";
import { destinationsOf } from "../../use-cases/objects.ts";
import { Choices, Form, PostButton, TextField } from "../kit/forms.tsx";
import { counted, exactTime, grouped, indented } from "../kit/format.ts";
import { Badge, Clamped, Empty, ValueList, Json, Notice, Panel, Table, Time } from "../kit/parts.tsx";
import { notFoundPage, page } from "../page.tsx";
import { type Ctx, formText, pages, workspacePath, destinationPath, done } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import {
  DeliveryStatus,
  destinationsCall,
  isInProgress,
  problemText,
  requireDestination,
} from "./notification-parts.tsx";

/** Longest wait for an attempt before the redirect, so that the page shows its result without a script. */
const FIRST_ANSWER_MS = 3_000;
const POLL_MS = 100;

export const deliveryPages = pages
  .createApp()
  .get("/:id/deliveries/:delivery_id", (c) => deliveryPage(c))
  .post("/:id/deliveries/:delivery_id/again", async (c) => {
    const before = await readDelivery(c);
    if (before === null) return notFoundPage(c, "delivery");
    const { id, destinationId, attempts } = before.delivery;
    const again = await deliverAgain(destinationsCall(c), destinationId, id);
    return again.ok
      ? redirectToDelivery(c, again.value, attempts.length)
      : deliveryPage(c, problemText(again.rejection));
  })
  .get("/:id/again", requireDestination, (c) => resendPage(c))
  .post("/:id/again", readForm(), requireDestination, async (c) => {
    const { id } = c.get("destination");
    const since = timeSchema.safeParse(formText(c.get("form"), "since"));
    if (!since.success) return resendPage(c, "Choose a time.");
    const repeated = await resendDeliveries(destinationsCall(c), id, Date.parse(since.data));
    if (!repeated.ok) return resendPage(c, problemText(repeated.rejection), 409);
    const isAny = repeated.value.resent > 0;
    return done(c, `settings/notifications/${id}`, isAny ? "delivered_again" : "nothing_delivered_again");
  });

function readDelivery(c: Ctx) {
  const { id = "", delivery_id: deliveryId = "" } = c.req.param() as Record<string, string>;
  return findDelivery(c.env, c.get("workspace").id, id, deliveryId);
}

export async function redirectToDelivery(c: Ctx, { id, destinationId }: Delivery, attemptsBefore: number) {
  const untilMs = Date.now() + FIRST_ANSWER_MS;
  const hasEnded = async () => {
    const detail = await findDelivery(c.env, c.get("workspace").id, destinationId, id);
    return detail === null || detail.delivery.state !== "waiting" || detail.delivery.attempts.length > attemptsBefore;
  };
  // oxlint-disable-next-line no-await-in-loop -- each look waits for the previous one
  while (Date.now() < untilMs && !(await hasEnded())) await scheduler.wait(POLL_MS);
  return c.redirect(`${destinationPath(workspacePath(c), destinationId)}/deliveries/${id}`, 303);
}

async function deliveryPage(c: Ctx, rejected?: string) {
  const found = await readDelivery(c);
  if (found === null) return notFoundPage(c, "delivery");
  const { delivery, destination, body } = found;
  const { id, type, state, notificationId, createdAtMs, attempts } = delivery;
  const path = destinationPath(workspacePath(c), destination.id);
  const inProgress = isInProgress(delivery, destination);
  const isWebhook = destination.type === "webhook";
  const again = (
    <PostButton
      action={`${path}/deliveries/${id}/again`}
      look={state === "failed" ? "primary" : ""}
      text="Deliver again"
    />
  );
  return page(
    c,
    {
      section: "notifications",
      title: "Delivery",
      heading: NOTIFICATION_CATALOGUE[type].label,
      crumbs: [[destination.name, path]],
      actions: body !== null && again,
      errors: [rejected],
      errorTitle: "Nothing was sent",
      errorStatus: 409,
    },
    <div id="delivery" class="stack" {...(inProgress ? { "data-refresh": "1000" } : {})}>
      <Outcome delivery={delivery} inProgress={inProgress} />
      <Panel title="Details">
        <ValueList
          of={[
            ["Status", <DeliveryStatus delivery={delivery} destination={destination} />],
            ["Notification", <code>{type}</code>],
            [isWebhook ? "webhook-id" : "Notification id", <code>{notificationId}</code>],
            ["Sent to", <code>{destination.maskedTarget}</code>],
            ["Created", <Time ms={createdAtMs} />],
          ]}
        />
        {isWebhook && (
          <p class="quiet small">
            Each attempt has the same <code>webhook-id</code>, so that the receiver can drop duplicates.
          </p>
        )}
      </Panel>
      {attempts.length > 0 && <Attempts attempts={attempts} />}
    </div>,
    <Panel title="Body">
      {body === null ? (
        <p class="quiet">Deleted together with the person.</p>
      ) : (
        <Json value={indented(body)} label="Body" />
      )}
    </Panel>,
  );
}

function Outcome({ delivery: { type, state, attempts }, inProgress }: { delivery: Delivery; inProgress: boolean }) {
  const name = type === "destination.test" ? "Test" : "Notification";
  const last = attempts.at(-1);
  if (last === undefined) {
    return (
      <Notice title={`${name} ${inProgress ? "in progress" : "not sent yet"}`}>
        {inProgress && <p class="no-script">Reload the page to see the result.</p>}
      </Notice>
    );
  }
  const { status, error, tookMs } = last;
  if (error === null) {
    const accepted = status === null ? "accepted" : `accepted with ${status}`;
    return <Notice tone="good" title={`${name} delivered: ${accepted} in ${grouped(tookMs)} ms`} />;
  }
  return <Notice tone="bad" title={state === "failed" ? `${name} failed` : "Last attempt failed"} text={error} />;
}

function Attempts({ attempts }: { attempts: readonly AttemptResult[] }) {
  return (
    <Panel title="Attempts" list>
      <Table
        caption="Attempts, latest first"
        rows={attempts.toReversed()}
        columns={[
          { head: "Time", cell: ({ atMs }) => <Time ms={atMs} /> },
          {
            head: "Status",
            cell: ({ status, error }) => (
              <Badge tone={error === null ? "good" : "bad"}>{status ?? (error === null ? "Sent" : "None")}</Badge>
            ),
          },
          { head: "Took", kind: "number", cell: ({ tookMs }) => `${grouped(tookMs)} ms` },
          {
            head: "Answer",
            kind: "text",
            cell: ({ error, answer }) => (
              <>
                {error}
                {answer !== null && (
                  <Clamped>
                    <code>{answer}</code>
                  </Clamped>
                )}
              </>
            ),
          },
        ]}
      />
    </Panel>
  );
}

const PRESETS = [
  { label: "Last hour", hours: 1 },
  { label: "Last 24 hours", hours: 24 },
  { label: "Last 7 days", hours: 7 * 24 },
  { label: "Last 30 days", hours: 30 * 24 },
] as const;
const USUAL_HOURS = 24;

async function resendPage(c: Ctx, rejected?: string, errorStatus: 409 | 422 = 422) {
  const destination = c.get("destination");
  const path = destinationPath(workspacePath(c), destination.id);
  const typed = c.req.query("since") ?? "";
  const { data: typedTime } = timeSchema.safeParse(`${typed}:00Z`);
  const error = typed !== "" && typedTime === undefined ? "Enter a date and a time." : undefined;
  const isActive = destination.state === "active";
  return page(
    c,
    {
      section: "notifications",
      title: "Deliver again",
      crumbs: [[destination.name, path]],
      intro:
        "Sends failed deliveries again, oldest first. Each keeps its id, so that the receiver can drop duplicates.",
      actions: !isActive && <PostButton action={`${path}/resume`} look="primary" text="Resume" />,
      errors: [rejected],
      fieldErrors: error === undefined ? {} : { since: error },
      errorTitle: "Nothing was sent",
      errorStatus,
    },
    isActive ? (
      <FailedDeliveries
        path={path}
        choices={await readChoices(c, destination.id, typedTime)}
        typed={typed}
        error={error}
      />
    ) : (
      rejected === undefined && (
        <Notice tone="warn" title="Nothing can be sent now" text={problemText("destination_not_active")} />
      )
    ),
  );
}

interface ResendChoice {
  label: string;
  since: string;
  failed: ResentDeliveries;
  isChosen: boolean;
}

/** @param typedTime in ISO 8601. */
async function readChoices(c: Ctx, destinationId: string, typedTime: string | undefined): Promise<ResendChoice[]> {
  const nowMs = Date.now();
  const presets = PRESETS.map(({ label, hours }) => {
    const since = new Date(nowMs - hours * 3_600_000).toISOString();
    return { label, since, isChosen: hours === USUAL_HOURS && typedTime === undefined };
  });
  const typed =
    typedTime === undefined
      ? []
      : [{ label: `Since ${exactTime(Date.parse(typedTime))}`, since: typedTime, isChosen: true }];
  const object = destinationsOf(c.env, c.get("workspace").id);
  const choices = [...presets, ...typed].map(async (choice) => {
    const failed = await object.failedSince(destinationId, Date.parse(choice.since));
    return failed === null ? [] : [{ ...choice, failed }];
  });
  return (await Promise.all(choices)).flat();
}

interface FailedDeliveriesProps {
  path: string;
  choices: readonly ResendChoice[];
  typed: string;
  error: string | undefined;
}

function FailedDeliveries({ path, choices, typed, error }: FailedDeliveriesProps) {
  if (choices.every(({ failed }) => failed.resent === 0)) {
    return <Empty title="No failed deliveries" text={choices.slice(-1).map(({ failed }) => notSentText(failed))} />;
  }
  return (
    <>
      <Panel>
        <Form action={`${path}/again`} submit="Deliver again" cancel={path}>
          <Choices
            legend="Failed deliveries"
            name="since"
            options={choices.map(({ label, since, failed }) => ({ label, value: since, hint: numbersText(failed) }))}
            value={choices.find(({ isChosen }) => isChosen)?.since ?? ""}
          />
        </Form>
      </Panel>
      <Panel title="Another time">
        <form method="get" action={`${path}/again`} class="form">
          <TextField
            name="since"
            label="Failed since"
            hint={
              <>
                Time zone: <span data-zone-of="since">UTC</span>
              </>
            }
            type="datetime-local"
            data-local-time
            value={typed}
            error={error}
          />
          <div class="row">
            <button>Count</button>
          </div>
        </form>
      </Panel>
    </>
  );
}

function numbersText(failed: ResentDeliveries): string {
  const [number, reasons] = [counted(failed.resent, "delivery", "deliveries"), notSentText(failed)];
  return reasons === "" ? number : `${number}. ${reasons}`;
}

function notSentText({ notResent: { personDeleted, tooManyWaiting, notKept } }: ResentDeliveries): string {
  const reasons = [
    personDeleted > 0 && `${grouped(personDeleted)} of deleted people`,
    tooManyWaiting > 0 && `${grouped(tooManyWaiting)} while too many wait`,
    notKept > 0 && `up to ${grouped(notKept)} no longer stored (only the latest ${DELIVERIES_KEPT} are)`,
  ].filter((reason) => reason !== false);
  return reasons.length === 0 ? "" : `Not sent again: ${reasons.join(", ")}.`;
}
