/** The list of signals on the pages of the signal queue and of a person. */
import type { Child } from "hono/jsx";
import { LIST_SCAN_SIGNALS } from "../limits.ts";
import type { FoundSignals, SignalSummary } from "../store/protocol/stored-signals.ts";
import { signalTitle } from "./copy.ts";
import { counted } from "./kit/format.ts";
import { type ListAddress, ListPanel, type Scanned } from "./kit/list.tsx";
import { type Column, Empty, OneLine, StatusBadge, Table, Time } from "./kit/parts.tsx";
import { personPath, signalPath } from "./pages-env.ts";

const NO_HELD = "Signals beyond the signal limit wait here until they are released or their billing period ends.";

/** Which form, page, mail or feature the event is about. */
const ABOUT: Column<SignalSummary> = { head: "About", cell: ({ topic }) => topic !== null && <OneLine text={topic} /> };

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
    ABOUT,
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
          ...(withEvent ? names : [person, ABOUT]),
          { head: "Status", cell: ({ status }) => <StatusBadge status={status} /> },
          {
            head: "Occurred",
            cell: ({ occurredAtMs, receivedAtMs }) => occurredAtMs !== receivedAtMs && <Time ms={occurredAtMs} />,
            drop: "narrow",
          },
          { head: "Received", cell: ({ receivedAtMs }) => <Time ms={receivedAtMs} /> },
        ]}
      />
    </ListPanel>
  );
}

/** A held signal or a dead letter creates no person, so its email may belong to no person. */
function personOf(base: string, { email, status }: SignalSummary): Child {
  if (email === null || status === "held" || status === "dead") return email;
  return <a href={personPath(base, email)}>{email}</a>;
}
