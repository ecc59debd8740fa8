/** A delivery: its body, and each attempt with its answer. */
import type { AttemptResult } from "../../domain/events/attempts.ts";
import { EVENT_CATALOGUE } from "../../domain/events/workspace-event.ts";
import type { Delivery } from "../../notifications/destination-calls.ts";
import { deliverAgain, findDelivery } from "../../workspace/manage-destinations.ts";
import { PostButton } from "../kit/actions.tsx";
import { grouped, indented } from "../kit/format.ts";
import { sectionPath } from "../kit/layout.tsx";
import { Badge, Clamped, Facts, Json, Notice, Panel, Table, Time } from "../kit/parts.tsx";
import { notFoundPage, page } from "../page.tsx";
import { type Ctx, pages } from "../pages-env.ts";
import { DeliveryStatus, destinationsCall, isInProgress, problemText } from "./notification-parts.tsx";

/** Longest wait for the first answer, so that the page shows it without a script. */
const FIRST_ANSWER_MS = 3_000;
const POLL_MS = 100;

export const deliveryPages = pages
  .createApp()
  .get("/:id/deliveries/:delivery_id", (c) => deliveryPage(c))
  .post("/:id/deliveries/:delivery_id/again", async (c) => {
    const before = await find(c);
    if (before === null) return notFoundPage(c, "delivery");
    const { id, destinationId, attempts } = before.delivery;
    const again = await deliverAgain(destinationsCall(c), destinationId, id);
    return again.ok ? toDelivery(c, again.value, attempts.length) : deliveryPage(c, problemText(again.refusal));
  });

function find(c: Ctx) {
  const { id = "", delivery_id: deliveryId = "" } = c.req.param() as Record<string, string>;
  return findDelivery(c.env, c.get("workspace").id, id, deliveryId);
}

/** Redirects to the delivery's page, after the next attempt if that is soon. */
export async function toDelivery(c: Ctx, { id, destinationId }: Delivery, attemptsBefore: number) {
  const untilMs = Date.now() + FIRST_ANSWER_MS;
  const hasEnded = async () => {
    const detail = await findDelivery(c.env, c.get("workspace").id, destinationId, id);
    return detail === null || detail.delivery.state !== "waiting" || detail.delivery.attempts.length > attemptsBefore;
  };
  // oxlint-disable-next-line no-await-in-loop -- each look waits for the previous one
  while (Date.now() < untilMs && !(await hasEnded())) await scheduler.wait(POLL_MS);
  return c.redirect(`${sectionPath(c, "notifications")}/${destinationId}/deliveries/${id}`, 303);
}

/** @param refused why the delivery was not repeated. */
async function deliveryPage(c: Ctx, refused?: string) {
  const found = await find(c);
  if (found === null) return notFoundPage(c, "delivery");
  const { delivery, destination, body } = found;
  const { id, type, state, eventId, createdAtMs, attempts } = delivery;
  const destinationPath = `${sectionPath(c, "notifications")}/${destination.id}`;
  const inProgress = isInProgress(delivery, destination);
  const isWebhook = destination.type === "webhook";
  const again = (
    <PostButton
      action={`${destinationPath}/deliveries/${id}/again`}
      look={state === "failed" ? "primary" : ""}
      text="Deliver again"
    />
  );
  return page(
    c,
    {
      section: "notifications",
      title: "Delivery",
      heading: EVENT_CATALOGUE[type].label,
      crumbs: [[destination.name, destinationPath]],
      actions: body !== null && again,
      status: refused === undefined ? 200 : 409,
    },
    <>
      {refused !== undefined && <Notice tone="bad" title="Nothing was sent" text={refused} />}
      <div id="delivery" class="stack" {...(inProgress ? { "data-refresh": "1000" } : {})}>
        <Outcome delivery={delivery} inProgress={inProgress} />
        <Panel title="Details">
          <Facts
            of={[
              ["Status", <DeliveryStatus delivery={delivery} destination={destination} />],
              ["Event", <code>{type}</code>],
              [isWebhook ? "webhook-id" : "Event id", <code>{eventId}</code>],
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
      </div>
      <Panel title="Body">
        {body === null ? (
          <p class="quiet">Deleted together with the person.</p>
        ) : (
          <Json value={indented(body)} label="Body" />
        )}
      </Panel>
    </>,
  );
}

/** The result of the last attempt, for a person who has just sent a test. */
function Outcome({ delivery: { type, state, attempts }, inProgress }: { delivery: Delivery; inProgress: boolean }) {
  const name = type === "destination.test" ? "Test" : "Event";
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
