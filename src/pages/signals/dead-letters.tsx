/** Dead letters: signals that could not be processed, and their replay. */
import { PAGE_ROWS } from "../../limits.ts";
import { replay } from "../../workspace/signal-operations.ts";
import { Confirm, PostButton } from "../kit/actions.tsx";
import { ListAddress, Pager } from "../kit/list.tsx";
import { Empty, Panel, ShortId, Table, Time } from "../kit/parts.tsx";
import { done, mayManage, page } from "../page.tsx";
import { contextOf, pages, storeOf, workspacePath } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { requireManager } from "../session/sign-in.tsx";
import { SIGNAL_PAGE, signalPath, SignalTabs } from "./signals.tsx";

export const deadLetterPages = pages
  .createApp()
  .get("/dead-letters", async (c) => {
    const [base, isManager] = [workspacePath(c), mayManage(c)];
    const list = new ListAddress(`${base}/signals/dead-letters`, c.req.query());
    const store = storeOf(c);
    const [{ items, next }, totals] = await Promise.all([store.deadLetters(list.slice(PAGE_ROWS)), store.totals()]);
    return page(
      c,
      { ...SIGNAL_PAGE, title: "Dead letters" },
      <>
        <SignalTabs base={base} shown="/dead-letters" totals={totals} />
        {items.length === 0 ? (
          <Empty title="No dead letters" text="Every signal was processed." />
        ) : (
          <Panel title="Accepted, but not processed" actions={isManager && <ReplayAll base={base} />} list>
            <Table
              caption="Dead letters"
              rows={items}
              href={({ id }) => signalPath(base, id)}
              columns={[
                { head: "Signal", cell: ({ id }) => <ShortId id={id} /> },
                { head: "Reason", kind: "text", cell: ({ reason }) => reason },
                { head: "Received", cell: ({ receivedAtMs }) => <Time ms={receivedAtMs} /> },
                {
                  head: "Replay",
                  kind: "actions",
                  cell: ({ id }) => isManager && <ReplayButton base={base} id={id} />,
                },
              ]}
            />
            <Pager list={list} next={next} />
          </Panel>
        )}
      </>,
    );
  })
  .post("/dead-letters/replay", requireManager, readForm(), async (c) => {
    const id = c.get("form").get("id");
    const ids = typeof id === "string" ? [id] : null;
    const { replayed, isUnderWay } = await replay(contextOf(c), ids);
    if (isUnderWay) return done(c, "signals/dead-letters", "replay_under_way");
    const back = replayed > 0 && typeof id === "string" ? `signals/${id}` : "signals/dead-letters";
    return done(c, back, replayed > 0 ? "replayed" : "nothing_to_replay");
  });

function replayPath(base: string): string {
  return `${base}/signals/dead-letters/replay`;
}

/** A button for owners and admins. */
export function ReplayButton({ base, id }: { base: string; id: string }) {
  return <PostButton action={replayPath(base)} look="small" fields={{ id }} label={`Replay ${id}`} text="Replay" />;
}

function ReplayAll({ base }: { base: string }) {
  const action = replayPath(base);
  return (
    <Confirm label="Replay all" title="Replay all dead letters?" action={action} submit="Replay all" tone="primary">
      <p>They go through the queue again, with the same ids. They do not count towards the signal limit again.</p>
    </Confirm>
  );
}
