/** The lists of all signals and of dead letters, and the parts that all pages of signals share. */
import type { SignalStatus } from "../../domain/signal/signal.ts";
import { TOO_MANY_STEPS } from "../../domain/rules/evaluate-rules.ts";
import { namesSent } from "../../domain/signal/normalise.ts";
import { PAGE_ROWS } from "../../limits.ts";
import type { StoreTotals } from "../../store/protocol/stored-signals.ts";
import { usageOf } from "../../use-cases/configure-workspace.ts";
import { readBooks } from "../../use-cases/read-health.ts";
import { replayDeadLetters } from "../../use-cases/signal-operations.ts";
import { optionsOf, signalTitle, STATUS_COPY } from "../copy.ts";
import { readKeyFilter } from "../keys/key-parts.tsx";
import { Confirm, LinkButton, PostButton } from "../kit/forms.tsx";
import { grouped } from "../kit/format.ts";
import { Filters, ListAddress, ListPanel, scanUntilMatch } from "../kit/list.tsx";
import { Empty, ShortId, Table, Tabs, Time, WithCode } from "../kit/parts.tsx";
import { mayManage, page } from "../page.tsx";
import {
  contextOf,
  type Ctx,
  formText,
  mapPath,
  pages,
  storeOf,
  workspacePath,
  signalPath,
  done,
} from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { SignalList } from "../signal-list.tsx";
import { requireManager } from "../session/sign-in.tsx";
import { heldOnTheWay } from "../usage/plan.tsx";

const { in_flight: _, rejected: __, ...RECORDED } = STATUS_COPY;
const STATUS_OPTIONS = optionsOf<SignalStatus>("Any status", RECORDED);

export const listPages = pages
  .createApp()
  .get("/all", async (c) => {
    const base = workspacePath(c);
    const query = c.req.query();
    const id = [query["id"], query["email"]].find(isSignalId);
    if (id !== undefined) return c.redirect(signalPath(base, id.trim()), 303);
    const list = new ListAddress(`${base}/signals/all`, query);
    const store = storeOf(c);
    const names = await store.recentNames();
    const filter = {
      email: list.searchText("email", "Person", "Search email or signal id"),
      event: inKnownCase(list.text("event", "Event"), names.events),
      source: inKnownCase(list.text("source", "Source"), names.sources),
      status: list.choice("status", "Status", STATUS_OPTIONS),
      keyId: (await readKeyFilter(c, list)) || undefined,
      ...list.times("Received"),
    };
    const isHeld = filter.status === "held";
    const onTheWay = isHeld ? await readHeldOnTheWay(c) : "";
    const signals = await scanUntilMatch(list.slice(PAGE_ROWS), (slice) => store.signals(filter, slice));
    const totals = await store.totals();
    // Not the filters, which somebody may be filling in.
    const follows = onTheWay === "" ? {} : { "data-refresh": "2000" };
    return page(
      c,
      { ...SIGNAL_PAGE, title: "All signals" },
      <div class="stack" id="head" {...follows}>
        <SignalTabs base={base} shown={isHeld ? "/all?status=held" : "/all"} totals={totals} />
        {isHeld && totals.held > 0 && (
          <p>
            Held signals do not update scores until an owner or admin releases them, which needs a larger plan, overages
            or room below the limit. <a href={`${base}/usage/plan#held`}>See what is needed</a>
          </p>
        )}
      </div>,
      <Filters list={list} suggestions={{ event: names.events, source: names.sources }} />,
      <div class="stack" id="list" {...follows}>
        {onTheWay !== "" && <p class="quiet">{onTheWay}</p>}
        <SignalList base={base} list={list} signals={signals} withEvent empty={<NoSignals base={base} />} />
      </div>,
    );
  })
  .get("/dead-letters", async (c) => {
    const [base, isManager] = [workspacePath(c), mayManage(c)];
    const list = new ListAddress(`${base}/signals/dead-letters`, c.req.query());
    const store = storeOf(c);
    const [found, totals] = await Promise.all([store.deadLetters(list.slice(PAGE_ROWS)), store.totals()]);
    return page(
      c,
      { ...SIGNAL_PAGE, title: "Dead letters" },
      <SignalTabs base={base} shown="/dead-letters" totals={totals} />,
      <ListPanel
        title="Accepted, but not processed"
        actions={isManager && found.items.length > 0 && <ReplayAll base={base} />}
        list={list}
        found={found}
        empty={<Empty title="No dead letters" text="No signal has failed to be processed." />}
      >
        <Table
          caption="Dead letters"
          rows={found.items}
          href={({ id }) => signalPath(base, id)}
          columns={[
            {
              head: "Signal",
              cell: ({ id, payload }) => (
                <>
                  {signalTitle({ kind: "unknown", event: namesSent(payload).event, isGroupCall: false })}
                  <small>
                    <ShortId id={id} />
                  </small>
                </>
              ),
            },
            { head: "Person", cell: ({ payload }) => namesSent(payload).email },
            { head: "Source", cell: ({ payload }) => namesSent(payload).source, drop: "narrow" },
            { head: "Reason", kind: "text", cell: ({ reason }) => <DeadReason base={base} reason={reason} /> },
            { head: "Received", cell: ({ receivedAtMs }) => <Time ms={receivedAtMs} /> },
            {
              head: "Actions",
              kind: "actions",
              cell: ({ id, keyId, misfit }) =>
                isManager &&
                // A misfit needs another template first.
                (misfit ? (
                  <LinkButton href={mapPath(base, { keyId, id })} text="Map" look="small" />
                ) : (
                  <ReplayButton base={base} id={id} />
                )),
            },
          ]}
        />
      </ListPanel>,
    );
  })
  .post("/dead-letters/replay", requireManager, readForm(), async (c) => {
    const form = c.get("form");
    const id = form.has("id") ? formText(form, "id") : undefined;
    const ids = id === undefined ? null : [id];
    const { replayed, isUnderWay } = await replayDeadLetters(contextOf(c), ids);
    if (isUnderWay) return done(c, "signals/dead-letters", "replay_under_way");
    const back = replayed > 0 && id !== undefined ? `signals/${id}?replayed=${Date.now()}` : "signals/dead-letters";
    return done(c, back, replayed > 0 ? "replayed" : "nothing_to_replay");
  });

