/** Usage, tab Ledger: the books (design §1.2), past billing periods and the storage. */
import { DAY_MS } from "../../domain/duration.ts";
import type { Balance } from "../../domain/quota/balance.ts";
import { DUPLICATE_WINDOW_WITH_ID_MS } from "../../limits.ts";
import type { ClosedPeriod } from "../../quota/protocol.ts";
import { usageOf } from "../../workspace/configure-workspace.ts";
import { readBooks, readStorageHealth, type Room } from "../../workspace/read-health.ts";
import { counted, day, grouped } from "../kit/format.ts";
import { Badge, Count, Empty, Facts, Meter, Panel, Table } from "../kit/parts.tsx";
import { page } from "../page.tsx";
import { pages, workspacePath } from "../pages-env.ts";
import { percentFull, usageHead, UsageTabs, waitingText } from "../usage-notices.tsx";

export const ledgerPages = pages.createApp().get("/ledger", async (c) => {
  const { id } = c.get("workspace");
  const [usage, room, total] = await Promise.all([
    usageOf(c.env, c.get("db"), c.get("workspace")),
    readStorageHealth(c.env, id),
    readBooks(c.env, id, undefined),
  ]);
  const period = await readBooks(c.env, id, usage.periodStartMs);
  const base = workspacePath(c);
  return page(
    c,
    { ...usageHead(usage), title: "Ledger" },
    <>
      <UsageTabs base={base} current="/ledger" usage={usage} room={room} />
      <BooksPanel base={base} total={total} period={period} />
      <PastPeriods periods={usage.history} />
      <StoragePanel room={room} />
    </>,
  );
});

interface Place {
  name: string;
  meaning: string;
  /** Path of the list of these signals, below the workspace's path. */
  path?: string;
}

/** The places of a signal that was answered with 202. The counts of all places add up to the accepted signals. */
const PLACES = {
  processed: {
    name: "Processed",
    meaning: "Applied, or waiting in cold storage for a known visitor",
    path: "signals/all?status=processed",
  },
  duplicates: {
    name: "Duplicates",
    meaning: "Same content as an earlier signal",
    path: "signals/all?status=duplicate",
  },
  held: { name: "Held", meaning: "Over the limit, no effect on scores", path: "signals/all?status=held" },
  purged: { name: "Purged", meaning: "Still held when their period ended", path: "signals/all?status=purged" },
  deadLettered: { name: "Dead letters", meaning: "Could not be processed", path: "signals/dead-letters" },
  inFlight: { name: "In flight", meaning: "On their way to the store" },
  lost: { name: "Lost", meaning: "Accepted, then lost in a restore from a backup" },
} as const satisfies Record<Exclude<keyof Balance, "accepted" | "balanced">, Place>;

function BooksPanel({ base, total, period }: { base: string; total: Balance; period: Balance }) {
  const places = Object.entries<Place>(PLACES) as [keyof typeof PLACES, Place][];
  const rows: [field: keyof typeof PLACES | "accepted", place: Place][] = [
    ...places.filter(([field]) => field !== "lost" || total.lost > 0),
    ["accepted", { name: "Accepted", meaning: "All signals answered with 202" }],
  ];
  const isBalanced = total.balanced && period.balanced;
  return (
    <Panel
      title="Books"
      actions={<Badge tone={isBalanced ? "good" : "bad"}>{isBalanced ? "Balanced" : "Not balanced"}</Badge>}
      list
    >
      <p class="quiet">Each signal answered with 202 is in exactly one place.</p>
      {!isBalanced && (
        <p class="error" role="alert">
          The places do not add up to the accepted signals. Reload in a moment. If this stays, report a bug.
        </p>
      )}
      <Table
        caption="Books"
        rows={rows}
        columns={[
          {
            head: "Place",
            cell: ([, { name, path }]) =>
              path === undefined ? (
                name
              ) : (
                <a class="row-link" href={`${base}/${path}`}>
                  {name}
                </a>
              ),
          },
          { head: "Meaning", kind: "text", drop: "phone", cell: ([, { meaning }]) => meaning },
          { head: "This period", kind: "number", cell: ([field]) => <Count value={period[field]} /> },
          { head: "Total", kind: "number", cell: ([field]) => <Count value={total[field]} /> },
        ]}
      />
    </Panel>
  );
}

function PastPeriods({ periods }: { periods: readonly ClosedPeriod[] }) {
  return (
    <Panel title="Past periods" list>
      {periods.length === 0 ? (
        <Empty title="No past periods yet" text="Each period appears here when it ends." />
      ) : (
        <Table
          caption="Past periods"
          rows={periods}
          columns={[
            {
              head: "Period",
              cell: ({ periodStartMs, periodEndMs }) => `${day(periodStartMs)} to ${day(periodEndMs)}`,
            },
            { head: "Limit", kind: "number", drop: "narrow", cell: ({ signalLimit }) => grouped(signalLimit) },
            { head: "Accepted", kind: "number", cell: ({ accepted }) => <Count value={accepted} /> },
            { head: "Held", kind: "number", cell: ({ held }) => <Count value={held} /> },
            { head: "Refused", kind: "number", cell: ({ rejected }) => <Count value={rejected} /> },
            {
              head: "Overages",
              kind: "number",
              cell: ({ overages, overage }) => (overages ? <Count value={overage} /> : <span class="quiet">Off</span>),
            },
            { head: "In a row over the limit", kind: "number", drop: "narrow", cell: ({ streak }) => grouped(streak) },
          ]}
        />
      )}
    </Panel>
  );
}

function StoragePanel({ room }: { room: Room }) {
  const used = storedText(room);
  return (
    <Panel title="Storage">
      <Meter share={room.store.bytes / room.store.maxBytes} label={used} />
      <Facts
        of={[
          ["Used", used],
          ["Waiting", waitingText(room, Date.now())],
          ["Duplicates", duplicatesText(room)],
        ]}
      />
    </Panel>
  );
}

/** Used size of the store, such as `1.2 MB of 9 GB (0.1 %)`. */
export function storedText({ store }: Room): string {
  return `${byteSize(store.bytes)} of ${byteSize(store.maxBytes)} (${percentFull(store)})`;
}

const HOUR_MS = 3_600_000;
const WINDOW_DAYS = DUPLICATE_WINDOW_WITH_ID_MS / DAY_MS;

/** The period in which duplicates are detected (design §8.2). */
export function duplicatesText({ duplicatesCoveredMs: coveredMs }: Room): string {
  if (coveredMs >= DUPLICATE_WINDOW_WITH_ID_MS) return `Detected within ${counted(WINDOW_DAYS, "day")}.`;
  const days = Math.floor(coveredMs / DAY_MS);
  const back = days === 0 ? counted(Math.floor(coveredMs / HOUR_MS), "hour") : counted(days, "day");
  return `Detected within ${back} instead of ${WINDOW_DAYS} days, because of the high volume. Later repeats count again.`;
}

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const BYTE_UNITS = ["KB", "MB", "GB"] as const;

/** A size such as `412 bytes`, `1.2 MB` or `9 GB`; a MB is a million bytes. */
function byteSize(bytes: number): string {
  const power = Math.min(BYTE_UNITS.length, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  const unit = BYTE_UNITS[power - 1];
  return unit === undefined ? counted(bytes, "byte") : `${NUMBER.format(bytes / 1_000 ** power)} ${unit}`;
}
