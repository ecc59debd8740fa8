/** Usage, tab Plan: owners and admins change the plan and overages, and release held signals. */
import { isPlanOffered, plansFor, type Plan } from "../../d1/plans.ts";
import { updateWorkspace, type WorkspaceChange } from "../../d1/workspaces.ts";
import { overageCost, type OveragePrice } from "../../domain/quota/billing.ts";
import { ordinalsTaken, overageOfRelease, quotaBounds, roomToRelease } from "../../domain/quota/quota.ts";
import type { Balance } from "../../domain/quota/balance.ts";
import { OVERAGE_STREAK_LIMIT } from "../../limits.ts";
import type { Usage } from "../../quota/protocol.ts";
import { configureWorkspace, usageOf } from "../../use-cases/configure-workspace.ts";
import { readBooks } from "../../use-cases/read-health.ts";
import { releaseHeldSignals } from "../../use-cases/signal-operations.ts";
import type { Done } from "../copy.ts";
import { Confirm } from "../kit/forms.tsx";
import { counted, day, grouped, money } from "../kit/format.ts";
import { Badge, type Column, Panel, Table } from "../kit/parts.tsx";
import { mayManage, page } from "../page.tsx";
import { contextOf, type Ctx, formText, pages, workspacePath, done } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { requireManager } from "../session/sign-in.tsx";
import { type NoticeCopy, usageHead, UsageTabs } from "../usage-notices.tsx";

/** Also the answer for a plan that is offered to other workspaces only, because its existence is secret. */
const UNKNOWN_PLAN = "This plan does not exist.";

export const planPages = pages
  .createApp()
  .get("/plan", (c) => planPage(c))
  .post("/plan", requireManager, readForm(), async (c) => {
    const plan = formText(c.get("form"), "plan");
    const isOffered = plan !== "" && (await isPlanOffered(c.get("db"), plan, c.get("workspace").id));
    return isOffered ? changeAndRelease(c, { plan }, "plan_changed") : planPage(c, UNKNOWN_PLAN);
  })
  .post("/overages", requireManager, readForm(), async (c) => {
    const overages = formText(c.get("form"), "overages");
    if (overages !== "on" && overages !== "off") return planPage(c, "Overages are either on or off.");
    return changeAndRelease(c, { overages: overages === "on" }, `overages_${overages}`);
  })
  .post("/release", requireManager, readForm(), async (c) => {
    const [most, overages] = [formText(c.get("form"), "most"), formText(c.get("form"), "overages")];
    const isConfirmed = /^[1-9]\d{0,15}$/.test(most) && (overages === "on" || overages === "off");
    const confirmed = { most: Number(most), overages: overages === "on" };
    const release = isConfirmed ? await releaseHeldSignals(contextOf(c), confirmed) : null;
    if (release === null) return planPage(c, "Overages have changed meanwhile. Look at the price, and release again.");
    const { released, isUnderWay } = release;
    if (isUnderWay) return done(c, "usage/plan", "release_under_way");
    return done(c, "usage/plan", released > 0 ? "released" : "none_released");
  });

async function planPage(c: Ctx, error?: string): Promise<Response> {
  const [db, workspace, mayChange] = [c.get("db"), c.get("workspace"), mayManage(c)];
  const [usage, plans] = await Promise.all([usageOf(c.env, db, workspace), plansFor(db, workspace)]);
  const books = await readBooks(c.env, workspace.id, usage.periodStartMs);
  const price = plans.find(({ id }) => id === workspace.plan)?.overagePrice ?? null;
  const room = extraRoomText(usage);
  const held = Math.min(usage.held, books.held + books.inFlight);
  const props = { base: workspacePath(c), usage, held, plans, current: workspace.plan, price, mayChange };
  return page(
    c,
    { ...usageHead(usage), title: "Plan", status: error === undefined ? 200 : 422 },
    <UsageTabs base={workspacePath(c)} current="/plan" usage={usage} error={error} />,
    <Panel title="Plans" list>
      {!mayChange && <p class="quiet small">Owners and admins can change the plan and overages.</p>}
      <PlansTable {...props} />
    </Panel>,
    <div class="columns">
      <OveragesPanel {...props} />
      <HeldPanel {...props} storedHeld={books.held} />
      <Panel title="Extra room">
        <p>
          <Badge tone={room.tone}>{room.title}</Badge>
        </p>
        <p class="quiet">{room.text}</p>
      </Panel>
    </div>,
  );
}

