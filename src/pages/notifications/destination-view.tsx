/** Settings › Notifications: one destination: how it is, what it is told, and its latest deliveries. */
import type { Delivery } from "../../notifications/destination-calls.ts";
import type { Destination } from "../../domain/events/destination.ts";
import { exampleEvent } from "../../domain/events/workspace-event.ts";
import { requestBody } from "../../domain/events/request-body.ts";
import { DELIVERIES_KEPT, DELIVERY_KEPT_DAYS } from "../../limits.ts";
import type { PageOf } from "../../platform/list-page.ts";
import { destinationSaid, EVENT_COPY, TYPE_COPY } from "./notification-copy.ts";
import { DeliveryBadge, DestinationBadge, isUnderWay, VerifyPanel } from "./destination-parts.tsx";
import { counted, grouped } from "../kit/format.ts";
import { indented } from "../views/indented-json.ts";
import { Confirm } from "../views/confirm.tsx";
import { Empty, Fact, FactList, PageHead, Json, Notice, Panel, Time } from "../views/parts.tsx";
import { Pager, Table } from "../views/table.tsx";

interface DestinationPage {
  /** Path of the notifications, `/w/{slug}/settings/notifications`. */
  path: string;
  /** Absolute URL of the workspace's pages, for the links in what is written for people. */
  pagesUrl: string;
  workspaceId: string;
  destination: Destination;
  deliveries: PageOf<Delivery>;
  query: Record<string, string>;
  /** Why what was just asked for was not done. */
  refused: string | undefined;
  nowMs: number;
}

export function DestinationView(page: DestinationPage) {
  const { path, destination, refused } = page;
  const { tone, label, text } = destinationSaid(destination);
  return (
    <>
      <PageHead
        title={destination.name}
        crumbs={<a href={path}>Notifications</a>}
        actions={<DestinationActions path={path} destination={destination} />}
      />
      {refused !== undefined && (
        <Notice tone="bad" title="Nothing was done.">
          <p>{refused}</p>
        </Notice>
      )}
      {text !== null && (
        <Notice tone={tone} title={label}>
          <p>{text}</p>
        </Notice>
      )}
      <div class="columns wide">
        <Panel>
          <DestinationDetails page={page} />
        </Panel>
        <Told page={page} />
      </div>
      <DeliveriesPanel page={page} />
      {destination.type === "webhook" && <VerifyPanel />}
    </>
  );
}

function DestinationActions({ path, destination }: { path: string; destination: Destination }) {
  const { id, name, state, type } = destination;
  return (
    <>
      <form method="post" action={`${path}/${id}/test`} data-once>
        <button class="small primary">Send a test</button>
      </form>
      <form method="post" action={`${path}/${id}/${state === "active" ? "pause" : "resume"}`} data-once>
        <button class="small">{state === "active" ? "Pause" : "Resume"}</button>
      </form>
      <a class="button small" href={`${path}/${id}/change`}>
        Change
      </a>
      {type === "webhook" && (
        <a class="button small" href={`${path}/${id}/rotate`}>
          Rotate secret
        </a>
      )}
      <Confirm label="Delete" action={`${path}/${id}/delete`} submit="Delete the destination">
        <p>
          {name} is told nothing any more, and its deliveries go with it: those that wait are not sent. It cannot be
          undone.
        </p>
      </Confirm>
    </>
  );
}

