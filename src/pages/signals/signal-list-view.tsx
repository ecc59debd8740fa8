/** All signals, the latest first, by event, person and status. */
import type { FoundSignals } from "../../store/protocol/stored-signals.ts";
import type { RecentNames } from "../../store/protocol/stored-signals.ts";
import { STATUS_OPTIONS } from "./signal-filters.ts";
import type { KeyFilter } from "../key-filter.ts";
import { readDayRange } from "../day-range.ts";
import { DayFields, NameField, SelectField, TextField } from "../kit/forms.tsx";
import { KeyFields } from "../views/key-fields.tsx";
import { daysAsked, NothingFits } from "../views/nothing-fits.tsx";
import type { AskedFilter } from "../views/nothing-fits.tsx";
import { Empty, PageHead, Panel } from "../views/parts.tsx";
import { SignalTable, SignalTabs } from "./signal-parts.tsx";

export function SignalListView({
  base,
  query,
  names,
  keyFilter,
  signals,
}: {
  base: string;
  query: Record<string, string>;
  /** Events and sources to choose from; others can be typed. */
  names: RecentNames;
  /** Null where keys are not shown. */
  keyFilter: KeyFilter | null;
  signals: FoundSignals;
}) {
  const asked = askedOf(query, keyFilter);
  const isNarrowed = asked.some(({ value }) => value !== "") || query["cursor"] !== undefined;
  return (
    <>
      <PageHead title="All signals">Every signal that was accepted and recorded, with what became of it.</PageHead>
      <SignalTabs base={base} shown="all" />
      <form class="filters" method="get" role="search">
        <NameField name="event" label="Event name, exactly" value={query["event"] ?? ""} known={names.events} />
        <NameField name="source" label="Source" value={query["source"] ?? ""} known={names.sources} />
        <TextField name="email" label="Email of the person" value={query["email"] ?? ""} autocomplete="off" />
        <SelectField name="status" label="Status" value={query["status"] ?? ""} options={STATUS_OPTIONS} />
        {keyFilter !== null && <KeyFields filter={keyFilter} label="Key" any="Any key" />}
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
          empty={
            isNarrowed ? (
              <NothingFits title="No signal fits" path={`${base}/signals/all`} query={query} filters={asked} />
            ) : (
              <None base={base} />
            )
          }
        />
      </Panel>
    </>
  );
}

function askedOf(query: Record<string, string>, keyFilter: KeyFilter | null): AskedFilter[] {
  const { status = "" } = query;
  const key = keyFilter?.id ?? "";
  const text = (name: string) => (query[name] ?? "").trim();
  return [
    { label: "Event name", value: text("event"), names: ["event"] },
    { label: "Source", value: text("source"), names: ["source"] },
    { label: "Email of the person", value: text("email"), names: ["email"] },
    {
      label: "Status",
      value: STATUS_OPTIONS.find(([value]) => value !== "" && value === status)?.[1] ?? "",
      names: ["status"],
    },
    { label: "Key", value: keyFilter?.offered.get(key) ?? key, names: ["key", "key_name"] },
    daysAsked("Received", readDayRange(query)),
  ];
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
