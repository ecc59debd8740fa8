/** A destination: its status, events and latest deliveries, and the actions on it. */
import type { Context } from "hono";
import type { Destination } from "../../domain/events/destination.ts";
import { EVENT_CATALOGUE } from "../../domain/events/workspace-event.ts";
import { DELIVERIES_KEPT, DELIVERY_KEPT_DAYS, PAGE_ROWS } from "../../limits.ts";
import type { Delivery, Redelivery } from "../../notifications/destination-calls.ts";
import type { PageOf } from "../../platform/list-page.ts";
import * as destinations from "../../workspace/manage-destinations.ts";
import { isOverlap, type Overlap } from "../../workspace/manage-keys.ts";
import { destinationsOf } from "../../workspace/objects.ts";
import type { Done, Tone } from "../copy.ts";
import { Confirm, Menu, PostButton } from "../kit/actions.tsx";
import { counted, grouped } from "../kit/format.ts";
import { SelectField } from "../kit/forms.tsx";
import { ListAddress } from "../kit/list-address.ts";
import { Badge, Empty, Fact, FactList, Notice, PageHead, Panel, Time } from "../kit/parts.tsx";
import { Pager, Table } from "../kit/table.tsx";
import { done, notFoundPage, page } from "../page.tsx";
import { formText, pages, type PagesEnv } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { toDelivery } from "./delivery.tsx";
import {
  DeliveryStatus,
  destinationsCall,
  HIDDEN_VALUE,
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
    const { ok } = await destinations.pauseDestination(destinationsCall(c), c.req.param("id"));
    return afterChange(c, ok, "destination_paused");
  })
  .post("/:id/resume", async (c) => {
    const { ok } = await destinations.resumeDestination(destinationsCall(c), c.req.param("id"));
    return afterChange(c, ok, "destination_resumed");
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

function afterChange(c: Context<PagesEnv>, isChanged: boolean, text: Done) {
  if (!isChanged) return notFoundPage(c, "destination");
  return done(c, `settings/notifications/${c.req.param("id")}`, text);
}

/** @param refused why the last action was not done. */
async function destinationPage(c: Context<PagesEnv>, destination: Destination, refused?: string, status?: 409 | 422) {
  const base = notificationsPath(c);
  const path = `${base}/${destination.id}`;
  const list = new ListAddress(path, c.req.query());
  const object = destinationsOf(c.env, c.get("workspace").id);
  const deliveries = await object.listDeliveries(destination.id, list.slice(PAGE_ROWS));
  if (deliveries === null) return notFoundPage(c, "destination");
  const [testFailed, failed] = await Promise.all([
    lastTestFailed(c, destination),
    object.failedSince(destination.id, 0),
  ]);
  const view = { base, path, destination, list, deliveries, testFailed, failed, refused, nowMs: Date.now() };
  return page(
    c,
    { title: destination.name, section: "notifications", status: status ?? (refused === undefined ? 200 : 409) },
    <DestinationView {...view} />,
  );
}

interface Props {
  /** Paths of the destinations, and of this one. */
  base: string;
  path: string;
  destination: Destination;
  list: ListAddress;
  deliveries: PageOf<Delivery>;
  testFailed: boolean;
  /** All failed deliveries. */
  failed: Redelivery | null;
  refused: string | undefined;
  nowMs: number;
}

/** Tones of a status that needs somebody: a notice says what to do. */
const NOTICED: readonly Tone[] = ["warn", "bad"];

function DestinationView(props: Props) {
  const { base, path, destination, testFailed, refused } = props;
  const { tone, label, text } = statusOf(destination, testFailed);
  return (
    <>
      <PageHead
        title={destination.name}
        crumbs={[<a href={base}>Notifications</a>]}
        actions={<DestinationActions path={path} destination={destination} />}
      />
      {refused !== undefined && (
        <Notice tone="bad" title="Nothing changed">
          <p>{refused}</p>
        </Notice>
      )}
      {NOTICED.includes(tone) && (
        <Notice tone={tone} title={label}>
          <p>{text}</p>
        </Notice>
      )}
      <Details {...props} />
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
  const { type, maskedTarget, events, createdAtMs, lastDeliveredAtMs, failingSinceMs, waiting, dropped } = destination;
  const { headerNames, oldSecretEndsAtMs } = destination;
  const { tone, label, text } = statusOf(destination, testFailed);
  return (
    <Panel title="Details">
      <FactList>
        <Fact name="Status">
          <Badge tone={tone}>{label}</Badge> <span class="quiet">{!NOTICED.includes(tone) && text}</span>
        </Fact>
        {failingSinceMs !== null && (
          <Fact name="Failing since">
            <Time ms={failingSinceMs} nowMs={nowMs} />
          </Fact>
        )}
        <Fact name="Type">{TYPE_TEXT[type].label}</Fact>
        <Fact name={TYPE_TEXT[type].target}>
          <code>{maskedTarget}</code>
        </Fact>
        {headerNames.length > 0 && (
          <Fact name="Headers">
            {headerNames.map((name, index) => (
              <>
                {index > 0 && ", "}
                <code>
                  {name}: {HIDDEN_VALUE}
                </code>
              </>
            ))}
          </Fact>
        )}
        <Fact name="Events">{events.map((event) => EVENT_CATALOGUE[event].label).join(", ")}</Fact>
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

function Deliveries({ path, destination, list, deliveries, failed, nowMs }: Props) {
  const { items, next } = deliveries;
  const refreshes = items.some((delivery) => isInProgress({ delivery, destination, nowMs }));
  return (
    <div id="deliveries" {...(refreshes ? { "data-refresh": "2000" } : {})}>
      <Panel
        title="Deliveries"
        actions={
          failed !== null &&
          failed.requeued > 0 && (
            <a class="button small" href={`${path}/again`}>
              Deliver {grouped(failed.requeued)} failed again
            </a>
          )
        }
        list
      >
        {items.length === 0 ? (
          <Empty title="No deliveries yet">
            <p>Send a test to check the connection.</p>
          </Empty>
        ) : (
          <>
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
