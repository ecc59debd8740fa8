/** Held signals (spec §8.4): the list, and their release. */
import type { Context } from "hono";
import { findPlan } from "../../control/plans.ts";
import { overageCost, type OveragePrice } from "../../domain/quota/billing.ts";
import { overageOfRelease, roomToRelease } from "../../domain/quota/quota.ts";
import { PAGE_ROWS } from "../../limits.ts";
import type { Usage } from "../../quota/protocol.ts";
import { usageOf } from "../../workspace/configure-workspace.ts";
import { signalStore } from "../../workspace/objects.ts";
import { releaseForWorkspace } from "../../workspace/signal-operations.ts";
import { Confirm } from "../kit/actions.tsx";
import { counted, day, grouped, money } from "../kit/format.ts";
import { ListAddress, scanOn } from "../kit/list-address.ts";
import { Empty, Notice, Panel } from "../kit/parts.tsx";
import { done, mayManage, page } from "../page.tsx";
import { contextOf, pages, type PagesEnv, workspacePath } from "../pages-env.ts";
import { requireManager } from "../session/require-sign-in.ts";
import { SignalHead, SignalTable } from "./signals.tsx";

export const heldPages = pages
  .createApp()
  .get("/held", async (c) => {
    const base = workspacePath(c);
    const list = new ListAddress(`${base}/signals/held`, c.req.query());
    const store = signalStore(c.env, c.get("workspace").id);
    const [signals, totals] = await Promise.all([
      scanOn(list.slice(PAGE_ROWS), (slice) => store.signals({ status: "held" }, slice)),
      store.totals(),
    ]);
    const release = await readRelease(c, totals.held);
    const isEmpty = signals.items.length === 0 && signals.complete;
    return page(
      c,
      { title: "Held signals", section: "signals" },
      <>
        <SignalHead base={base} shown="held" totals={totals} />
        {!isEmpty && <HeldNotice base={base} release={release} mayManage={mayManage(c)} />}
        <Panel list>
          {isEmpty && (
            <Empty title="No held signals">
              <p>Signals beyond the signal limit are held until somebody releases them or the period ends.</p>
            </Empty>
          )}
          <SignalTable base={base} list={list} signals={signals} withEvent />
        </Panel>
      </>,
    );
  })
  .post("/held/release", requireManager, async (c) => {
    const { released, isUnderWay } = await releaseForWorkspace(contextOf(c));
    if (isUnderWay) return done(c, "signals/held", "release_under_way");
    return done(c, "signals/held", released > 0 ? "released" : "none_released");
  });

interface Release {
  usage: Usage;
  held: number;
  /** Held signals that can be released now. */
  fit: number;
  /** Null: no price is configured. */
  price: OveragePrice | null;
}

/** @param held number of held signals in the store. */
async function readRelease(c: Context<PagesEnv>, held: number): Promise<Release> {
  const workspace = c.get("workspace");
  const [usage, plan] = await Promise.all([
    usageOf(c.env, c.get("db"), workspace),
    findPlan(c.get("db"), workspace.plan),
  ]);
  return { usage, held, fit: Math.min(held, roomToRelease(usage)), price: plan?.overagePrice ?? null };
}

function HeldNotice({ base, release, mayManage }: { base: string; release: Release; mayManage: boolean }) {
  const { usage, held, fit } = release;
  return (
    <Notice tone="warn" title={`${counted(held, "signal is", "signals are")} held`}>
      <p>
        They do not update scores. They are deleted on {day(usage.periodEndMs)}.{" "}
        {fit === 0 && (
          <>
            <a href={`${base}/usage`}>Upgrade or enable overages</a> to release them.
          </>
        )}
        {fit > 0 && fit < held && `${grouped(fit)} of them fit into the signal limit now.`}
        {fit > 0 && !mayManage && " An owner or admin can release them."}
      </p>
      {fit > 0 && mayManage && (
        <Confirm
          label={releaseText(release)}
          title={`Release ${counted(fit, "held signal")}?`}
          action={`${base}/signals/held/release`}
          submit={releaseText(release)}
          tone="primary"
        >
          <p>The oldest held signals are accepted and processed: rules run and scores change. This cannot be undone.</p>
        </Confirm>
      )}
    </Notice>
  );
}

/** Such as `Release 1,400 signals (about $2.10)`: with overages on, a release is billed. */
export function releaseText({ usage, fit, price }: Pick<Release, "usage" | "fit" | "price">): string {
  const overages = overageOfRelease(usage, fit);
  const cost =
    price === null || overages === 0 ? "" : ` (about ${money(overageCost(overages, price), price.currency)})`;
  return `Release ${counted(fit, "signal")}${cost}`;
}
