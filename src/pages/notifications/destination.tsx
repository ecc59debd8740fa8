/** A destination: its status, events and latest deliveries, and the actions on it. */
import type { Destination } from "../../domain/events/destination.ts";
import { EVENT_CATALOGUE } from "../../domain/events/workspace-event.ts";
import { DELIVERIES_KEPT, DELIVERY_KEPT_DAYS, PAGE_ROWS } from "../../limits.ts";
import type { Delivery } from "../../notifications/destination-calls.ts";
import type { PageOf } from "../../platform/list-page.ts";
import * as destinations from "../../workspace/manage-destinations.ts";
import { isOverlap, type Overlap } from "../../workspace/manage-keys.ts";
import { destinationsOf } from "../../workspace/objects.ts";
import type { Done, Tone } from "../copy.ts";
import { Confirm, LinkButton, Menu, PostButton, SelectField } from "../kit/forms.tsx";
import { counted, grouped } from "../kit/format.ts";
import { ListAddress, ListPanel } from "../kit/list.tsx";
import { Badge, Empty, Facts, Notice, Panel, Table, Time } from "../kit/parts.tsx";
import { done, notFoundPage, page } from "../page.tsx";
import { type Ctx, formText, pages, workspacePath } from "../pages-env.ts";
import { destinationPath } from "../paths.ts";
import { readForm } from "../read-form.tsx";
import { redirectToDelivery } from "./delivery.tsx";
import {
  DeliveryStatus,
  destinationsCall,
  HIDDEN_VALUE,
  isInProgress,
  type LastTest,
  problemText,
  readLastTest,
  requireDestination,
  statusOf,
  TYPE_TEXT,
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
  .get("/:id", requireDestination, (c) => destinationPage(c))
  .post("/:id/rotate", readForm(), requireDestination, async (c) => {
    const overlap = formText(c.get("form"), "overlap");
    if (!isOverlap(overlap)) return destinationPage(c, "Choose when the old secret ends.", 422);
    const rotated = await destinations.rotateSecret(destinationsCall(c), c.get("destination").id, overlap);
    if (!rotated.ok) return destinationPage(c, problemText(rotated.refusal));
    return secretPage(c, rotated.value, "Secret rotated");
  })
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
  .post("/:id/test", requireDestination, async (c) => {
    const sent = await destinations.sendTest(destinationsCall(c), c.get("destination").id);
    return sent.ok ? redirectToDelivery(c, sent.value, 0) : destinationPage(c, problemText(sent.refusal));
  });

function afterChange(c: Ctx, isChanged: boolean, message: Done) {
  if (!isChanged) return notFoundPage(c, "destination");
  return done(c, `settings/notifications/${c.req.param("id")}`, message);
}

/** A status with such a tone has a notice that says what to do. */
const NOTICED_TONES: readonly Tone[] = ["warn", "bad"];

async function destinationPage(c: Ctx, refused?: string, errorStatus: 409 | 422 = 409) {
  const destination = c.get("destination");
  const path = destinationPath(workspacePath(c), destination.id);
  const list = new ListAddress(path, c.req.query());
  const object = destinationsOf(c.env, c.get("workspace").id);
  const deliveries = await object.listDeliveries(destination.id, list.slice(PAGE_ROWS));
  if (deliveries === null) return notFoundPage(c, "destination");
  const [lastTest, failed] = await Promise.all([readLastTest(c, destination), object.failedSince(destination.id, 0)]);
  const { tone, label, text } = statusOf(destination, lastTest);
  return page(
    c,
    {
      section: "notifications",
      title: destination.name,
      crumbs: [],
      actions: <DestinationActions path={path} destination={destination} />,
      errors: [refused],
      errorTitle: "Nothing changed",
      errorStatus,
    },
    NOTICED_TONES.includes(tone) && <Notice tone={tone} title={label} text={text} />,
    <Details destination={destination} lastTest={lastTest} />,
    <Deliveries destination={destination} list={list} deliveries={deliveries} failed={failed?.requeued ?? 0} />,
    destination.type === "webhook" && <VerifyPanel />,
  );
}

function DestinationActions({ path, destination }: { path: string; destination: Destination }) {
  const { name, state, type } = destination;
  const isActive = state === "active";
  return (
    <>
      {!isActive && <PostButton action={`${path}/resume`} look="primary" text="Resume" />}
      <PostButton action={`${path}/test`} look={isActive ? "primary" : ""} text="Send test" />
      <Menu label={`Actions for destination ${name}`}>
        <a href={`${path}/change`}>Edit</a>
        {isActive && <PostButton action={`${path}/pause`} text="Pause" />}
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

function Details({ destination, lastTest }: { destination: Destination; lastTest: LastTest }) {
  const { type, maskedTarget, events, createdAtMs, lastDeliveredAtMs, failingSinceMs, waiting, dropped } = destination;
  const { headerNames, oldSecretEndsAtMs } = destination;
  const { tone, label, text } = statusOf(destination, lastTest);
  const status = (
    <>
      <Badge tone={tone}>{label}</Badge> <span class="quiet">{!NOTICED_TONES.includes(tone) && text}</span>
    </>
  );
  return (
    <Panel title="Details">
      <Facts
        of={[
          ["Status", status],
          failingSinceMs !== null && ["Failing since", <Time ms={failingSinceMs} />],
          ["Type", TYPE_TEXT[type].label],
          [TYPE_TEXT[type].target, <code>{maskedTarget}</code>],
          headerNames.length > 0 && ["Headers", <HeaderNames names={headerNames} />],
          ["Events", events.map((event) => EVENT_CATALOGUE[event].label).join(", ")],
          ["Created", <Time ms={createdAtMs} />],
          ["Last delivered", lastDeliveredAtMs === null ? "Never" : <Time ms={lastDeliveredAtMs} />],
          ["Waiting", counted(waiting, "delivery", "deliveries")],
          dropped > 0 && ["Dropped", `${counted(dropped, "event")}: too many were waiting`],
          oldSecretEndsAtMs !== null && ["Old secret", ["Also signs, ends ", <Time ms={oldSecretEndsAtMs} />]],
        ]}
      />
    </Panel>
  );
}

function HeaderNames({ names }: { names: readonly string[] }) {
  return (
    <>
      {names.map((name, index) => (
        <>
          {index > 0 && ", "}
          <code>
            {name}: {HIDDEN_VALUE}
          </code>
        </>
      ))}
    </>
  );
}

interface DeliveriesProps {
  destination: Destination;
  list: ListAddress;
  deliveries: PageOf<Delivery>;
  failed: number;
}

function Deliveries({ destination, list, deliveries, failed }: DeliveriesProps) {
  const refreshes = deliveries.items.some((delivery) => isInProgress(delivery, destination));
  const again = ({ id, type }: Delivery) => (
    <PostButton
      action={`${list.path}/deliveries/${id}/again`}
      look="small"
      label={`Deliver ${EVENT_CATALOGUE[type].label} again`}
      text="Deliver again"
    />
  );
  return (
    <div id="deliveries" {...(refreshes ? { "data-refresh": "2000" } : {})}>
      <ListPanel
        title="Deliveries"
        actions={
          failed > 0 && (
            <LinkButton href={`${list.path}/again`} text={`Deliver ${grouped(failed)} failed again`} look="small" />
          )
        }
        list={list}
        found={deliveries}
        empty={<Empty title="No deliveries yet" text="Send a test to check the connection." />}
      >
        <Table
          caption="Deliveries, latest first"
          rows={deliveries.items}
          href={({ id }) => `${list.path}/deliveries/${id}`}
          columns={[
            { head: "Event", cell: ({ type }) => EVENT_CATALOGUE[type].label },
            { head: "Created", cell: ({ createdAtMs }) => <Time ms={createdAtMs} /> },
            { head: "Status", cell: (delivery) => <DeliveryStatus delivery={delivery} destination={destination} /> },
            { head: "Attempts", kind: "number", drop: "narrow", cell: ({ attempts }) => grouped(attempts.length) },
            { head: "Last answer", kind: "text", cell: ({ attempts }) => lastAnswer(attempts) },
            { head: "Actions", kind: "actions", cell: (delivery) => delivery.state === "failed" && again(delivery) },
          ]}
        />
        <p class="quiet small">
          The latest {DELIVERIES_KEPT} deliveries of {DELIVERY_KEPT_DAYS} days are kept.
        </p>
      </ListPanel>
    </div>
  );
}

function lastAnswer(attempts: Delivery["attempts"]) {
  const last = attempts.at(-1);
  return last !== undefined && (last.error ?? last.status ?? "Sent");
}
