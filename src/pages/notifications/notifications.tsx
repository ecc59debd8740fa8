/** Notifications: the destinations, and the scores that raise a notification. For owners and admins only. */
import type { Destination } from "../../domain/notifications/destination.ts";
import { notificationTypes, thresholdsOf, type ScoreThresholds } from "../../domain/notifications/notification.ts";
import { ok, reject, type Result } from "../../domain/result.ts";
import { THRESHOLDS_MAX } from "../../limits.ts";
import { changeThresholds, thresholds as thresholdsSchema } from "../../use-cases/manage-destinations.ts";
import { destinationsOf } from "../../use-cases/objects.ts";
import { Form, LinkButton, TextField } from "../kit/forms.tsx";
import { sectionPath } from "../kit/layout.tsx";
import { Badge, Count, Empty, Notice, Panel, Table, Time } from "../kit/parts.tsx";
import { page } from "../page.tsx";
import { type Ctx, pages, typedText, done } from "../pages-env.ts";
import { allFields, checkTyped, issueText, readForm } from "../read-form.tsx";
import { managersOnly } from "../session/sign-in.tsx";
import { deliveryPages } from "./delivery.tsx";
import { destinationFormPages } from "./destination-form.tsx";
import { destinationPages } from "./destination.tsx";
import { destinationsCall, type LastTest, readLastTest, statusOf, TYPE_TEXT } from "./notification-parts.tsx";

export const notificationPages = pages
  .createApp()
  .use(managersOnly("Notifications", "see or manage notifications"))
  .get("/", (c) => listPage(c))
  .post("/thresholds", readForm(), async (c) => {
    const form = c.get("form");
    const typed = { people: typedText(form, "thresholds"), accounts: typedText(form, "account_thresholds") };
    const checked = allFields({ people: readThresholds(typed.people), accounts: readThresholds(typed.accounts) });
    if (!checked.ok) return listPage(c, typed, checked.rejection);
    await changeThresholds(destinationsCall(c), checked.value.people, checked.value.accounts);
    return done(c, "settings/notifications", "thresholds_saved");
  })
  .route("/", destinationFormPages)
  .route("/", destinationPages)
  .route("/", deliveryPages);

/** Characters of a typed list: the scores with the spaces and line ends of a pasted one. */
const THRESHOLDS_MAX_LENGTH = 200;

/** Reads `100; 50` as 50 and 100. */
export function readThresholds(typed: string): Result<number[], string> {
  return checkTyped(typed, THRESHOLDS_MAX_LENGTH, parseThresholds);
}

function parseThresholds(typed: string): Result<number[], string> {
  const scores = typed.split(/[\s,;]+/).filter((text) => text !== "");
  if (scores.some((text) => !/^-?\d{1,7}$/.test(text))) return reject("Enter whole numbers, such as 50, 100.");
  if (scores.length > THRESHOLDS_MAX) return reject(`Enter at most ${THRESHOLDS_MAX} scores.`);
  const read = thresholdsSchema.safeParse(scores.map(Number));
  return read.success ? ok(read.data) : reject(issueText(read.error));
}

const SCORES = [
  {
    kind: "people",
    field: "thresholds",
    label: "Notify when a person's score reaches or falls below",
    hint: `Up to ${THRESHOLDS_MAX} scores, such as 50, 100. Leave empty for no score notifications.`,
    missing: ["No score threshold yet", "scores"],
  },
  {
    kind: "accounts",
    field: "account_thresholds",
    label: "Notify when an account's score reaches or falls below",
    hint: `Up to ${THRESHOLDS_MAX} scores, such as 200, 500. An account's score is the sum of its people's scores.`,
    missing: ["No score threshold for accounts yet", "accounts' scores"],
  },
] as const;

type ThresholdTexts = Record<keyof ScoreThresholds, string>;

interface Row {
  destination: Destination;
  lastTest: LastTest;
}

async function listPage(c: Ctx, typed?: ThresholdTexts, errors: Partial<ThresholdTexts> = {}) {
  const path = sectionPath(c, "notifications");
  const object = destinationsOf(c.env, c.get("workspace").id);
  const [stored, thresholds] = await Promise.all([object.list(), object.thresholds()]);
  const rows = await Promise.all(
    stored.map(async (destination): Promise<Row> => ({
      destination,
      lastTest: await readLastTest(c, destination),
    })),
  );
  const create = <LinkButton href={`${path}/new`} text="Create destination" look="primary" />;
  const purpose = "A destination is notified when a score crosses a threshold, a key expires or signals are rejected.";
  return page(
    c,
    {
      section: "notifications",
      title: "Notifications",
      intro: "Send notifications of this workspace to a webhook, a channel or an inbox.",
      actions: rows.length > 0 && create,
      fieldErrors: errors,
    },
    ...SCORES.map(({ kind, field, missing: [title, scores] }) => {
      const subscribed = stored.filter(({ notifications }) =>
        notifications.some((type) => thresholdsOf(type) === kind),
      );
      if (thresholds[kind].length > 0 || subscribed.length === 0) return <></>;
      return (
        <Notice tone="warn" title={title}>
          <p>
            {subscribed.map(({ name }) => name).join(", ")} cannot be notified of {scores}.{" "}
            <a href={`#${field}`}>Add a threshold</a>
          </p>
        </Notice>
      );
    }),
    <Panel list>
      {rows.length === 0 ? (
        <Empty title="No destinations yet" text={purpose}>
          {create}
        </Empty>
      ) : (
        <DestinationsTable path={path} rows={rows} />
      )}
    </Panel>,
    <Panel title="Score thresholds">
      <Form action={`${path}/thresholds`} submit="Save thresholds" look="">
        {SCORES.map(({ kind, field, label, hint }) => (
          <TextField
            name={field}
            label={label}
            hint={hint}
            value={typed?.[kind] ?? thresholds[kind].join(", ")}
            error={errors[kind]}
          />
        ))}
      </Form>
    </Panel>,
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
          cell({ destination, lastTest }) {
            const { tone, label } = statusOf(destination, lastTest);
            return <Badge tone={tone}>{label}</Badge>;
          },
        },
        {
          head: "Last delivered",
          drop: "phone",
          cell: ({ destination: { lastDeliveredAtMs: ms } }) =>
            ms === null ? <span class="quiet">No notification yet</span> : <Time ms={ms} />,
        },
        {
          head: "Waiting",
          kind: "number",
          drop: "phone",
          cell: ({ destination }) => <Count value={destination.waiting} />,
        },
        {
          head: "Notifications",
          kind: "number",
          drop: "narrow",
          cell: ({ destination }) => `${destination.notifications.length} of ${notificationTypes.length}`,
        },
      ]}
    />
  );
}
