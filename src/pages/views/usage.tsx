/** The Usage page: the period's curve and forecast, the extra room, plan and overages, the books, past periods. */
import type { Plan } from "../../control/plans.ts";
import type { Workspace } from "../../control/workspaces.ts";
import type { Books } from "../../domain/books.ts";
import { reaches, type Pace } from "../../domain/forecast.ts";
import { quotaCeiling, roomToRelease } from "../../domain/quota.ts";
import type { CurvePoint } from "../../domain/usage-day.ts";
import type { ClosedPeriod, Usage } from "../../quota/protocol.ts";
import { changeSaid, streakSaid, usageNotice } from "../usage-copy.ts";
import { BooksPanel } from "./books.tsx";
import { counted, day, grouped } from "./format.ts";
import { Badge, Confirm, Empty, Head, Notice, Panel, Stat, Stats, Table } from "./parts.tsx";
import { UsageChart } from "./usage-chart.tsx";

export interface UsageData {
  /** `/w/{slug}`. */
  path: string;
  workspace: Workspace;
  plans: readonly Plan[];
  usage: Usage;
  curve: readonly CurvePoint[];
  pace: Pace | null;
  /** Since the workspace began, and of the current period. */
  books: { all: Books; period: Books };
  nowMs: number;
  /** Owners and admins: they see what can be changed. */
  manager: boolean;
  /** What was wrong with a form. */
  error?: string;
}

export function UsagePage(data: UsageData) {
  const { usage, workspace, plans, nowMs, error } = data;
  const plan = plans.find(({ id }) => id === workspace.plan);
  const notice = usageNotice(usage);
  return (
    <>
      <Head title="Usage">
        {day(usage.periodStartMs)} to {day(usage.periodEndMs)} · {plan?.name ?? workspace.plan} plan,{" "}
        {counted(usage.signalLimit, "signal")} per period
      </Head>
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
      <Now usage={usage} nowMs={nowMs} />
      <Curve data={data} />
      <div class="columns">
        <ExtraRoom data={data} />
        <Overages data={data} />
      </div>
      <Plans data={data} />
      <BooksPanel path={data.path} books={data.books} periodStartMs={usage.periodStartMs} />
      <PastPeriods history={usage.history} />
    </>
  );
}

