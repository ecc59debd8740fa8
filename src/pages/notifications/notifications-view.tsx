/** Settings › Notifications: who is told what of the workspace, and how each of them is. */
import type { Destination } from "../../domain/events/destination.ts";
import { eventTypes } from "../../domain/events/workspace-event.ts";
import { THRESHOLDS_MAX } from "../../limits.ts";
import { TYPE_COPY } from "./notification-copy.ts";
import { DestinationBadge } from "./destination-parts.tsx";
import { TextField } from "../kit/forms.tsx";
import { counted, grouped } from "../kit/format.ts";
import { Empty, PageHead, Notice, Panel, Time } from "../views/parts.tsx";
import { Table } from "../views/table.tsx";

interface NotificationsData {
  /** Path of the notifications, `/w/{slug}/settings/notifications`. */
  path: string;
  destinations: readonly Destination[];
  thresholds: {
    /** The thresholds as they are typed. */
    typed: string;
    error: string | undefined;
  };
  nowMs: number;
}

export function NotificationsView({ path, destinations, thresholds, nowMs }: NotificationsData) {
  const create = (
    <a class="button primary" href={`${path}/new`}>
      Create destination
    </a>
  );
  const crossings = destinations.filter(({ events }) => events.includes("person.score_crossed"));
  return (
    <>
      <PageHead title="Notifications" actions={create}>
        Who is told of what happens here: a URL of yours, or a channel that your people read.
      </PageHead>
      {crossings.length > 0 && thresholds.typed === "" && (
        <Notice tone="warn" title="No score is a threshold yet.">
          <p>
            {crossings.map(({ name }) => name).join(", ")} {crossings.length === 1 ? "is" : "are"} to be told when a
            score crosses one. <a href="#crossings">Set one</a>, and it is told from then on.
          </p>
        </Notice>
      )}
      <Panel flush>
        {destinations.length === 0 ? (
          <Empty title="Nobody is told anything yet">
            <p>
              Create a destination first: then a score that crosses a threshold, a key that is about to expire or a
              workspace that fills up reaches somebody who is not looking here.
            </p>
            {create}
          </Empty>
        ) : (
          <DestinationsPanel path={path} destinations={destinations} nowMs={nowMs} />
        )}
      </Panel>
      <Panel title="Thresholds" id="crossings">
        <form method="post" action={`${path}/thresholds`} data-once class="form">
          <TextField
            name="thresholds"
            label="Scores whose crossing is told"
            hint={`At most ${THRESHOLDS_MAX}, such as 50, 100. Without any, no score is told.`}
            value={thresholds.typed}
            error={thresholds.error}
            autocomplete="off"
          />
          <div class="row">
            <button>Save thresholds</button>
          </div>
        </form>
      </Panel>
    </>
  );
}

function DestinationsPanel({ path, destinations, nowMs }: Pick<NotificationsData, "path" | "destinations" | "nowMs">) {
  return (
    <Table
      caption="Destinations"
      head={["Name", "Sent to", "State", "Last delivered", { text: "Waiting", number: true }, "Told of"]}
    >
      {destinations.map((destination) => (
        <tr>
          <th scope="row" class="what">
            <a href={`${path}/${destination.id}`}>{destination.name}</a>
          </th>
          <td class="what">
            <div>{TYPE_COPY[destination.type].label}</div>
            <code class="small">{destination.maskedTarget}</code>
          </td>
          <td>
            <DestinationBadge destination={destination} nowMs={nowMs} />
          </td>
          <td>
            {destination.lastDeliveredAtMs === null ? (
              "Never"
            ) : (
              <Time ms={destination.lastDeliveredAtMs} nowMs={nowMs} />
            )}
          </td>
          <td class="number">{grouped(destination.waiting)}</td>
          <td class="nowrap">
            {destination.events.length} of {counted(eventTypes.length, "event")}
          </td>
        </tr>
      ))}
    </Table>
  );
}
