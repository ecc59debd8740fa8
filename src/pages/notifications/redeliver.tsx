/** "Deliver again": sends everything that failed since a time, after showing how many deliveries that is. */
import type { Destination } from "../../domain/events/destination.ts";
import { time as timeSchema } from "../../http/fields.ts";
import { DELIVERIES_KEPT } from "../../limits.ts";
import type { Redelivery } from "../../notifications/destination-calls.ts";
import { redeliver } from "../../workspace/manage-destinations.ts";
import { destinationsOf } from "../../workspace/objects.ts";
import { LinkButton, PostButton } from "../kit/actions.tsx";
import { counted, exactTime, grouped } from "../kit/format.ts";
import { Choices, Form, FormErrors, TextField } from "../kit/forms.tsx";
import { sectionPath } from "../kit/layout.tsx";
import { Empty, Notice, Panel } from "../kit/parts.tsx";
import { done, page } from "../page.tsx";
import { type Ctx, formText, pages } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { destinationsCall, problemText, withDestination } from "./notification-parts.tsx";

const PRESETS = [
  { label: "Last hour", hours: 1 },
  { label: "Last 24 hours", hours: 24 },
  { label: "Last 7 days", hours: 7 * 24 },
  { label: "Last 30 days", hours: 30 * 24 },
] as const;
const USUAL_HOURS = 24;

export const redeliverPages = pages
  .createApp()
  .get(
    "/:id/again",
    withDestination((c, destination) => redeliverPage(c, destination)),
  )
  .post(
    "/:id/again",
    readForm(),
    withDestination(async (c, destination) => {
      const since = timeSchema.safeParse(formText(c.get("form"), "since"));
      if (!since.success) return redeliverPage(c, destination, "Choose a time.", 422);
      const repeated = await redeliver(destinationsCall(c), destination.id, Date.parse(since.data));
      if (!repeated.ok) return redeliverPage(c, destination, problemText(repeated.refusal), 409);
      const isAny = repeated.value.requeued > 0;
      return done(c, `settings/notifications/${destination.id}`, isAny ? "delivered_again" : "nothing_delivered_again");
    }),
  );

/** @param refused why the last attempt did nothing. */
async function redeliverPage(c: Ctx, destination: Destination, refused?: string, status?: 409 | 422) {
  const path = `${sectionPath(c, "notifications")}/${destination.id}`;
  const typed = c.req.query("since") ?? "";
  const { data: typedTime } = timeSchema.safeParse(`${typed}:00Z`);
  const error = typed !== "" && typedTime === undefined ? "Enter a date and a time." : undefined;
  const isActive = destination.state === "active";
  const choices = await readChoices(c, destination.id, typedTime);
  return page(
    c,
    {
      section: "notifications",
      title: "Deliver again",
      crumbs: [[destination.name, path]],
      intro:
        "Sends failed deliveries again, oldest first. Each keeps its id, so that the receiver can drop duplicates.",
      status: status ?? (error === undefined ? 200 : 422),
    },
    isActive ? (
      <>
        <FormErrors errors={refused === undefined ? [] : [refused]} title="Nothing was sent" />
        <Failed path={path} choices={choices} typed={typed} error={error} />
      </>
    ) : (
      <Inactive path={path} />
    ),
  );
}

interface Choosable {
  label: string;
  since: string;
  failed: Redelivery;
  isChosen: boolean;
}

/** @param typedTime a time of the viewer's own, in ISO 8601. */
async function readChoices(c: Ctx, destinationId: string, typedTime: string | undefined): Promise<Choosable[]> {
  const nowMs = Date.now();
  const presets = PRESETS.map(({ label, hours }) => {
    const since = new Date(nowMs - hours * 3_600_000).toISOString();
    return { label, since, isChosen: hours === USUAL_HOURS && typedTime === undefined };
  });
  const typed = (typedTime === undefined ? [] : [typedTime]).map((since) => {
    return { label: `Since ${exactTime(Date.parse(since))}`, since, isChosen: true };
  });
  const object = destinationsOf(c.env, c.get("workspace").id);
  const choices = [...presets, ...typed].map(async (choice) => {
    const failed = await object.failedSince(destinationId, Date.parse(choice.since));
    return failed === null ? [] : [{ ...choice, failed }];
  });
  return (await Promise.all(choices)).flat();
}

interface FailedProps {
  /** Path of the destination's page. */
  path: string;
  choices: readonly Choosable[];
  typed: string;
  error: string | undefined;
}

function Failed({ path, choices, typed, error }: FailedProps) {
  if (choices.every(({ failed }) => failed.requeued === 0)) {
    return <Empty title="No failed deliveries" text={choices.slice(-1).map(({ failed }) => reasonsText(failed))} />;
  }
  return (
    <>
      <Panel>
        <Form action={`${path}/again`} submit="Deliver again" cancel={path}>
          <Choices
            legend="Failed deliveries"
            name="since"
            group="since"
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

function Inactive({ path }: Pick<FailedProps, "path">) {
  return (
    <>
      <Notice tone="warn" title="Nothing can be sent now" text={problemText("destination_not_active")} />
      <div class="row">
        <PostButton action={`${path}/resume`} look="primary" text="Resume" />
        <LinkButton href={path} text="Cancel" />
      </div>
    </>
  );
}

function numbersText(failed: Redelivery): string {
  const [number, reasons] = [counted(failed.requeued, "delivery", "deliveries"), reasonsText(failed)];
  return reasons === "" ? number : `${number}. ${reasons}`;
}

/** Why other failed deliveries are not sent again; empty if there are none. */
function reasonsText({ notRequeued: { personDeleted, tooManyWaiting, notKept } }: Redelivery): string {
  const reasons = [
    personDeleted > 0 && `${grouped(personDeleted)} of deleted people`,
    tooManyWaiting > 0 && `${grouped(tooManyWaiting)} while too many wait`,
    notKept > 0 && `up to ${grouped(notKept)} no longer stored (only the latest ${DELIVERIES_KEPT} are)`,
  ].filter((reason) => reason !== false);
  return reasons.length === 0 ? "" : `Not sent again: ${reasons.join(", ")}.`;
}