/** The form of a change may also release held signals: as many as it said. */
async function changeAndRelease(c: Ctx, to: WorkspaceChange, text: Done): Promise<Response> {
  const changed = await changeWorkspace(c, to, text);
  const release = formText(c.get("form"), "release");
  if (changed.status !== 303 || !/^[1-9]\d{0,15}$/.test(release)) return changed;
  const overages = to.overages ?? (await usageOf(c.env, c.get("db"), c.get("workspace"))).overages;
  const released = await releaseHeldSignals(contextOf(c), { most: Number(release), overages });
  // The change is made. Without a release the page still offers it.
  return released === null || released.released === 0 ? changed : done(c, "usage/plan", "changed_and_released");
}

/** If the counter cannot be reached, the change is stored, and the next page that reads the usage pushes it. */
async function changeWorkspace(c: Ctx, to: WorkspaceChange, text: Done): Promise<Response> {
  const updated = await updateWorkspace(contextOf(c), to);
  if (!updated.ok) return planPage(c, UNKNOWN_PLAN);
  await configureWorkspace(c.env, c.get("db"), c.get("workspace").id);
  return done(c, "usage/plan", text);
}

interface Props {
  base: string;
  usage: Usage;
  /** Signals that are still held: fewer than `usage.held` if some were duplicates, or were deleted with their person. */
  held: number;
  plans: readonly Plan[];
  current: string;
  price: OveragePrice | null;
  mayChange: boolean;
}

function PlansTable({ base, usage, held, plans, current, mayChange }: Props) {
  const changes: Column<Plan> = {
    head: "Change plan",
    kind: "actions",
    cell: ({ id, name, ...terms }) =>
      id !== current && (
        <Confirm
          label={upgradeText(
            terms.signalLimit > usage.signalLimit ? "Upgrade" : "Downgrade",
            releasable(usage, held, terms),
          )}
          title={`Change to the ${name} plan?`}
          action={`${base}/usage/plan`}
          submit={upgradeText(`Change to ${name}`, releasable(usage, held, terms))}
          tone="primary"
          look="button small"
          fields={{ plan: id, ...releaseField(releasable(usage, held, terms)) }}
        >
          <p>{changeText(usage, held, { ...terms, overages: usage.overages })}</p>
          {terms.paid && !usage.paid && (
            <p>On paid plans, {OVERAGE_STREAK_LIMIT} periods in a row over the limit end the extra room permanently.</p>
          )}
        </Confirm>
      ),
  };
  return (
    <Table
      caption="Plans"
      rows={plans}
      columns={[
        {
          head: "Plan",
          cell: ({ id, name, paid }) => (
            <>
              {name} {!paid && name !== "Free" && <span class="tag">Free</span>}{" "}
              {id === current && <span class="tag">Current</span>}
            </>
          ),
        },
        { head: "Signals", kind: "number", cell: ({ signalLimit }) => grouped(signalLimit) },
        { head: "Overages", cell: ({ overagePrice }) => overagePrice !== null && priceText(overagePrice) },
        ...(mayChange ? [changes] : []),
      ]}
    />
  );
}

/** Held signals that a change makes room for, and that cannot be released without it. */
function releasable(usage: Usage, held: number, to: Partial<Pick<Usage, "signalLimit" | "overages">>): number {
  return roomToRelease(usage) > 0 ? 0 : Math.min(held, roomToRelease({ ...usage, ...to }));
}

function upgradeText(text: string, release: number): string {
  return release === 0 ? text : `${text} and release ${grouped(release)}`;
}

function releaseField(release: number): Record<string, string> {
  return release === 0 ? {} : { release: String(release) };
}

