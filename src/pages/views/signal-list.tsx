/** All signals, the latest first, by event, person and status. */
import type { FoundSignals } from "../../store/queries/signal-list.ts";
import { STATUS_OPTIONS } from "../signal-filters.ts";
import { readDayRange } from "../day-range.ts";
import { DayFields, SelectField, TextField } from "./fields.tsx";
import { Empty, Head, Panel } from "./parts.tsx";
import { NoSuchSignals, SignalTable, SignalTabs } from "./signal-parts.tsx";

export function AllSignals({
  base,
  query,
  keys,
  signals,
}: {
  base: string;
  query: Record<string, string>;
  /** Names by id; null where they are not shown. */
  keys: ReadonlyMap<string, string> | null;
  signals: FoundSignals;
}) {
  return (
    <>
      <Head title="All signals">Every signal that was accepted and recorded, with what became of it.</Head>
      <SignalTabs base={base} shown="all" />
      <form class="filters" method="get" role="search">
        <TextField name="event" label="Event name, exactly" value={query["event"] ?? ""} autocomplete="off" />
        <TextField name="email" label="Email of the person" value={query["email"] ?? ""} autocomplete="off" />
        <SelectField name="status" label="Status" value={query["status"] ?? ""} options={STATUS_OPTIONS} />
        {keys !== null && (
          <SelectField name="key" label="Key" value={query["key"] ?? ""} options={[["", "Any key"], ...keys]} />
        )}
        <DayFields days={readDayRange(query)} />
        <TextField
          name="id"
          label="Or a signal's id"
          value={query["id"] ?? ""}
          placeholder="sig_…"
          autocomplete="off"
          spellcheck={false}
        />
        <button>Search</button>
      </form>
      <Panel flush>
        <SignalTable
          base={base}
          path={`${base}/signals/all`}
          caption="Signals"
          query={query}
          signals={signals}
          withEvent
          empty={isNarrowed(query) ? <NoSuchSignals clear={`${base}/signals/all`} /> : <None base={base} />}
        />
      </Panel>
    </>
  );
}

function isNarrowed(query: Record<string, string>): boolean {
  return ["event", "email", "status", "key", "from", "to", "cursor"].some((name) => (query[name] ?? "") !== "");
}

function None({ base }: { base: string }) {
  return (
    <Empty title="No signals yet">
      <p>As soon as a sender posts its first signal, it is listed here.</p>
      <p>
        <a href={`${base}/connect`}>Connect a sender</a>
      </p>
    </Empty>
  );
}
