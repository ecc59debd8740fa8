/** What a sender's developer reads first on the /docs page: a first call, then what to do with each answer. */
import { grouped } from "../../domain/grouped.ts";
import { BATCH_MAX_SIGNALS, BULK_MAX_SIGNALS, SIGNAL_MAX_BYTES } from "../../limits.ts";
import { isRefusalCode, REFUSALS } from "../../http/refusal-table.ts";
import { curlLine, fetchCall, pythonCall, webhooksOf } from "../../workspace/webhook-calls.ts";
import { DocsTable } from "./docs-tables.tsx";

/** The guide's sections, for the page's contents. */
export const GUIDE = [
  { id: "first-call", title: "The first call" },
  { id: "batches", title: "Many signals in one call" },
  { id: "retries", title: "Retries" },
  { id: "answers", title: "What to do for each code" },
] as const;

const KEY = "YOUR_API_KEY";

interface Props {
  origin: string;
  codes: readonly { code: string; status: number }[];
}

export function Guide({ origin, codes }: Props) {
  const [webhook] = webhooksOf(origin, { key: KEY, endpointType: "signal_staging", payloadTemplate: null });
  return (
    <>
      <section id="first-call">
        <h2>The first call</h2>
        <p>
          An owner or admin of the workspace creates an API key on its pages, under API Keys; it is shown once. Write it
          in place of <code>{KEY}</code>. A key with a shared secret wants that in the header <code>X-Api-Secret</code>.
        </p>
        <h3>curl</h3>
        <pre tabindex={0}>{curlLine(webhook, null)}</pre>
        <h3>JavaScript</h3>
        <pre tabindex={0}>{fetchCall(webhook, null)}</pre>
        <h3>Python</h3>
        <pre tabindex={0}>{pythonCall(webhook, null)}</pre>
        <p>
          <strong>202</strong> means that the signal is kept durably and will be processed. Its <code>id</code> leads to
          it: search for it on the pages, or ask the operator API. The status <code>held</code> says that it came beyond
          the plan's signal limit.
        </p>
      </section>
      <section id="batches">
        <h2>Many signals in one call</h2>
        <p>
          Post an array, or <code>{'{"batch":[…]}'}</code>: at most {grouped(BATCH_MAX_SIGNALS)} signals in a call, and{" "}
          {grouped(BULK_MAX_SIGNALS)} on the bulk endpoint, which also takes one JSON object per line. A signal has at
          most {grouped(SIGNAL_MAX_BYTES)} bytes. <code>Content-Encoding: gzip</code> is welcome.
        </p>
        <p>
          Each signal is taken or refused by itself. The answer lists them by <code>index</code>; a status of{" "}
          <code>partial</code> says that some were refused, each with its <code>code</code> and <code>detail</code>.
        </p>
      </section>
      <section id="retries">
        <h2>Retries</h2>
        <ul>
          <li>
            <strong>No answer, 429 or 5xx</strong>: send the same body again, after the seconds of{" "}
            <code>Retry-After</code> where it is there, else after 1, 2, 4, … seconds, up to some minutes.
          </li>
          <li>
            <strong>Other 4xx</strong>: the same call would be refused again. Mend it first.
          </li>
          <li>
            <strong>Repeating is harmless</strong> where a signal carries a <code>messageId</code> (or <code>id</code>
            ), or the call an <code>Idempotency-Key</code>: within seven days what came before is found to be a
            duplicate and scores nothing. Without one, the same content is a duplicate for ten minutes. Each accepted
            repetition counts as a signal.
          </li>
        </ul>
      </section>
      <section id="answers">
        <h2>What to do for each code</h2>
        <DocsTable head={["Code", "Status", "What to do"]}>
          {codes.map(({ code, status }) =>
            isRefusalCode(code) ? (
              <tr>
                <td>
                  <a href={`#${code}`}>
                    <code>{code}</code>
                  </a>
                </td>
                <td>{status}</td>
                <td>{REFUSALS[code].advice}</td>
              </tr>
            ) : (
              <></>
            ),
          )}
        </DocsTable>
      </section>
    </>
  );
}