function OveragesPanel({ base, usage, held, price, mayChange }: Props) {
  const { overages, overage } = usage;
  const verb = overages ? "Disable" : "Enable";
  const release = overages ? 0 : releasable(usage, held, { overages: true });
  return (
    <Panel title="Overages">
      <p>
        <Badge tone={overages ? "good" : "quiet"}>{overages ? "On" : "Off"}</Badge>
      </p>
      <p class="quiet">
        {overages ? "All signals are accepted. " : "With overages, all signals are accepted. "}
        Those beyond the limit are billed by the operator{price !== null && ` at ${priceText(price)}`}.
      </p>
      {overages && overage > 0 && (
        <p>
          {counted(overage, "overage")} in this period{costText(overage, price)}.
        </p>
      )}
      {mayChange && (
        <Confirm
          label={upgradeText(`${verb} overages`, release)}
          title={`${verb} overages?`}
          action={`${base}/usage/overages`}
          submit={`${upgradeText(`${verb} overages`, release)}${costText(release === 0 ? 0 : overageOfRelease({ ...usage, overages: true }, release), price)}`}
          tone={overages ? "danger" : "primary"}
          fields={{ overages: overages ? "off" : "on", ...releaseField(release) }}
        >
          <p>{changeText(usage, held, { ...usage, overages: !overages, overagePrice: price })}</p>
        </Confirm>
      )}
    </Panel>
  );
}

function HeldPanel({ base, usage, price, storedHeld, mayChange }: Props & { storedHeld: number }) {
  const { fit, text } = heldText(usage, storedHeld);
  const submit = `Release ${counted(fit, "signal")}${costText(overageOfRelease(usage, fit), price)}`;
  return (
    <Panel title="Held signals" id="held">
      <p>{text}</p>
      {mayChange && fit > 0 && (
        <Confirm
          label={submit}
          title={`Release ${counted(fit, "held signal")}?`}
          action={`${base}/usage/release`}
          submit={submit}
          tone="primary"
        >
          <input type="hidden" name="most" value={fit} />
          <input type="hidden" name="overages" value={usage.overages ? "on" : "off"} />
          <p>
            {fit === 1 ? "The oldest held signal is" : `The oldest ${grouped(fit)} held signals are`} processed: rules
            run and scores change.
          </p>
          <p>This cannot be undone.</p>
        </Confirm>
      )}
    </Panel>
  );
}

/**
 * @param stored held signals of this period in the store: fewer than `usage.held` if some were duplicates or were deleted
 * with their person, more while released signals are in flight.
 * @returns fit: number of signals that can be released now.
 */
export function heldText(usage: Usage, stored: number): { fit: number; text: string } {
  const held = Math.min(Math.max(0, stored), usage.held);
  const released = Math.max(0, stored - usage.held);
  const fit = Math.min(held, roomToRelease(usage));
  const fits =
    fit > 0
      ? ` ${grouped(fit)} can be released now.`
      : ` Upgrade or enable overages to release ${held === 1 ? "it" : "them"}.`;
  const onTheWay = ` ${counted(released, "released signal is", "released signals are")} being processed.`;
  const text = `${held === 0 ? "No signals are" : counted(held, "signal is", "signals are")} held in this period.`;
  return { fit, text: `${text}${held === 0 ? "" : fits}${released === 0 ? "" : onTheWay}` };
}

/**
 * Why the list of held signals is some seconds behind the counter; empty: it is not. Without signals in flight, fewer are
 * stored because some were duplicates.
 */
export function heldOnTheWay({ held }: Pick<Usage, "held">, books: Pick<Balance, "held" | "inFlight">): string {
  const [released, arriving] = [books.held - held, Math.min(held - books.held, books.inFlight)];
  if (released > 0) return `${counted(released, "released signal is", "released signals are")} being processed.`;
  return arriving > 0 ? `${counted(arriving, "more held signal is", "more held signals are")} on the way.` : "";
}

