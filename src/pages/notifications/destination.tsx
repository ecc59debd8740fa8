/** A destination: its status, events and latest deliveries, and the actions on it. */
import type { Context } from "hono";
import type { Child } from "hono/jsx";
import type { Destination } from "../../domain/events/destination.ts";
import { requestBody } from "../../domain/events/request-body.ts";
import { EVENT_CATALOGUE, exampleEvent } from "../../domain/events/workspace-event.ts";
import { DELIVERIES_KEPT, DELIVERY_KEPT_DAYS, PAGE_ROWS } from "../../limits.ts";
import type { Delivery } from "../../notifications/destination-calls.ts";
import type { PageOf } from "../../platform/list-page.ts";
import * as destinations from "../../workspace/manage-destinations.ts";
import { isOverlap, type Overlap } from "../../workspace/manage-keys.ts";
import { destinationsOf } from "../../workspace/objects.ts";
import { formText } from "../form-text.ts";
import { Confirm, Menu, PostButton } from "../kit/actions.tsx";
import { counted, grouped } from "../kit/format.ts";
import { SelectField } from "../kit/forms.tsx";
import { ListAddress } from "../kit/list-address.ts";
import { Badge, Empty, Fact, FactList, Json, Notice, PageHead, Panel, Time } from "../kit/parts.tsx";
import { Pager, Table } from "../kit/table.tsx";
import { done, notFoundPage, page } from "../page.tsx";
import { pages, type PagesEnv, workspacePath } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { indented } from "../views/indented-json.ts";
import { toDelivery } from "./delivery.tsx";
import {
  DeliveryStatus,
  destinationsCall,
  isInProgress,
  lastTestFailed,
  notificationsPath,
  problemText,
  statusOf,
  TYPE_TEXT,
  withDestination,
} from "./notification-parts.tsx";
import { secretPage, VerifyPanel } from "./secret.tsx";

const OVERLAPS = {
  "24h": "In 24 hours",
  none: "Now",
  "1h": "In 1 hour",
  "7d": "In 7 days",
} as const satisfies Record<Overlap, string>;

export const destinationPages = pages
  .createApp()
  .get(
    "/:id",
    withDestination((c, destination) => destinationPage(c, destination)),
  )
  .post(
    "/:id/rotate",
    readForm(),
    withDestination(async (c, destination) => {
      const overlap = formText(c.get("form"), "overlap");
      if (!isOverlap(overlap)) return destinationPage(c, destination, "Choose when the old secret ends.", 422);
      const rotated = await destinations.rotateSecret(destinationsCall(c), destination.id, overlap);
      return rotated.ok
        ? secretPage(c, rotated.value, "rotated")
        : destinationPage(c, destination, problemText(rotated.refusal));
    }),
  )
  .post("/:id/pause", async (c) => {
    const { id } = c.req.param();
    const paused = await destinations.pauseDestination(destinationsCall(c), id);
    return paused.ok ? done(c, `settings/notifications/${id}`, "destination_paused") : notFoundPage(c, "destination");
  })
  .post("/:id/resume", async (c) => {
    const { id } = c.req.param();
    const resumed = await destinations.resumeDestination(destinationsCall(c), id);
    return resumed.ok ? done(c, `settings/notifications/${id}`, "destination_resumed") : notFoundPage(c, "destination");
  })
  .post("/:id/delete", async (c) => {
    const isDeleted = await destinations.deleteDestination(destinationsCall(c), c.req.param("id"));
    return isDeleted ? done(c, "settings/notifications", "destination_deleted") : notFoundPage(c, "destination");
  })
  .post(
    "/:id/test",
    withDestination(async (c, destination) => {
      const sent = await destinations.sendTest(destinationsCall(c), destination.id);
      return sent.ok ? toDelivery(c, sent.value, 0) : destinationPage(c, destination, problemText(sent.refusal));
    }),
  );

