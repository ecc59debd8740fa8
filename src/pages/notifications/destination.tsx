/** A destination: its status, notifications and latest deliveries, and the actions on it. */
import type { Destination } from "../../domain/notifications/destination.ts";
import { NOTIFICATION_CATALOGUE } from "../../domain/notifications/notification.ts";
import { DELIVERIES_KEPT, DELIVERY_KEPT_DAYS, PAGE_ROWS } from "../../limits.ts";
import type { Delivery } from "../../notifications/destination-calls.ts";
import type { ListPage } from "../../platform/list-page.ts";
import * as destinations from "../../use-cases/manage-destinations.ts";
import { isOverlap, type Overlap } from "../../use-cases/manage-keys.ts";
import { destinationsOf } from "../../use-cases/objects.ts";
import type { Done, Tone } from "../copy.ts";
import { Confirm, LinkButton, Menu, PostButton, SelectField, TextField } from "../kit/forms.tsx";
import { counted, grouped } from "../kit/format.ts";
import { ListAddress, ListPanel } from "../kit/list.tsx";
import { Badge, Empty, EmailText, ValueList, Notice, Panel, Table, Time } from "../kit/parts.tsx";
import { notFoundPage, page } from "../page.tsx";
import { type Ctx, formText, pages, workspacePath, destinationPath, done } from "../pages-env.ts";
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

const ROTATED_BEFORE =
  "The secret was already rotated. The first answer showed the new one. If you did not copy it, rotate it again.";

export const destinationPages = pages
  .createApp()
  .get("/:id", requireDestination, (c) => destinationPage(c))
  .post("/:id/rotate", readForm(), requireDestination, async (c) => {
    const overlap = formText(c.get("form"), "overlap");
    if (!isOverlap(overlap)) return destinationPage(c, "Choose when the old secret ends.", 422);
    const secretId = formText(c.get("form"), "secret_id") || undefined;
    const rotated = await destinations.rotateSecret(destinationsCall(c), c.get("destination").id, overlap, secretId);
    if (!rotated.ok) return destinationPage(c, problemText(rotated.rejection));
    if (!rotated.value.isNew) return destinationPage(c, ROTATED_BEFORE);
    return secretPage(c, rotated.value, "Secret rotated");
  })
  .post("/:id/confirm", readForm(), requireDestination, async (c) => {
    const code = formText(c.get("form"), "code").trim();
    const confirmed = await destinations.confirmDestination(destinationsCall(c), c.get("destination").id, code);
    return confirmed.ok
      ? afterChange(c, true, "destination_confirmed")
      : destinationPage(c, problemText(confirmed.rejection), 422);
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
    return sent.ok ? redirectToDelivery(c, sent.value, 0) : destinationPage(c, problemText(sent.rejection));
  });

function afterChange(c: Ctx, isChanged: boolean, message: Done) {
  if (!isChanged) return notFoundPage(c, "destination");
  return done(c, `settings/notifications/${c.req.param("id")}`, message);
}

/** A status with such a tone has a notice that says what to do. */
const NOTICED_TONES: readonly Tone[] = ["warn", "bad"];

async function destinationPage(c: Ctx, rejected?: string, errorStatus: 409 | 422 = 409) {
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
      errors: [rejected],
      errorTitle: "Nothing was changed",
      errorStatus,
    },
    NOTICED_TONES.includes(tone) && <Notice tone={tone} title={label} text={text} />,
    !destination.confirmed && <ConfirmPanel path={path} />,
    <Details destination={destination} lastTest={lastTest} />,
    <Deliveries destination={destination} list={list} deliveries={deliveries} failed={failed?.resent ?? 0} />,
    destination.type === "webhook" && <VerifyPanel />,
  );
}

