/** The Live page: signals and refused calls as they arrive. Without a script: the latest, and a link that looks again. */
import { LIVE_SOCKET_MS } from "../../limits.ts";
import { STATUS_COPY, type Tone } from "../copy.ts";
import type { LiveFilter, LiveItem, LiveStatus } from "./live-item.ts";
import { SelectField, TextField } from "../views/fields.tsx";
import { Badge, Clamped, Empty, PageHead, Panel, Time } from "../views/parts.tsx";
import { Table } from "../views/table.tsx";

const { in_flight: _, ...RECORDED } = STATUS_COPY;
const STATUSES: Record<LiveStatus, { label: string; tone: Tone; meaning: string }> = {
  ...RECORDED,
  rejected: { label: "Rejected", tone: "bad", meaning: "The call was refused; nothing of it was kept." },
};

interface LiveData {
  /** The workspace's path, `/w/{slug}`. */
  path: string;
  items: readonly LiveItem[];
  filter: LiveFilter;
  keyNames: Readonly<Record<string, string>>;
  nowMs: number;
}

export function LiveView({ path, items, filter, keyNames, nowMs }: LiveData) {
  const query = new URLSearchParams({ status: filter.status, text: filter.text }).toString();
  return (
    <>
      <PageHead
        title="Live"
        actions={
          <a class="button no-script" href={`${path}/live?${query}`}>
            Refresh
          </a>
        }
      >
        Signals and refused calls as they arrive.
      </PageHead>
      <div
        class="stack"
        data-live={`${path}/live`}
        data-live-ms={LIVE_SOCKET_MS}
        data-live-signals={`${path}/signals/`}
        data-live-keys={JSON.stringify(keyNames)}
      >
        <form method="get" action={`${path}/live`} class="filters" id="live-filter">
          <SelectField
            name="status"
            label="What"
            value={filter.status}
            options={[
              ["", "Everything"],
              ...Object.entries(STATUSES).map(([status, { label }]) => [status, label] as const),
            ]}
          />
          <TextField
            name="text"
            label="With the text"
            value={filter.text}
            placeholder="event, email, source"
            autocomplete="off"
          />
          <button class="no-script">Filter</button>
          <button type="button" class="needs-script" id="live-pause">
            Pause
          </button>
          <span class="live-state needs-script" id="live-state" role="status">
            Connecting
          </span>
        </form>
        <Panel flush>
          <Table
            caption="The latest, newest first"
            tall
            head={["Time", "Status", "What", "Who", "Source or key", "Why"]}
          >
            {items.map((item) => (
              <LiveRow path={path} item={item} nowMs={nowMs} />
            ))}
          </Table>
          <div id="live-empty" hidden={items.length > 0}>
            <Empty
              title={filter.status === "" && filter.text === "" ? "Nothing has arrived yet" : "Nothing like that yet"}
            >
              <p>
                What arrives is shown here. <a href={`${path}/connect`}>Connect a sender</a>, and send a test signal.
              </p>
            </Empty>
          </div>
        </Panel>
        {(Object.keys(STATUSES) as LiveStatus[]).map((status) => (
          <template data-live-badge={status}>
            <Status status={status} />
          </template>
        ))}
      </div>
    </>
  );
}

function Status({ status }: { status: LiveStatus }) {
  const { label, tone, meaning } = STATUSES[status];
  return (
    <Badge tone={tone} title={meaning}>
      {label}
    </Badge>
  );
}

/** A row of the live page. The script makes the same one (client/live-row.ts). */
function LiveRow({ path, item, nowMs }: { path: string; item: LiveItem; nowMs: number }) {
  return (
    <tr data-key={item.key} data-status={item.status}>
      <td>
        <Time ms={item.atMs} nowMs={nowMs} />
      </td>
      <td>
        <Status status={item.status} />
      </td>
      <td class="event">
        {item.signalId === null ? item.what : <a href={`${path}/signals/${item.signalId}`}>{item.what}</a>}
      </td>
      <td class="event">{item.email}</td>
      <td class="what">{item.from}</td>
      <td class="why">{item.reason !== "" && <Clamped>{item.reason}</Clamped>}</td>
    </tr>
  );
}