/** @param refused why the last action was not done. */
async function destinationPage(c: Context<PagesEnv>, destination: Destination, refused?: string, status?: 409 | 422) {
  const path = `${notificationsPath(c)}/${destination.id}`;
  const list = new ListAddress(path, c.req.query());
  const { id } = c.get("workspace");
  const deliveries = await destinationsOf(c.env, id).listDeliveries(destination.id, list.slice(PAGE_ROWS));
  if (deliveries === null) return notFoundPage(c, "destination");
  const testFailed = await lastTestFailed(c, destination);
  const example = { workspaceId: id, pagesUrl: `${new URL(c.req.url).origin}${workspacePath(c)}` };
  const view = { path, destination, list, deliveries, testFailed, refused, example, nowMs: Date.now() };
  return page(
    c,
    { title: destination.name, section: "notifications", status: status ?? (refused === undefined ? 200 : 409) },
    <DestinationView {...view} crumbs={[<a href={notificationsPath(c)}>Notifications</a>]} />,
  );
}

interface Props {
  path: string;
  crumbs: readonly Child[];
  destination: Destination;
  list: ListAddress;
  deliveries: PageOf<Delivery>;
  testFailed: boolean;
  refused: string | undefined;
  /** What the examples of events need. */
  example: { workspaceId: string; pagesUrl: string };
  nowMs: number;
}

function DestinationView(props: Props) {
  const { path, crumbs, destination, testFailed, refused } = props;
  const { tone, label, text } = statusOf(destination, testFailed);
  return (
    <>
      <PageHead
        title={destination.name}
        crumbs={crumbs}
        actions={<DestinationActions path={path} destination={destination} />}
      />
      {refused !== undefined && (
        <Notice tone="bad" title="Nothing changed">
          <p>{refused}</p>
        </Notice>
      )}
      {text !== null && (tone === "bad" || tone === "warn") && (
        <Notice tone={tone} title={label}>
          <p>{text}</p>
        </Notice>
      )}
      <div class="columns">
        <Details {...props} />
        <Events {...props} />
      </div>
      <Deliveries {...props} />
      {destination.type === "webhook" && <VerifyPanel />}
    </>
  );
}

function DestinationActions({ path, destination }: { path: string; destination: Destination }) {
  const { name, state, type } = destination;
  const isActive = state === "active";
  return (
    <>
      {!isActive && (
        <PostButton action={`${path}/resume`} look="primary">
          Resume
        </PostButton>
      )}
      <PostButton action={`${path}/test`} look={isActive ? "primary" : ""}>
        Send test
      </PostButton>
      <Menu label={`Actions for destination ${name}`}>
        <a href={`${path}/change`}>Edit</a>
        {isActive && <PostButton action={`${path}/pause`}>Pause</PostButton>}
        {type === "webhook" && (
          <Confirm
            label="Rotate secret"
            title={`Rotate the secret of ${name}?`}
            action={`${path}/rotate`}
            submit="Rotate secret"
            tone="primary"
            look=""
          >
            <p>The new secret is shown once. Until the old one ends, deliveries are signed with both.</p>
            <SelectField name="overlap" label="Old secret ends" value="24h" options={Object.entries(OVERLAPS)} />
          </Confirm>
        )}
        <Confirm
          label="Delete"
          title={`Delete ${name}?`}
          action={`${path}/delete`}
          submit="Delete destination"
          look="danger"
        >
          <p>Its deliveries are deleted, and waiting ones are not sent. This cannot be undone.</p>
        </Confirm>
      </Menu>
    </>
  );
}