function ConfirmPanel({ path }: { path: string }) {
  return (
    <Panel title="Confirm the address">
      <form method="post" action={`${path}/confirm`} data-once>
        <TextField name="code" label="Code" hint="Eight digits, from the email. It works for 24 hours." value="" />
        <div class="row">
          <button class="primary">Confirm address</button>
        </div>
      </form>
    </Panel>
  );
}

function DestinationActions({ path, destination }: { path: string; destination: Destination }) {
  const { name, state, type, secretId, confirmed } = destination;
  const isActive = state === "active";
  return (
    <>
      {!isActive && <PostButton action={`${path}/resume`} look="primary" text="Resume" />}
      <PostButton
        action={`${path}/test`}
        look={isActive && confirmed ? "primary" : ""}
        text={confirmed ? "Send test" : "Send new code"}
      />
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
            fields={{ secret_id: secretId ?? "" }}
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
  const { type, maskedTarget, notifications, createdAtMs, lastDeliveredAtMs, failingSinceMs, waiting, dropped } =
    destination;
  const { headerNames, oldSecretEndsAtMs } = destination;
  const { tone, label, text } = statusOf(destination, lastTest);
  const status = (
    <>
      <Badge tone={tone}>{label}</Badge> <span class="quiet">{!NOTICED_TONES.includes(tone) && text}</span>
    </>
  );
  return (
    <Panel title="Details">
      <ValueList
        of={[
          ["Status", status],
          failingSinceMs !== null && ["Failing since", <Time ms={failingSinceMs} />],
          ["Type", TYPE_TEXT[type].label],
          [TYPE_TEXT[type].target, <code>{maskedTarget}</code>],
          headerNames.length > 0 && ["Headers", <HeaderNames names={headerNames} />],
          ["Notifications", notifications.map((notification) => NOTIFICATION_CATALOGUE[notification].label).join(", ")],
          ["Created", <Time ms={createdAtMs} />],
          ["Last delivered", lastDeliveredAtMs === null ? "No notification yet" : <Time ms={lastDeliveredAtMs} />],
          ["Waiting", counted(waiting, "delivery", "deliveries")],
          dropped > 0 && ["Dropped", `${counted(dropped, "notification")}: too many were waiting`],
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
  deliveries: ListPage<Delivery>;
  failed: number;
}

function Deliveries({ destination, list, deliveries, failed }: DeliveriesProps) {
  const refreshes = deliveries.items.some((delivery) => isInProgress(delivery, destination));
  const again = ({ id, type, state }: Delivery) => (
    <PostButton
      action={`${list.path}/deliveries/${id}/again`}
      look="small"
      label={`Deliver ${NOTIFICATION_CATALOGUE[type].label} ${state === "failed" ? "again" : "now"}`}
      text={state === "failed" ? "Deliver again" : "Retry now"}
    />
  );
  // A retry that waits can be sent at once.
  const canSendNow = ({ state, attempts }: Delivery): boolean =>
    state === "failed" || (destination.state === "active" && state === "waiting" && attempts.length > 0);
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
            {
              head: "Notification",
              cell: ({ type, subject = null }) => (
                <>
                  {NOTIFICATION_CATALOGUE[type].label}
                  <small>{subject === null ? "Deleted with the person" : <EmailText text={subject} />}</small>
                </>
              ),
            },
            { head: "Created", cell: ({ createdAtMs }) => <Time ms={createdAtMs} /> },
            { head: "Status", cell: (delivery) => <DeliveryStatus delivery={delivery} destination={destination} /> },
            { head: "Attempts", kind: "number", drop: "narrow", cell: ({ attempts }) => grouped(attempts.length) },
            { head: "Last answer", kind: "text", cell: ({ attempts }) => lastAnswer(attempts) },
            {
              head: "Took",
              kind: "number",
              drop: "narrow",
              cell: ({ attempts }) => attempts.length > 0 && `${grouped(attempts.at(-1)?.tookMs ?? 0)} ms`,
            },
            { head: "Actions", kind: "actions", cell: (delivery) => canSendNow(delivery) && again(delivery) },
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