function DestinationDetails({ page: { destination, nowMs } }: { page: DestinationPage }) {
  const { type, maskedTarget, createdAtMs, lastDeliveredAtMs, waiting, dropped, oldSecretEndsAtMs } = destination;
  return (
    <FactList>
      <Fact name="Kind">{TYPE_COPY[type].label}</Fact>
      <Fact name={TYPE_COPY[type].target}>
        <code>{maskedTarget}</code>
      </Fact>
      <Fact name="State">
        <DestinationBadge destination={destination} nowMs={nowMs} />
      </Fact>
      <Fact name="Created">
        <Time ms={createdAtMs} nowMs={nowMs} />
      </Fact>
      <Fact name="Last delivered">
        {lastDeliveredAtMs === null ? "Never" : <Time ms={lastDeliveredAtMs} nowMs={nowMs} />}
      </Fact>
      <Fact name="Waiting">{waiting === 0 ? "None" : counted(waiting, "delivery", "deliveries")}</Fact>
      {dropped > 0 && <Fact name="Given up">{counted(dropped, "event")}, because too many waited</Fact>}
      {oldSecretEndsAtMs !== null && (
        <Fact name="Secret">
          The old one signs too; it ends <Time ms={oldSecretEndsAtMs} nowMs={nowMs} />
        </Fact>
      )}
    </FactList>
  );
}

/** The events that a destination is told of, each with an example as it gets it. */
function Told({ page: { destination, workspaceId, pagesUrl } }: { page: DestinationPage }) {
  const { type, events } = destination;
  return (
    <Panel title="Told of">
      <ul class="told">
        {events.map((event) => (
          <li>
            <details>
              <summary>{EVENT_COPY[event].label}</summary>
              <Json
                value={indented(requestBody({ type, event: exampleEvent(event), pagesUrl }, workspaceId))}
                label={`Example of ${event}`}
              />
            </details>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function DeliveriesPanel({ page: { path, destination, deliveries, query, nowMs } }: { page: DestinationPage }) {
  const at = `${path}/${destination.id}`;
  const isAny = deliveries.items.some((delivery) => isUnderWay({ delivery, destination, nowMs }));
  return (
    <div id="deliveries" {...(isAny ? { "data-refresh": "2000" } : {})}>
      <Panel title="Deliveries" flush>
        {deliveries.items.length === 0 ? (
          <Empty title="Nothing was sent yet">
            <p>Send a test, and see here what came of it.</p>
          </Empty>
        ) : (
          <>
            <Table
              caption="Deliveries, the latest first"
              head={[
                "Event",
                "When",
                "State",
                { text: "Attempts", number: true },
                "Last answer",
                { text: "Took", number: true },
                { text: "Actions", hidden: true },
              ]}
            >
              {deliveries.items.map((delivery) => (
                <DeliveryLine at={at} delivery={delivery} destination={destination} nowMs={nowMs} />
              ))}
            </Table>
            <p class="quiet small panel-text">
              The latest {DELIVERIES_KEPT} of {DELIVERY_KEPT_DAYS} days are kept, and those that wait.
            </p>
          </>
        )}
        <Pager path={at} query={query} next={deliveries.next} />
      </Panel>
    </div>
  );
}

interface DeliveryLineOf {
  at: string;
  delivery: Delivery;
  destination: Destination;
  nowMs: number;
}

function DeliveryLine({ at, delivery, destination, nowMs }: DeliveryLineOf) {
  const { id, type, createdAtMs, attempts, state } = delivery;
  const last = attempts.at(-1);
  return (
    <tr>
      <th scope="row" class="what">
        <a href={`${at}/deliveries/${id}`}>{EVENT_COPY[type].label}</a>
      </th>
      <td>
        <Time ms={createdAtMs} nowMs={nowMs} />
      </td>
      <td>
        <DeliveryBadge delivery={delivery} destination={destination} nowMs={nowMs} />
      </td>
      <td class="number">{grouped(attempts.length)}</td>
      <td class="what">{last === undefined ? "" : (last.error ?? last.status ?? "Sent")}</td>
      <td class="number nowrap">{last === undefined ? "" : `${grouped(last.tookMs)} ms`}</td>
      <td>
        {state === "failed" && (
          <form method="post" action={`${at}/deliveries/${id}/again`} data-once>
            <button class="small" aria-label={`Deliver “${EVENT_COPY[type].label}” again`}>
              Deliver again
            </button>
          </form>
        )}
      </td>
    </tr>
  );
}
