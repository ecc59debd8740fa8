/** The list of signals on the pages of the signal queue and of a person. */
import type { Child } from "hono/jsx";
import { LIST_SCAN_SIGNALS } from "../limits.ts";
import type { FoundSignals, SignalSummary } from "../store/protocol/stored-signals.ts";
import { signalTitle } from "./copy.ts";
import { counted } from "./kit/format.ts";
import { type ListAddress, ListPanel, type Scanned } from "./kit/list.tsx";
import { type Column, Empty, StatusBadge, Table, Time } from "./kit/parts.tsx";
import { personPath, signalPath } from "./paths.ts";

const NO_HELD = "Signals beyond the signal limit wait here until they are released or their billing period ends.";

interface SignalListProps {
  base: string;
  list: ListAddress;
  signals: Scanned<FoundSignals>;
  /** False: all signals have the same event. */
  withEvent: boolean;
  title?: string;
  actions?: Child;
  empty?: Child;
}

export function SignalList({ base, signals, withEvent, ...panel }: SignalListProps) {
  const names: Column<SignalSummary>[] = [
    { head: "Event", cell: signalTitle },
    { head: "Person", cell: (signal) => personOf(base, signal) },
    { head: "Source", cell: ({ source }) => source, drop: "narrow" },
  ];
  const person: Column<SignalSummary> = { head: "Person", cell: ({ email }) => email ?? "Unknown person" };
  const { active, query } = panel.list;
  const isHeldTab = active.length === 1 && query["status"] === "held";
  const noMatches = isHeldTab && <Empty title="No held signals" text={NO_HELD} />;
  return (
    <ListPanel
      {...panel}
      noMatches={noMatches}
      found={signals}
      noun="signals"
      searched={counted(signals.scans * LIST_SCAN_SIGNALS, "signal")}
    >
      <Table
        caption="Signals"
        rows={signals.items}
        href={({ id }) => signalPath(base, id)}
        columns={[
          ...(withEvent ? names : [person]),
          { head: "Status", cell: ({ status }) => <StatusBadge status={status} /> },
          { head: "Occurred", cell: ({ occurredAtMs }) => <Time ms={occurredAtMs} />, drop: "narrow" },
          { head: "Received", cell: ({ receivedAtMs }) => <Time ms={receivedAtMs} /> },
        ]}
      />
    </ListPanel>
  );
}

/** A held signal creates no person, so its email may be that of nobody. */
function personOf(base: string, { email, status }: SignalSummary): Child {
  if (email === null || status === "held") return email;
  return <a href={personPath(base, email)}>{email}</a>;
}