function Details({ destination, testFailed, nowMs }: Props) {
  const { type, maskedTarget, createdAtMs, lastDeliveredAtMs, failingSinceMs, waiting, dropped } = destination;
  const { tone, label, text } = statusOf(destination, testFailed);
  const { oldSecretEndsAtMs } = destination;
  return (
    <Panel title="Details">
      <FactList>
        <Fact name="Status">
          <Badge tone={tone}>{label}</Badge>{" "}
          <span class="quiet">
            {label === "Failing" && failingSinceMs !== null ? (
              <>
                began <Time ms={failingSinceMs} nowMs={nowMs} />
              </>
            ) : (
              tone !== "bad" && text
            )}
          </span>
        </Fact>
        <Fact name="Type">{TYPE_TEXT[type].label}</Fact>
        <Fact name={TYPE_TEXT[type].target}>
          <code>{maskedTarget}</code>
        </Fact>
        <Fact name="Created">
          <Time ms={createdAtMs} nowMs={nowMs} />
        </Fact>
        <Fact name="Last delivered">
          {lastDeliveredAtMs === null ? "Never" : <Time ms={lastDeliveredAtMs} nowMs={nowMs} />}
        </Fact>
        <Fact name="Waiting">{counted(waiting, "delivery", "deliveries")}</Fact>
        {dropped > 0 && <Fact name="Dropped">{counted(dropped, "event")}: too many were waiting</Fact>}
        {oldSecretEndsAtMs !== null && (
          <Fact name="Old secret">
            Also signs, ends <Time ms={oldSecretEndsAtMs} nowMs={nowMs} />
          </Fact>
        )}
      </FactList>
    </Panel>
  );
}

function Events({ destination: { type, events }, example: { workspaceId, pagesUrl } }: Props) {
  return (
    <Panel title="Events">
      <ul class="plain">
        {events.map((event) => (
          <li>
            <details>
              <summary>{EVENT_CATALOGUE[event].label}</summary>
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

function Deliveries({ path, destination, list, deliveries, nowMs }: Props) {
  const { items, next } = deliveries;
  const refreshes = items.some((delivery) => isInProgress({ delivery, destination, nowMs }));
  return (
    <div id="deliveries" {...(refreshes ? { "data-refresh": "2000" } : {})}>
      <Panel title="Deliveries" list>
        {items.length === 0 ? (
          <Empty title="No deliveries yet">
            <p>Send a test to check the connection.</p>
          </Empty>
        ) : (
          <>
            <DeliveriesTable path={path} destination={destination} items={items} nowMs={nowMs} />
            <p class="quiet small">
              The latest {DELIVERIES_KEPT} deliveries of {DELIVERY_KEPT_DAYS} days are kept.
            </p>
          </>
        )}
        <Pager list={list} next={next} />
      </Panel>
    </div>
  );
}

function DeliveriesTable({
  path,
  destination,
  items,
  nowMs,
}: Pick<Props, "path" | "destination" | "nowMs"> & { items: readonly Delivery[] }) {
  return (
    <Table
      caption="Deliveries, latest first"
      rows={items}
      href={({ id }) => `${path}/deliveries/${id}`}
      columns={[
        { head: "Event", cell: ({ type }) => EVENT_CATALOGUE[type].label },
        { head: "Created", cell: ({ createdAtMs }) => <Time ms={createdAtMs} nowMs={nowMs} /> },
        {
          head: "Status",
          cell: (delivery) => <DeliveryStatus delivery={delivery} destination={destination} nowMs={nowMs} />,
        },
        { head: "Attempts", kind: "number", drop: "narrow", cell: ({ attempts }) => grouped(attempts.length) },
        {
          head: "Last answer",
          kind: "text",
          cell({ attempts }) {
            const last = attempts.at(-1);
            return last !== undefined && (last.error ?? last.status ?? "Sent");
          },
        },
        {
          head: "Actions",
          kind: "actions",
          cell: ({ id, type, state }) =>
            state === "failed" && (
              <PostButton
                action={`${path}/deliveries/${id}/again`}
                look="small"
                label={`Deliver ${EVENT_CATALOGUE[type].label} again`}
              >
                Deliver again
              </PostButton>
            ),
        },
      ]}
    />
  );
}
