/** Signal Queue (spec §6.3): groups, their signals, the trace of each, and the dead letters. */
import type { Context } from "hono";
import { canManageKeys } from "../../domain/keys/role.ts";
import { findKey, listKeys } from "../../control/api-keys.ts";
import { listRules, ruleNames } from "../../control/stored-rules.ts";
import { GROUP_SAMPLES, PAGE_ROWS } from "../../limits.ts";
import type { Page } from "../../platform/list-page.ts";
import { replay } from "../../workspace/signal-operations.ts";
import { signalStore } from "../../workspace/objects.ts";
import { followSignal } from "../../workspace/signal-operations.ts";
import { readForm } from "../read-form.tsx";
import { pages, type PagesEnv, workspacePath, contextOf } from "../pages-env.ts";
import { done, mayManage, notFoundPage, page } from "../page.tsx";
import { requireManager } from "../session/require-sign-in.ts";
import { queueFilter, signalFilter, statusAsked } from "./signal-filters.ts";
import { readKeyFilter } from "../key-filter.ts";
import { isDismissed } from "../usage-bar.tsx";
import { FirstSteps } from "./first-steps.tsx";
import { DeadLettersView } from "./dead-letters-view.tsx";
import { SignalGroupView } from "./signal-group-view.tsx";
import { SignalListView } from "./signal-list-view.tsx";
import { hasSignals, SignalQueueView } from "./signal-queue-view.tsx";
import { SignalTraceView } from "./signal-trace-view.tsx";

export const signalPages = pages
  .createApp()
  .get("/", async (c) => {
    const query = c.req.query();
    if (isSignalId(query["q"])) return c.redirect(`${workspacePath(c)}/signals/${query["q"].trim()}`, 303);
    const { hasPeople, ...queue } = await storeOf(c).queuePage(queueFilter(query), pageAsked(c));
    const firstSteps =
      Object.keys(query).length === 0 && !isDismissed(c, "first-steps", "all")
        ? await firstStepsOf(c, { signal: hasSignals(queue.totals), person: hasPeople })
        : null;
    const known = { base: workspacePath(c), query, nowMs: Date.now(), firstSteps };
    return page(c, { title: "Signal Queue", section: "signals" }, <SignalQueueView {...known} {...queue} />);
  })
  .get("/group", async (c) => {
    const { event = "", source = "", ...query } = c.req.query();
    const store = storeOf(c);
    const found = await store.queueGroup(event, source, statusAsked(query["status"]), pageAsked(c));
    if (found === null) return notFoundPage(c, "event");
    const { group, signals } = found;
    const stored = signals.items.filter(({ status }) => status !== "duplicate" && status !== "purged");
    const ids = new Set([group.sampleId, ...stored.map(({ id }) => id)]);
    const wanted = query["cursor"] === undefined ? [...ids].slice(0, GROUP_SAMPLES) : [];
    const traces = await Promise.all(wanted.map((id) => store.signal(id)));
    const samples = traces.flatMap((trace) => (trace === null || trace.payload === null ? [] : [trace]));
    const known = { base: workspacePath(c), manager: mayManage(c), query: c.req.query(), nowMs: Date.now() };
    return page(
      c,
      { title: event, section: "signals" },
      <SignalGroupView {...known} group={group} signals={signals} samples={samples} />,
    );
  })
  .get("/all", async (c) => {
    const query = c.req.query();
    if (isSignalId(query["id"])) return c.redirect(`${workspacePath(c)}/signals/${query["id"].trim()}`, 303);
    // Spec §1: only owners and admins find signals by their key.
    const keyFilter = canManageKeys(c.get("role"))
      ? await readKeyFilter(c.get("db"), c.get("workspace").id, query)
      : null;
    const [signals, names] = await Promise.all([
      storeOf(c).signals(signalFilter(query, keyFilter?.id ?? ""), pageAsked(c)),
      storeOf(c).recentNames(),
    ]);
    return page(
      c,
      { title: "All signals", section: "signals" },
      <SignalListView base={workspacePath(c)} query={query} names={names} keyFilter={keyFilter} signals={signals} />,
    );
  })
  .get("/dead-letters", async (c) => {
    const letters = await storeOf(c).deadLetters(pageAsked(c));
    return page(
      c,
      { title: "Dead letters", section: "signals" },
      <DeadLettersView base={workspacePath(c)} manager={mayManage(c)} query={c.req.query()} letters={letters} />,
    );
  })
  .post("/dead-letters/replay", requireManager, readForm(), async (c) => {
    const id = c.get("form").get("id");
    const ids = typeof id === "string" ? [id] : null;
    const { replayed, isUnderWay } = await replay(contextOf(c), ids);
    if (isUnderWay) return done(c, "signals/dead-letters", "replay_under_way");
    const back = replayed > 0 && typeof id === "string" ? `signals/${id}` : "signals/dead-letters";
    return done(c, back, replayed > 0 ? "replayed" : "nothing_to_replay");
  })
  .get("/:signal_id", async (c) => {
    const { id } = c.get("workspace");
    const found = await followSignal(c.env, id, c.req.param("signal_id"));
    if (found === null) return notFoundPage(c, "signal");
    const signal = "recorded" in found ? found.recorded : found.inFlight;
    const ruleIds = "recorded" in found ? found.recorded.rulesMatched.map(({ ruleId }) => ruleId) : [];
    const [key, rules] = await Promise.all([
      // Spec §1: keys are shown only to owners and admins.
      mayManage(c) ? findKey(c.get("db"), id, signal.keyId) : null,
      ruleNames(c.get("db"), id, ruleIds),
    ]);
    const known = { base: workspacePath(c), manager: mayManage(c), apiKey: key, rules };
    return page(c, { title: signal.id, section: "signals" }, <SignalTraceView {...known} found={found} />);
  });

/** Which first steps are done; null where all of them are. */
async function firstStepsOf(c: Context<PagesEnv>, recorded: { signal: boolean; person: boolean }) {
  const [db, { id }, one] = [c.get("db"), c.get("workspace"), { cursor: null, limit: 1 }];
  const [keys, rules] = await Promise.all([listKeys(db, id, one), listRules(db, id, one)]);
  const steps = { key: keys.items.length > 0, rule: rules.items.length > 0, ...recorded };
  if (Object.values(steps).every(Boolean)) return null;
  return <FirstSteps base={workspacePath(c)} manager={mayManage(c)} done={steps} />;
}

function storeOf(c: Context<PagesEnv>) {
  return signalStore(c.env, c.get("workspace").id);
}

function pageAsked(c: Context<PagesEnv>): Page {
  return { cursor: c.req.query("cursor") ?? null, limit: PAGE_ROWS };
}

function isSignalId(text: string | undefined): text is string {
  return /^\s*sig_[\w-]+\s*$/.test(text ?? "");
}
