/** The way of one signal, from receipt to score (design §1.3: nothing is silent). */
import type { ApiKey } from "../../control/api-keys.ts";
import { keyText } from "../key-names.tsx";
import type { Child } from "hono/jsx";
import type { Admission } from "../../wire/admission.ts";
import type { SignalTrace } from "../../store/protocol/stored-signals.ts";
import { ENDPOINT_LABEL, STATUS_COPY } from "../copy.ts";
import { grouped } from "../kit/format.ts";
import { CopyText } from "../views/copy-text.tsx";
import { PageHead, Json, Panel, StatusBadge } from "../views/parts.tsx";
import { groupPath, KIND_LABEL } from "./signal-parts.tsx";
import { SignalFate, type FateProps } from "./signal-fate.tsx";
import { TimelineStep } from "../views/timeline.tsx";

/** Milliseconds after which the page of a signal in flight looks again. */
const REFRESH_MS = 2_000;

export function SignalTraceView({
  base,
  manager,
  apiKey,
  rules,
  found,
}: Omit<FateProps, "trace"> & {
  /** Name of the signal's key; null: it is not to be shown, or the key is gone. */
  apiKey: ApiKey | null;
  found: { recorded: SignalTrace } | { inFlight: Admission };
}) {
  const signal = "recorded" in found ? found.recorded : found.inFlight;
  const recorded = "recorded" in found ? found.recorded : null;
  const status = recorded?.status ?? "in_flight";
  const canMakeRule = manager && recorded?.kind === "signal" && recorded.payload !== null;
  return (
    <>
      <PageHead
        title={recorded?.event ?? KIND_LABEL[recorded?.kind ?? "signal"]}
        crumbs={<Crumbs base={base} trace={recorded} />}
        actions={
          canMakeRule && (
            <a class="button" href={`${base}/rules/new?${new URLSearchParams({ from: signal.id }).toString()}`}>
              Create mapping rule
            </a>
          )
        }
      />
      <div class="signal-id">
        <CopyText id="signal-id" label="signal id" text={signal.id} />
      </div>
      <div class="columns" id="trace" {...(recorded === null ? { "data-refresh": String(REFRESH_MS) } : {})}>
        <Panel title="What became of it">
          <p>
            <StatusBadge status={status} /> {STATUS_COPY[status].meaning}
          </p>
          <ol class="timeline">
            <TimelineStep title="Received" ms={signal.receivedAtMs}>
              On the {ENDPOINT_LABEL[signal.endpoint]} endpoint
              {apiKey !== null && (
                <>
                  , with the key <a href={`${base}/settings/api-keys/${apiKey.id}`}>{keyText(apiKey, apiKey.id)}</a>
                </>
              )}
              .
            </TimelineStep>
            <VerdictSaid base={base} {...signal} />
            {recorded === null ? (
              <TimelineStep title="In flight" tone="info">
                It is kept safely and on its way through the queue to the store.{" "}
                <span class="needs-script">This page looks again by itself.</span>
                <span class="no-script">Load this page again in a moment.</span>
              </TimelineStep>
            ) : (
              <>
                <TimelineStep title="Recorded" ms={recorded.recordedAtMs}>
                  {duration(recorded.recordedAtMs - recorded.receivedAtMs)} after it was received.
                </TimelineStep>
                <SignalFate base={base} manager={manager} rules={rules} trace={recorded} />
              </>
            )}
          </ol>
        </Panel>
        <Panel title="Payload">
          <Payload recorded={recorded} />
        </Panel>
      </div>
    </>
  );
}

function Crumbs({ base, trace }: { base: string; trace: SignalTrace | null }) {
  const { event = null, source = null } = trace?.kind === "signal" ? trace : {};
  return (
    <>
      <a href={`${base}/signals`}>Signal Queue</a>
      {event !== null && source !== null && (
        <>
          {" / "}
          <a href={groupPath(base, event, source)}>{event}</a> from {source}
        </>
      )}
    </>
  );
}

/** Accepted or held (spec §8.2 to §8.4), by the signal's ordinal in the billing period and the limit at that moment. */
function VerdictSaid({
  base,
  verdict,
  ordinal,
  signalLimit,
}: Pick<SignalTrace, "verdict" | "ordinal" | "signalLimit"> & { base: string }) {
  const place = `signal ${grouped(ordinal)} of ${grouped(signalLimit)}`;
  if (verdict === "held") {
    return (
      <TimelineStep title={`Held: ${place}`} tone="warn">
        It came beyond the plan's signal limit for the billing period.{" "}
        <a href={`${base}/usage`}>What is held, and why</a>
      </TimelineStep>
    );
  }
  return (
    <TimelineStep title={`Accepted: ${place}`} tone="good">
      {ordinal > signalLimit
        ? "Beyond the plan's signal limit at that time: accepted as overage, or released later."
        : "Within the plan's signal limit of its billing period."}
    </TimelineStep>
  );
}

function Payload({ recorded }: { recorded: SignalTrace | null }): Child {
  if (recorded === null) return <p class="quiet">It is shown once the signal is recorded.</p>;
  if (recorded.payload !== null) return <Json value={recorded.payload} label="Payload as it was sent" />;
  if (recorded.payloadLost) {
    return (
      <p class="quiet">The payload is lost since this workspace was restored from a backup. What it did is kept.</p>
    );
  }
  if (recorded.status === "duplicate") {
    return <p class="quiet">A duplicate's payload is not kept: it is that of the signal that it duplicates.</p>;
  }
  if (recorded.status === "purged") return <p class="quiet">It was deleted with the end of its billing period.</p>;
  return <p class="quiet">It is not stored.</p>;
}

function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, ms)} ms`;
  if (ms < 120_000) return `${(ms / 1_000).toFixed(1)} seconds`;
  if (ms < 2 * 3_600_000) return `${Math.round(ms / 60_000)} minutes`;
  return `${Math.round(ms / 3_600_000)} hours`;
}