function Now({ usage, nowMs }: { usage: Usage; nowMs: number }) {
  const used = usage.accepted + usage.held;
  const ceiling = quotaCeiling(usage);
  const days = Math.ceil((usage.periodEndMs - nowMs) / 86_400_000);
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
        note={usage.overages ? "accepted and metered" : "collected, without effect on scores"}
      />
      <Stat
        label="Refused"
        value={usage.rejected}
        note={usage.rejected === 0 ? "none for want of room" : "with a 429"}
      />
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

function Curve({ data: { usage, curve, pace, nowMs } }: { data: UsageData }) {
  const used = usage.accepted + usage.held;
  const ceiling = quotaCeiling(usage);
  const said = forecastSaid(usage, pace, nowMs);
  const label = `${counted(used, "signal")} since ${day(usage.periodStartMs)}, against a limit of ${grouped(usage.signalLimit)}. ${said}`;
  return (
    <Panel title="This period">
      <div class="chart-scroll" role="region" aria-label="The period's curve" tabindex={0}>
        <UsageChart
          label={label}
          curve={curve}
          periodStartMs={usage.periodStartMs}
          periodEndMs={usage.periodEndMs}
          signalLimit={usage.signalLimit}
          ceiling={ceiling}
          perDay={pace?.perDay ?? null}
        />
      </div>
      <ul class="chart-keys">
        <Key name="accepted">Accepted</Key>
        {usage.accepted > usage.signalLimit && <Key name="overage">Accepted beyond the limit (overages)</Key>}
        {usage.held > 0 && <Key name="held">Held</Key>}
        {usage.rejected > 0 && <Key name="refused">Refused that day</Key>}
        {pace !== null && <Key name="forecast">Forecast</Key>}
      </ul>
      <p>{said}</p>
      <details>
        <summary class="small">The numbers, day by day</summary>
        <Table
          caption="Usage by day"
          head={[
            "Until the end of",
            { text: "Accepted", number: true },
            { text: "Held", number: true },
            { text: "Refused", number: true },
          ]}
        >
          {curve.slice(1).map(({ atMs, accepted, held, rejected }, index, points) => (
            <tr>
              <th scope="row" class="nowrap">
                {index === points.length - 1 ? "now" : day(atMs - 1)}
              </th>
              <td class="number">{grouped(accepted)}</td>
              <td class="number">{grouped(held)}</td>
              <td class="number">{grouped(rejected)}</td>
            </tr>
          ))}
        </Table>
      </details>
    </Panel>
  );
}

function Key({ name, children }: { name: string; children: string }) {
  return (
    <li>
      <span class={`key ${name}`} aria-hidden="true" />
      {children}
    </li>
  );
}

/** When the limit and twice the limit are reached, and what that is reckoned from. */
function forecastSaid(usage: Usage, pace: Pace | null, nowMs: number): string {
  if (pace === null) return "There is no forecast yet: it needs at least an hour of signals.";
  const now = { nowMs, periodEndMs: usage.periodEndMs, used: usage.accepted + usage.held };
  const from =
    pace.fullDays === 0
      ? "as today alone says, roughly"
      : `the mean of the last ${pace.fullDays === 1 ? "full day" : `${pace.fullDays} full days`}`;
  const perDay = `At ${counted(Math.round(pace.perDay), "signal")} a day (${from})`;
  const when = (target: number, name: string) => {
    const at = reaches(target, pace.perDay, now);
    if (at === "reached") return `${name} is reached`;
    return at === null ? `${name} will not be reached in this period` : `${name} will be reached on ${day(at)}`;
  };
  const limit = when(usage.signalLimit, "the limit");
  // Beyond the limit nothing more happens with overages, and everything without extra room.
  const twice = usage.overages || usage.extraRoomRemoved ? null : when(2 * usage.signalLimit, "twice the limit");
  if (twice === null || limit.includes("not")) return `${perDay}, ${limit}.`;
  return `${perDay}, ${limit}, and ${twice}.`;
}

function ExtraRoom({ data: { usage } }: { data: UsageData }) {
  const { tone, title, text } = streakSaid(usage);
  return (
    <Panel title="Extra room">
      <p>
        <Badge tone={tone}>{usage.extraRoomRemoved ? "Ended" : `${usage.streak} in a row`}</Badge>{" "}
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

function Overages({ data: { path, usage, books, manager } }: { data: UsageData }) {
  const to = usage.overages ? "off" : "on";
  // What is stored as held: a duplicate among those counted as held is held no longer.
  const held = Math.max(0, books.period.held);
  const fit = Math.min(held, roomToRelease(usage));
  return (
    <Panel title="Overages and held signals">
      <p>
        <Badge tone={usage.overages ? "good" : "quiet"}>{usage.overages ? "Overages on" : "Overages off"}</Badge>{" "}
        {usage.overages
          ? "Every signal is accepted; beyond the limit they are metered."
          : "Pay-as-you-go would accept every signal beyond the limit, and meter it."}
      </p>
      {manager && (
        <Confirm
          label={`Switch overages ${to}`}
          action={`${path}/usage/overages`}
          submit={`Switch overages ${to}`}
          tone={usage.overages ? "danger" : "primary"}
        >
          <input type="hidden" name="overages" value={to} />
          <p>{changeSaid(usage, { ...usage, overages: !usage.overages })}</p>
        </Confirm>
      )}
      <p>
        <strong>{counted(held, "held signal")}</strong> in this period
        {held > 0 &&
          (fit > 0
            ? `; ${grouped(fit)} of them fit now.`
            : "; none fits: it takes a larger plan or overages to release them.")}
      </p>
      {manager && fit > 0 && (
        <Confirm
          label="Release held signals"
          action={`${path}/usage/release`}
          submit={`Release ${counted(fit, "signal")}`}
          tone="primary"
        >
          <p>
            The oldest {counted(fit, "held signal")} will be accepted and processed as if they had never been held:
            rules run, scores change. That cannot be taken back.
          </p>
        </Confirm>
      )}
    </Panel>
  );
}

function Plans({ data: { path, usage, workspace, plans, manager } }: { data: UsageData }) {
  return (
    <Panel title="Plan" flush>
      <Table
        caption="Plans"
        head={[
          "Plan",
          { text: "Signals per period", number: true },
          "Paid",
          ...(manager ? [{ text: "Change", hidden: true }] : []),
        ]}
      >
        {plans.map((plan) => (
          <tr>
            <th scope="row">
              {plan.name} {plan.id === workspace.plan && <Badge tone="info">Current</Badge>}
            </th>
            <td class="number">{grouped(plan.signalLimit)}</td>
            <td>{plan.paid ? "paid" : "unpaid"}</td>
            {manager && (
              <td>
                {plan.id !== workspace.plan && (
                  <Confirm
                    label="Change"
                    action={`${path}/usage/plan`}
                    submit={`Change to ${plan.name}`}
                    tone="primary"
                  >
                    <input type="hidden" name="plan" value={plan.id} />
                    <p>{changeSaid(usage, { ...plan, overages: usage.overages })}</p>
                    {plan.paid && !usage.paid && (
                      <p>On a paid plan, three periods in a row over the limit end the extra room for good.</p>
                    )}
                  </Confirm>
                )}
              </td>
            )}
          </tr>
        ))}
      </Table>
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
            { text: "Over in a row", number: true },
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
