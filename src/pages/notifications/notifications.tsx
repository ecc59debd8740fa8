/** Notifications: the destinations, and the scores that raise a notification. For owners and admins only. */
import type { Destination } from "../../domain/events/destination.ts";
import { eventTypes } from "../../domain/events/workspace-event.ts";
import { ok, refuse, type Result } from "../../domain/result.ts";
import { THRESHOLDS_MAX } from "../../limits.ts";
import { changeThresholds, thresholds as thresholdsSchema } from "../../workspace/manage-destinations.ts";
import { destinationsOf } from "../../workspace/objects.ts";
import { LinkButton } from "../kit/actions.tsx";
import { Form, TextField } from "../kit/forms.tsx";
import { sectionPath } from "../kit/layout.tsx";
import { Badge, Empty, Notice, Panel, Time } from "../kit/parts.tsx";
import { Count, Table } from "../kit/table.tsx";
import { done, managersOnlyPage, mayManage, page } from "../page.tsx";
import { type Ctx, formText, pages } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { deliveryPages } from "./delivery.tsx";
import { destinationFormPages, issueText } from "./destination-form.tsx";
import { destinationPages } from "./destination.tsx";
import { destinationsCall, lastTestFailed, statusOf, TYPE_TEXT } from "./notification-parts.tsx";

const requireNotificationManager = pages.createMiddleware(async (c, next) => {
  if (!mayManage(c)) return managersOnlyPage(c, null, "Notifications", "see or manage notifications");
  await next();
});

export const notificationPages = pages
  .createApp()
  .use(requireNotificationManager)
  .get("/", async (c) => {
    const stored = await destinationsOf(c.env, c.get("workspace").id).thresholds();
    return listPage(c, stored.join(", "));
  })
  .post("/thresholds", readForm(), async (c) => {
    const typed = formText(c.get("form"), "thresholds");
    const scores = readThresholds(typed);
    if (!scores.ok) return listPage(c, typed, scores.refusal);
    await changeThresholds(destinationsCall(c), scores.value);
    return done(c, "settings/notifications", "thresholds_saved");
  })
  .route("/", destinationFormPages)
  .route("/", destinationPages)
  .route("/", deliveryPages);

/** Thresholds as typed (`50, 100`), in ascending order. */
export function readThresholds(typed: string): Result<number[], string> {
  const scores = typed.split(/[\s,;]+/).filter((text) => text !== "");
  if (scores.some((text) => !/^-?\d{1,7}$/.test(text))) return refuse("Enter whole numbers, such as 50, 100.");
  if (scores.length > THRESHOLDS_MAX) return refuse(`Enter at most ${THRESHOLDS_MAX} scores.`);
  const read = thresholdsSchema.safeParse(scores.map(Number));
  return read.success ? ok(read.data) : refuse(issueText(read.error));
}

interface Row {
  destination: Destination;
  testFailed: boolean;
}

/** @param typed the thresholds as typed. */
async function listPage(c: Ctx, typed: string, error?: string) {
  const path = sectionPath(c, "notifications");
  const stored = await destinationsOf(c.env, c.get("workspace").id).list();
  const rows = await Promise.all(
    stored.map(async (destination): Promise<Row> => ({
      destination,
      testFailed: await lastTestFailed(c, destination),
    })),
  );
  const create = <LinkButton href={`${path}/new`} text="Create destination" look="primary" />;
  const subscribed = stored.filter(({ events }) => events.includes("person.score_crossed"));
  const hint = "A destination is notified when a score crosses a threshold, a key expires or signals are refused.";
  return page(
    c,
    {
      section: "notifications",
      title: "Notifications",
      intro: "Send events of this workspace to a webhook, a channel or an inbox.",
      actions: rows.length > 0 && create,
      status: error === undefined ? 200 : 422,
    },
    <>
      {subscribed.length > 0 && typed === "" && (
        <Notice tone="warn" title="No score threshold yet">
          <p>
            {subscribed.map(({ name }) => name).join(", ")} cannot be notified of scores.{" "}
            <a href="#thresholds">Add a threshold</a>
          </p>
        </Notice>
      )}
      <Panel list>
        {rows.length === 0 ? (
          <Empty title="No destinations yet" text={hint}>
            {create}
          </Empty>
        ) : (
          <DestinationsTable path={path} rows={rows} />
        )}
      </Panel>
      <Panel title="Score thresholds">
        <Form action={`${path}/thresholds`} submit="Save thresholds" look="">
          <TextField
            name="thresholds"
            label="Notify when a score reaches"
            hint={`Up to ${THRESHOLDS_MAX} scores, such as 50, 100. Leave empty for no score notifications.`}
            value={typed}
            error={error}
            autocomplete="off"
          />
        </Form>
      </Panel>
    </>,
  );
}

function DestinationsTable({ path, rows }: { path: string; rows: readonly Row[] }) {
  return (
    <Table
      caption="Destinations"
      rows={rows}
      href={({ destination }) => `${path}/${destination.id}`}
      columns={[
        { head: "Name", cell: ({ destination }) => destination.name },
        { head: "Type", cell: ({ destination }) => TYPE_TEXT[destination.type].label },
        {
          head: "Sent to",
          kind: "text",
          drop: "narrow",
          cell: ({ destination }) => <code>{destination.maskedTarget}</code>,
        },
        {
          head: "Status",
          cell({ destination, testFailed }) {
            const { tone, label } = statusOf(destination, testFailed);
            return <Badge tone={tone}>{label}</Badge>;
          },
        },
        {
          head: "Last delivered",
          drop: "phone",
          cell: ({ destination: { lastDeliveredAtMs: ms } }) =>
            ms === null ? <span class="quiet">Never</span> : <Time ms={ms} />,
        },
        {
          head: "Waiting",
          kind: "number",
          drop: "phone",
          cell: ({ destination }) => <Count value={destination.waiting} />,
        },
        {
          head: "Events",
          kind: "number",
          drop: "narrow",
          cell: ({ destination }) => `${destination.events.length} of ${eventTypes.length}`,
        },
      ]}
    />
  );
}