/** The extra room, and how it is lost (spec §8.5). */
export function extraRoomText(usage: Usage): NoticeCopy {
  const { paid, overages, streak, extraRoomRemoved } = usage;
  const used = ordinalsTaken(usage);
  const rule = `After ${OVERAGE_STREAK_LIMIT} periods in a row over the limit, you permanently lose the extra room.`;
  const soFar = `${streak === 0 ? "None" : grouped(streak)} so far.`;
  if (extraRoomRemoved) {
    const now = overages
      ? "Overages are on, so no signal is rejected."
      : "Signals beyond the limit are rejected. Upgrade or enable overages to accept more.";
    const text = `${OVERAGE_STREAK_LIMIT} periods in a row ended over the limit. ${now}`;
    return { tone: "bad", title: "Permanently lost", text };
  }
  if (!paid) {
    const text = "Up to twice the limit, signals are held free of charge. Only paid plans can lose this extra room.";
    return { tone: "good", title: "Cannot be lost on this plan", text };
  }
  if (overages) {
    const reset = streak === 0 ? "" : ` ${soFar} The count resets if overages are still on when this period ends.`;
    const text = `Periods with overages on do not count towards losing the extra room.${reset}`;
    return { tone: "good", title: "Safe while overages are on", text };
  }
  const isOver = used > usage.signalLimit;
  const isLast = streak === OVERAGE_STREAK_LIMIT - 1;
  const way = isOver
    ? ` This period is over the limit. Enable overages or choose a plan of at least ${grouped(used)} signals before it ends.`
    : streak > 0
      ? " A period within the limit resets the count."
      : "";
  return {
    tone: isOver && isLast ? "bad" : isOver || streak > 0 ? "warn" : "good",
    title:
      isOver && isLast ? "Lost when this period ends" : `${streak} of ${OVERAGE_STREAK_LIMIT} periods over the limit`,
    text: `${rule} ${soFar}${way}`,
  };
}

type Terms = Pick<Plan, "signalLimit" | "paid" | "overagePrice"> & { overages: boolean };

/**
 * The effect of a change of plan or overages on new signals and on held ones.
 *
 * @param held signals that are still held.
 */
export function changeText(usage: Usage, held: number, to: Terms): string {
  const after = { ...usage, ...to };
  const used = ordinalsTaken(usage);
  const left = to.signalLimit - used;
  const { hold } = quotaBounds(after);
  const room = Math.min(held, roomToRelease(after));
  const beyond = usage.extraRoomRemoved
    ? "Signals beyond that are rejected"
    : `Then ${grouped(to.signalLimit)} are held, and signals beyond ${grouped(hold)} are rejected`;
  const price = to.overagePrice === null ? "" : ` at ${priceText(to.overagePrice)}`;
  const next = to.overages
    ? `All signals are accepted. Those beyond ${grouped(to.signalLimit)} per period are billed${price}.`
    : left > 0
      ? `${counted(left, "more signal is", "more signals are")} accepted in this period. ${beyond}.`
      : `The limit is reached in this period: the next signals are ${used >= hold ? "rejected" : "held"}.`;
  const release = room > 0 ? ` You can then release ${counted(room, "held signal")}.` : "";
  return `Takes effect with the next signal. ${next}${release}${stayHeldText(held - room, room, usage)}`;
}

/** @param room held signals that can be released; the others stay. Empty: all can. */
function stayHeldText(stay: number, room: number, { periodEndMs }: Usage): string {
  if (stay === 0) return "";
  const which =
    room > 0
      ? counted(stay, "other stays held and is", "others stay held and are")
      : counted(stay, "held signal stays held and is", "held signals stay held and are");
  return ` ${which} deleted on ${day(periodEndMs)}.`;
}

function priceText({ perThousand, currency }: OveragePrice): string {
  return `${money(perThousand, currency)} per 1,000`;
}

/** ` (about €2.60)`; empty without overages, or if no price is configured. */
export function costText(overages: number, price: OveragePrice | null): string {
  if (price === null || overages === 0) return "";
  return ` (about ${money(overageCost(overages, price), price.currency)})`;
}
