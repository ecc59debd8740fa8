/** Signals that could not be processed: why, and how they are tried again. */
import type { PageOf } from "../../platform/list-page.ts";
import type { DeadLetter } from "../../store/protocol/stored-signals.ts";
import { Confirm } from "../views/confirm.tsx";
import { Empty, PageHead, Json, JSON_SAMPLE_CHARACTERS, Panel, Time } from "../views/parts.tsx";
import { Pager, Table } from "../views/table.tsx";
import { SignalLink, SignalTabs } from "./signal-parts.tsx";

export function DeadLettersView({
  base,
  manager,
  query,
  letters: { items, next },
}: {
  base: string;
  manager: boolean;
  query: Record<string, string>;
  letters: PageOf<DeadLetter>;
}) {
  const replay = `${base}/signals/dead-letters/replay`;
  return (
    <>
      <PageHead
        title="Dead letters"
        actions={
          manager &&
          items.length > 0 && (
            <Confirm label="Replay all" action={replay} submit="Replay all of them" tone="primary">
              <p>
                Sends every dead letter through the queue once more. They keep their ids and are not counted again; what
                still cannot be processed comes back here.
              </p>
            </Confirm>
          )
        }
      >
        Signals that were accepted and could not be processed. Nothing of them is lost: replay them once the cause is
        gone.
      </PageHead>
      <SignalTabs base={base} shown="dead" />
      <Panel flush>
        {items.length === 0 ? (
          <Empty title="No dead letters">
            <p>
              Every signal could be processed. <a href={`${base}/signals`}>To the signal queue</a>
            </p>
          </Empty>
        ) : (
          <Table
            caption="Dead letters"
            head={["Received", "Reason", "Signal", ...(manager ? [{ text: "Replay", hidden: true }] : [])]}
          >
            {items.map((letter) => (
              <tr>
                <td>
                  <Time ms={letter.receivedAtMs} />
                </td>
                <td class="reason">
                  {letter.reason}
                  <details class="sample">
                    <summary class="small">Payload</summary>
                    <Json
                      value={letter.payload}
                      label={`Payload of ${letter.id}`}
                      characters={JSON_SAMPLE_CHARACTERS}
                    />
                  </details>
                </td>
                <td>
                  <SignalLink base={base} id={letter.id} />
                </td>
                {manager && (
                  <td>
                    <form method="post" action={replay} data-once>
                      <input type="hidden" name="id" value={letter.id} />
                      <button class="small" aria-label={`Replay ${letter.id}`}>
                        Replay
                      </button>
                    </form>
                  </td>
                )}
              </tr>
            ))}
          </Table>
        )}
        <Pager path={`${base}/signals/dead-letters`} query={query} next={next} />
      </Panel>
    </>
  );
}
