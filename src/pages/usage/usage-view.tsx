/** The Usage page: the period's curve and forecast, the extra room, plan and overages, the books, past periods. */
import { DAY_MS } from "../../domain/duration.ts";
import { ordinalsTaken, quotaCeiling } from "../../domain/quota/quota.ts";
import { OVERAGE_STREAK_LIMIT } from "../../limits.ts";
import type { ClosedPeriod, Usage } from "../../quota/protocol.ts";
import type { StorageHealth } from "../../workspace/read-health.ts";
import { streakSaid, usageNotice } from "../views/usage-copy.ts";
import { BooksPanel } from "./books-panel.tsx";
import { counted, day, grouped } from "../kit/format.ts";
import { Badge, Empty, PageHead, Notice, Panel, Stat, Stats } from "../views/parts.tsx";
import { Table } from "../views/table.tsx";
import { StorageNotice, StoragePanel } from "./storage-panel.tsx";
import { OveragesPanel, PlansPanel, type ChangesData } from "./usage-changes.tsx";
import { UsageCurvePanel, type CurveData } from "./usage-curve.tsx";

export interface UsageData extends CurveData, ChangesData {
  health: StorageHealth;
  /** What was wrong with the form that was sent. */
  error?: string;
}

export function UsageView(data: UsageData) {
  const { usage, health, workspace, plans, nowMs, error } = data;
  const plan = plans.find(({ id }) => id === workspace.plan);
  const notice = usageNotice(usage);
  return (
    <>
      <PageHead title="Usage">
        {day(usage.periodStartMs)} to {day(usage.periodEndMs)} · {plan?.name ?? workspace.plan} plan,{" "}
        {counted(usage.signalLimit, "signal")} per period
      </PageHead>
      {error !== undefined && (
        <Notice tone="bad" title="Nothing was changed.">
          <p>{error}</p>
        </Notice>
      )}
      {notice !== null && (
        <Notice tone={notice.tone} title={notice.title}>
          <p>{notice.text}</p>
        </Notice>
      )}
      <StorageNotice health={health} nowMs={nowMs} />
      <Now usage={usage} nowMs={nowMs} />
      <div class="beside">
        <UsageCurvePanel data={data} />
        <div class="columns">
          <ExtraRoom data={data} />
          <OveragesPanel data={data} />
        </div>
      </div>
      <div class="columns wide">
        <PlansPanel data={data} />
        <BooksPanel path={data.path} books={data.books} periodStartMs={usage.periodStartMs} />
      </div>
      <StoragePanel health={health} nowMs={nowMs} />
      <PastPeriods history={usage.history} />
    </>
  );
}

function Now({ usage, nowMs }: { usage: Usage; nowMs: number }) {
  const used = ordinalsTaken(usage);
  const ceiling = quotaCeiling(usage);
  const days = Math.ceil((usage.periodEndMs - nowMs) / DAY_MS);
  return (
    <Stats>
      <Stat
        label="Used"
        value={used}
        note={`${percent(used, usage.signalLimit)} of ${grouped(usage.signalLimit)}; ${counted(days, "day")} to go`}
      />
      <Stat
        label={usage.overages ? "Beyond the limit" : "Held"}
        value={usage.overages ? usage.overage : usage.held}
        note={usage.overages ? "accepted as overages" : "collected, without effect on scores"}
      />
      <Stat label="Refused" value={usage.rejected} note={usage.rejected === 0 ? "none over the limit" : "with a 429"} />
      <Stat
        label="Until refusals"
        value={ceiling === null ? "No end" : Math.max(0, ceiling - used)}
        note={ceiling === null ? "overages are on" : usage.extraRoomRemoved ? "the limit" : "twice the limit"}
      />
    </Stats>
  );
}

function percent(used: number, signalLimit: number): string {
  const value = (100 * used) / signalLimit;
  return `${value > 0 && value < 10 ? value.toFixed(1) : grouped(Math.floor(value))} %`;
}

function ExtraRoom({ data: { usage } }: { data: UsageData }) {
  const { tone, title, text } = streakSaid(usage);
  return (
    <Panel title="Extra room">
      <p>
        <Badge tone={tone}>
          {usage.extraRoomRemoved ? "Ended" : `${usage.streak} of ${OVERAGE_STREAK_LIMIT} periods over the limit`}
        </Badge>{" "}
        <strong>{title}</strong>
      </p>
      <p>{text}</p>
      {!usage.extraRoomRemoved && !usage.overages && (
        <p class="quiet small">
          The extra room is what lies between the limit and twice the limit: signals are collected there at no charge,
          and held.
        </p>
      )}
    </Panel>
  );
}

function PastPeriods({ history }: { history: readonly ClosedPeriod[] }) {
  return (
    <Panel title="Past periods" flush>
      {history.length === 0 ? (
        <Empty title="No period has ended yet">
          <p>Each one stays here, with what was accepted, held and refused.</p>
        </Empty>
      ) : (
        <Table
          caption="Past periods"
          head={[
            "Period",
            { text: "Limit", number: true },
            { text: "Accepted", number: true },
            { text: "Held", number: true },
            { text: "Refused", number: true },
            { text: "Overage", number: true },
            { text: "Overage streak", number: true },
          ]}
        >
          {history.map((period) => (
            <tr>
              <th scope="row" class="nowrap">
                {day(period.periodStartMs)} to {day(period.periodEndMs)}
              </th>
              <td class="number">{grouped(period.signalLimit)}</td>
              <td class="number">{grouped(period.accepted)}</td>
              <td class="number">{grouped(period.held)}</td>
              <td class="number">{grouped(period.rejected)}</td>
              <td class="number">{period.overages ? grouped(period.overage) : "off"}</td>
              <td class="number">{grouped(period.streak)}</td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}
