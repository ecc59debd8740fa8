/** What owners and admins can change on the Usage page: overages, held signals, the plan. */
import type { Plan } from "../../control/plans.ts";
import type { Workspace } from "../../control/workspaces.ts";
import type { Balance } from "../../domain/quota/balance.ts";
import type { OveragePrice } from "../../domain/quota/billing.ts";
import type { Usage } from "../../quota/protocol.ts";
import { atPrice, changeSaid, heldSaid, thatCost } from "../views/usage-copy.ts";
import { counted, grouped } from "../kit/format.ts";
import { Confirm } from "../views/confirm.tsx";
import { Badge, Panel } from "../views/parts.tsx";
import { Table } from "../views/table.tsx";

export interface ChangesData {
  /** The workspace's path, `/w/{slug}`. */
  path: string;
  workspace: Workspace;
  plans: readonly Plan[];
  usage: Usage;
  /** What overages cost on the workspace's plan; null: no price is configured. */
  price: OveragePrice | null;
  /** The books since the workspace began, and those of the current period. */
  books: { all: Balance; period: Balance };
  /** Whether whoever looks is owner or admin: only they see what can be changed. */
  manager: boolean;
}

export function OveragesPanel({ data: { path, usage, price, books, manager } }: { data: ChangesData }) {
  const to = usage.overages ? "off" : "on";
  const { fit, title, text } = heldSaid(usage, books.period.held);
  return (
    <Panel title="Overages and held signals">
      <p>
        <Badge tone={usage.overages ? "good" : "quiet"}>{usage.overages ? "Overages on" : "Overages off"}</Badge>{" "}
        {usage.overages
          ? "Every signal is accepted; those beyond the limit are counted, and billed by whoever runs this service"
          : "With overages (pay-as-you-go) every signal beyond the limit would be accepted, counted, and billed by whoever runs this service"}
        {atPrice(price)}.
        {usage.overages && usage.overage > 0 && (
          <>
            {" "}
            So far in this period: {counted(usage.overage, "overage")}
            {thatCost(usage.overage, price)}.
          </>
        )}
      </p>
      {manager && (
        <Confirm
          label={`Switch overages ${to}`}
          action={`${path}/usage/overages`}
          submit={`Switch overages ${to}`}
          tone={usage.overages ? "danger" : "primary"}
        >
          <input type="hidden" name="overages" value={to} />
          <p>{changeSaid(usage, { ...usage, overages: !usage.overages, overagePrice: price })}</p>
        </Confirm>
      )}
      <p>
        <strong>{title}</strong>
        {text}
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

export function PlansPanel({ data: { path, usage, workspace, plans, manager } }: { data: ChangesData }) {
  return (
    <Panel title="Plan" flush>
      <Table
        caption="Plans"
        head={[
          "Plan",
          { text: "Signals per period", number: true },
          "Price",
          ...(manager ? [{ text: "Change", hidden: true }] : []),
        ]}
      >
        {plans.map((plan) => (
          <tr>
            <th scope="row">
              {plan.name} {plan.id === workspace.plan && <Badge tone="info">Current</Badge>}
            </th>
            <td class="number">{grouped(plan.signalLimit)}</td>
            <td>
              {plan.paid ? "Paid" : "Free"}
              {plan.overagePrice !== null && <div class="quiet small">Overages{atPrice(plan.overagePrice)}</div>}
            </td>
            {manager && (
              <td>
                {plan.id !== workspace.plan && (
                  <Confirm
                    label="Change"
                    of={plan.id}
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
