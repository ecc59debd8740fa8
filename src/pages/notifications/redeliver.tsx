/** "Deliver again": sends everything that failed since a time, after showing how many deliveries that is. */
import type { Context } from "hono";
import type { Destination } from "../../domain/events/destination.ts";
import { time as timeSchema } from "../../http/fields.ts";
import { DELIVERIES_KEPT } from "../../limits.ts";
import type { Redelivery } from "../../notifications/destination-calls.ts";
import { redeliver } from "../../workspace/manage-destinations.ts";
import { destinationsOf } from "../../workspace/objects.ts";
import { PostButton } from "../kit/actions.tsx";
import { counted, exactTime, grouped } from "../kit/format.ts";
import { Choice, FormEnd, FormErrors, TextField } from "../kit/forms.tsx";
import { Empty, Notice, PageHead, Panel } from "../kit/parts.tsx";
import { done, page } from "../page.tsx";
import { formText, pages, type PagesEnv } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { destinationsCall, notificationsPath, problemText, withDestination } from "./notification-parts.tsx";

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
    withDestination((c, destination) => choicePage(c, destination)),
  )
  .post(
    "/:id/again",
    readForm(),
    withDestination(async (c, destination) => {
      const since = timeSchema.safeParse(formText(c.get("form"), "since"));
      if (!since.success) return choicePage(c, destination, "Choose a time.", 422);
      const repeated = await redeliver(destinationsCall(c), destination.id, Date.parse(since.data));
      if (!repeated.ok) return choicePage(c, destination, problemText(repeated.refusal), 409);
      const isAny = repeated.value.requeued > 0;
      return done(c, `settings/notifications/${destination.id}`, isAny ? "delivered_again" : "nothing_delivered_again");
    }),
  );

interface Choosable {
  label: string;
  sinceMs: number;
  failed: Redelivery;
  isUsual: boolean;
}

/** @param refused why the last attempt did nothing. */
async function choicePage(c: Context<PagesEnv>, destination: Destination, refused?: string, status?: 409 | 422) {
  const base = notificationsPath(c);
  const typed = c.req.query("since") ?? "";
  const { data: since } = timeSchema.safeParse(`${typed}:00Z`);
  const typedMs = since === undefined ? [] : [Date.parse(since)];
  const nowMs = Date.now();
  const presets = PRESETS.map(({ label, hours }) => {
    return { label, sinceMs: nowMs - hours * 3_600_000, isUsual: hours === USUAL_HOURS && since === undefined };
  });
  const typedChoices = typedMs.map((sinceMs) => ({ label: `Since ${exactTime(sinceMs)}`, sinceMs, isUsual: true }));
  const object = destinationsOf(c.env, c.get("workspace").id);
  const choices = await Promise.all(
    [...presets, ...typedChoices].map(async (choice) => {
      const failed = await object.failedSince(destination.id, choice.sinceMs);
      return failed === null ? [] : [{ ...choice, failed }];
    }),
  );
  const error = typed !== "" && since === undefined ? "Enter a date and a time." : undefined;
  const view = { path: `${base}/${destination.id}`, destination, choices: choices.flat(), typed, error, refused };
  return page(
    c,
    { title: "Deliver again", section: "notifications", status: status ?? (error === undefined ? 200 : 422) },
    <>
      <PageHead
        title="Deliver again"
        crumbs={[<a href={base}>Notifications</a>, <a href={view.path}>{destination.name}</a>]}
      >
        Sends failed deliveries again, oldest first. Each keeps its id, so that the receiver can drop duplicates.
      </PageHead>
      <ChoiceView {...view} />
    </>,
  );
}

interface Props {
  /** Path of the destination's page. */
  path: string;
  destination: Destination;
  choices: readonly Choosable[];
  /** A time of the viewer's own, as typed. */
  typed: string;
  error: string | undefined;
  refused: string | undefined;
}

function ChoiceView({ path, destination, choices, typed, error, refused }: Props) {
  const isActive = destination.state === "active";
  const isAny = choices.some(({ failed }) => failed.requeued > 0);
  return (
    <>
      {!isActive && <Inactive path={path} />}
      <FormErrors errors={isActive && refused !== undefined ? [refused] : []} title="Nothing was sent" />
      {isActive && !isAny && (
        <Empty title="No failed deliveries">
          <p>{choices.slice(-1).map(({ failed }) => reasonsText(failed))}</p>
        </Empty>
      )}
      {isActive && isAny && (
        <>
          <Panel title="Failed deliveries">
            <form method="post" action={`${path}/again`} class="form" data-once>
              <fieldset class="field" aria-label="Failed in">
                {choices.map(({ label, sinceMs, failed, isUsual }) => (
                  <Choice
                    group="since"
                    name="since"
                    value={new Date(sinceMs).toISOString()}
                    label={label}
                    hint={numbersText(failed)}
                    checked={isUsual}
                  />
                ))}
              </fieldset>
              <FormEnd submit="Deliver again" cancel={path} />
            </form>
          </Panel>
          <AnotherTime path={path} typed={typed} error={error} />
        </>
      )}
    </>
  );
}

function Inactive({ path }: Pick<Props, "path">) {
  return (
    <>
      <Notice tone="warn" title="Nothing can be sent now">
        <p>{problemText("destination_not_active")}</p>
      </Notice>
      <div class="row">
        <PostButton action={`${path}/resume`} look="primary">
          Resume
        </PostButton>
        <a class="button" href={path}>
          Cancel
        </a>
      </div>
    </>
  );
}

/** Adds a choice with a time of the viewer's own. */
function AnotherTime({ path, typed, error }: Pick<Props, "path" | "typed" | "error">) {
  return (
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
