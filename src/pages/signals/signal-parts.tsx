/** What the pages of signals share. */
import type { Child } from "hono/jsx";
import { LIST_SCAN_SIGNALS } from "../../limits.ts";
import type { FoundSignals } from "../../store/protocol/stored-signals.ts";
import { counted } from "../kit/format.ts";
import { StatusBadge, Time } from "../views/parts.tsx";
import { Pager, Table, NotAll } from "../views/table.tsx";

/** Address of a group (`signals/group`); names may hold any characters. */
export function groupPath(base: string, event: string, source: string): string {
  return `${base}/signals/group?${new URLSearchParams({ event, source }).toString()}`;
}

/** Address that leads to the person of an email; the list of people redirects from it. */
export function personByEmailPath(base: string, email: string): string {
  return `${base}/people?${new URLSearchParams({ email }).toString()}`;
}

/** The tabs below the heading of the lists of signals. */
export function SignalTabs({ base, shown }: { base: string; shown: "queue" | "all" | "dead" }) {
  const current = (tab: typeof shown) => (tab === shown ? ("page" as const) : undefined);
  return (
    <nav class="tabs" aria-label="Lists of signals">
      <a href={`${base}/signals`} aria-current={current("queue")}>
        By event
      </a>
      <a href={`${base}/signals/all`} aria-current={current("all")}>
        All signals
      </a>
      <a href={`${base}/signals/dead-letters`} aria-current={current("dead")}>
        Dead letters
      </a>
    </nav>
  );
}

/** A link with the end of a signal's id, which tells it from others; the whole id is in the address, and on hover. */
export function SignalLink({ base, id }: { base: string; id: string }) {
  return (
    <a class="mono nowrap" href={`${base}/signals/${encodeURIComponent(id)}`} title={id}>
      sig_…{id.slice(-8)}
    </a>
  );
}

/** A list of signals, with what to say when there is nothing. */
export function SignalTable({
  base,
  path,
  caption,
  query,
  signals: { items, next, complete },
  withEvent,
  empty,
}: {
  base: string;
  path: string;
  caption: string;
  query: Record<string, string>;
  signals: FoundSignals;
  withEvent: boolean;
  empty: Child;
}) {
  return (
    <>
      {items.length === 0 && complete ? (
        empty
      ) : (
        <Table
          caption={caption}
          head={["Received", "Status", ...(withEvent ? ["Event", "Source"] : []), "Who", "Signal"]}
        >
          {items.map((signal) => (
            <tr>
              <td>
                <Time ms={signal.receivedAtMs} />
              </td>
              <td>
                <StatusBadge status={signal.status} />
              </td>
              {withEvent && (
                <>
                  <td class="event">
                    {signal.event === null || signal.source === null || signal.kind !== "signal" ? (
                      <span class="quiet">{KIND_LABEL[signal.kind]}</span>
                    ) : (
                      <a href={groupPath(base, signal.event, signal.source)}>{signal.event}</a>
                    )}
                  </td>
                  <td class="what">{signal.source ?? ""}</td>
                </>
              )}
              <td class="event">
                {signal.email === null ? (
                  <span class="quiet">–</span>
                ) : (
                  <a href={personByEmailPath(base, signal.email)}>{signal.email}</a>
                )}
              </td>
              <td>
                <SignalLink base={base} id={signal.id} />
              </td>
            </tr>
          ))}
        </Table>
      )}
      <NotAll complete={complete} what={counted(LIST_SCAN_SIGNALS, "signal")} />
      <Pager path={path} query={query} next={next} />
    </>
  );
}

export const KIND_LABEL = {
  signal: "Signal",
  identify: "Identify call",
  account: "Account update",
  unknown: "Not known",
} as const satisfies Record<FoundSignals["items"][number]["kind"], string>;
