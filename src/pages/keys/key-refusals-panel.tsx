/** The refused calls of one key: summed up by reason, and the latest runs of the same. */
import { CAUSE_COPY } from "../copy.ts";
import type { Rejection } from "../../domain/keys/refusal.ts";
import { REFUSALS } from "../../http/refusal-table.ts";
import { REJECTION_KEPT_DAYS } from "../../limits.ts";
import type { RejectionGroup } from "../rejections.tsx";
import { counted, grouped } from "../kit/format.ts";
import { Panel, Time } from "../views/parts.tsx";
import { Table } from "../views/table.tsx";

interface Props {
  /** The workspace's path, `/w/{slug}`. */
  home: string;
  keyId: string;
  /** The key's refused calls by reason. */
  refused: readonly RejectionGroup[];
  /** The key's latest refused calls, an entry for each run of the same. */
  runs: readonly Rejection[];
  nowMs: number;
}

export function KeyRefusals({ home, keyId, refused, runs, nowMs }: Props) {
  const calls = refused.reduce((sum, group) => sum + group.calls, 0);
  if (refused.length === 0) {
    return (
      <Panel title="Refused calls">
        <p class="quiet">None in the last {REJECTION_KEPT_DAYS} days.</p>
      </Panel>
    );
  }
  return (
    <Panel title="Refused calls" flush>
      <div class="panel-head stack">
        <p>
          {counted(calls, "call")} in the last {REJECTION_KEPT_DAYS} days:{" "}
          {refused.map(({ code, calls: ofReason }) => `${grouped(ofReason)} × ${REFUSALS[code].label}`).join(", ")}.{" "}
          <a href={`${home}/rejections?key=${keyId}`}>See each</a>
        </p>
      </div>
      <Table
        caption="Refused calls of this key, the latest first"
        head={["Reason", { text: "Calls", number: true }, "From", "To", "What the sender should change"]}
      >
        {runs.map(({ code, cause, calls: ofRun, firstAtMs, lastAtMs }) => (
          <tr>
            <th scope="row">
              {REFUSALS[code].label}
              {cause !== null && <div class="small">{CAUSE_COPY[cause]}</div>}
            </th>
            <td class="number">{grouped(ofRun)}</td>
            <td>
              <Time ms={firstAtMs} nowMs={nowMs} />
            </td>
            <td>
              <Time ms={lastAtMs} nowMs={nowMs} />
            </td>
            <td class="advice">{REFUSALS[code].advice}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}
