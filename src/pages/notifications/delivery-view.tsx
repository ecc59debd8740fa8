/** Settings › Notifications: one delivery: what was sent, and every attempt with its answer. */
import type { DeliveryDetail } from "../../notifications/destination-calls.ts";
import type { AttemptResult } from "../../domain/events/attempts.ts";
import { ANSWER_MAX_BYTES } from "../../limits.ts";
import { EVENT_COPY } from "./notification-copy.ts";
import { DeliveryBadge, isUnderWay } from "./destination-parts.tsx";
import { grouped } from "../kit/format.ts";
import { indented } from "../views/indented-json.ts";
import { Badge, Empty, Fact, FactList, PageHead, Json, Notice, Panel, Time } from "../views/parts.tsx";
import { Table } from "../views/table.tsx";

interface DeliveryPage {
  /** Path of the notifications, `/w/{slug}/settings/notifications`. */
  path: string;
  detail: DeliveryDetail & { body: string | null };
  refused: string | undefined;
  nowMs: number;
}

export function DeliveryView({ path, detail, refused, nowMs }: DeliveryPage) {
  const { delivery, destination, body } = detail;
  const { id, type, state, eventId, createdAtMs, attempts } = delivery;
  const at = `${path}/${destination.id}`;
  const isSoon = isUnderWay({ delivery, destination, nowMs });
  return (
    <>
      <PageHead
        title={EVENT_COPY[type].label}
        crumbs={
          <>
            <a href={path}>Notifications</a> › <a href={at}>{destination.name}</a>
          </>
        }
        actions={
          body !== null && (
            <form method="post" action={`${at}/deliveries/${id}/again`} data-once>
              <button class={state === "failed" ? "primary" : undefined}>Deliver again</button>
            </form>
          )
        }
      />
      {refused !== undefined && (
        <Notice tone="bad" title="Nothing was sent.">
          <p>{refused}</p>
        </Notice>
      )}
      <div id="delivery" class="stack wide-gap" {...(isSoon ? { "data-refresh": "1000" } : {})}>
        <DeliveryOutcome last={attempts.at(-1)} isSoon={isSoon} isTest={type === "destination.test"} />
        <Panel>
          <FactList>
            <Fact name="State">
              <DeliveryBadge delivery={delivery} destination={destination} nowMs={nowMs} />
            </Fact>
            <Fact name="Event">
              <code>{type}</code>
            </Fact>
            <Fact name="Event's id">
              <code>{eventId}</code>
              {destination.type === "webhook" && (
                <div class="quiet small">
                  Also the <code>webhook-id</code>: the same at each attempt, so that a receiver can drop what it has
                  had.
                </div>
              )}
            </Fact>
            <Fact name="Sent to">
              <code>{destination.maskedTarget}</code>
            </Fact>
            <Fact name="Created">
              <Time ms={createdAtMs} nowMs={nowMs} />
            </Fact>
          </FactList>
        </Panel>
        <Attempts attempts={attempts} nowMs={nowMs} />
      </div>
      <Panel title="Body">
        {body === null ? (
          <p class="quiet">It said something of a person who was deleted, and went with them.</p>
        ) : (
          <Json value={indented(body)} label="Body" />
        )}
      </Panel>
    </>
  );
}

interface OutcomeOf {
  last: AttemptResult | undefined;
  /** Whether an attempt is about to be made, or is being made. */
  isSoon: boolean;
  isTest: boolean;
}

/** What came of a delivery, in a sentence, for somebody who has just sent a test. */
function DeliveryOutcome({ last, isSoon, isTest }: OutcomeOf) {
  if (last === undefined) {
    return (
      <Notice title={isSoon ? "It is on its way." : "It has not been sent."}>
        {isSoon && <p class="no-script">Load the page again to see what came of it.</p>}
      </Notice>
    );
  }
  const took = `${grouped(last.tookMs)} ms`;
  if (last.error === null) {
    const status = last.status === null ? "" : ` with ${last.status}`;
    return (
      <Notice
        tone="good"
        title={`${isTest ? "The test has arrived" : "It has arrived"}: accepted${status} after ${took}.`}
      />
    );
  }
  return (
    <Notice tone="bad" title={isTest ? "The test was not accepted." : "The last attempt was not accepted."}>
      <p>
        {last.error} ({took})
      </p>
    </Notice>
  );
}

function Attempts({ attempts, nowMs }: { attempts: readonly AttemptResult[]; nowMs: number }) {
  return (
    <Panel title="Attempts" flush>
      {attempts.length === 0 ? (
        <Empty title="None has ended yet">
          <p>A receiver has ten seconds to answer.</p>
        </Empty>
      ) : (
        <Table
          caption="Attempts, the latest first"
          head={["When", "Status", { text: "Took", number: true }, `Answer, up to ${grouped(ANSWER_MAX_BYTES)} bytes`]}
        >
          {attempts.toReversed().map(({ atMs, status, tookMs, error, answer }) => (
            <tr>
              <th scope="row">
                <Time ms={atMs} nowMs={nowMs} />
              </th>
              <td>
                <Badge tone={error === null ? "good" : "bad"}>{status ?? (error === null ? "Sent" : "None")}</Badge>
                {error !== null && <div class="small">{error}</div>}
              </td>
              <td class="number nowrap">{grouped(tookMs)} ms</td>
              <td class="answer">
                {answer === null ? <span class="quiet">Nothing</span> : <pre tabindex={0}>{answer}</pre>}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}