/** The queue brings a held or released signal to the store within seconds. */
async function readHeldOnTheWay(c: Ctx): Promise<string> {
  const usage = await usageOf(c.env, c.get("db"), c.get("workspace"));
  return heldOnTheWay(usage, await readBooks(c.env, c.get("workspace").id, usage.periodStartMs));
}

export function DeadReason({ base, reason }: { base: string; reason: string }) {
  if (reason !== TOO_MANY_STEPS) return <WithCode text={reason} />;
  return (
    <>
      <strong>Rules take too long.</strong> {reason} <a href={`${base}/rules`}>View mapping rules</a>
    </>
  );
}

export function SignalLink({ base, id }: { base: string; id: string }) {
  return (
    <a class="small" href={signalPath(base, id)} title={id}>
      View signal
    </a>
  );
}

export function isSignalId(text: string | undefined): text is string {
  return /^\s*sig_[\w-]+\s*$/.test(text ?? "");
}

/** The store compares names exactly, but people type them in any letter case. */
function inKnownCase(text: string | undefined, known: readonly string[]): string | undefined {
  if (text === undefined || known.includes(text)) return text;
  return known.find((name) => name.toLowerCase() === text.toLowerCase()) ?? text;
}

export const SIGNAL_PAGE = { section: "signals", title: "Signal queue", heading: "Signal queue" } as const;

interface TabsProps {
  base: string;
  shown: "" | "/all" | "/all?status=held" | "/dead-letters";
  totals: StoreTotals;
}

export function SignalTabs({ base, shown, totals: { held, deadLettered } }: TabsProps) {
  const tabs = [
    ["", "By event", 0],
    ["/all", "All signals", 0],
    ["/all?status=held", "Held", held],
    ["/dead-letters", "Dead letters", deadLettered],
  ] as const;
  return (
    <Tabs
      label="Lists of signals"
      tabs={tabs.map(([path, text, count]) => ({
        href: `${base}/signals${path}`,
        text: [text, " ", count > 0 && <span class="tag">{grouped(count)}</span>],
        current: path === shown,
      }))}
    />
  );
}

export function NoSignals({ base }: { base: string }) {
  return (
    <Empty title="No signals yet" text="The first signal appears here within seconds.">
      <LinkButton href={`${base}/connect`} text="Connect a sender" look="primary" />
    </Empty>
  );
}

function replayPath(base: string): string {
  return `${base}/signals/dead-letters/replay`;
}

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
