/** What a payload template makes of samples before it is saved: event, person, time, and the rules that would match. */
import { addressPathIn } from "../../domain/template/propose-template.ts";
import { NO_VALUE } from "../../domain/template/preview-template.ts";
import { problemInWords, type SignalMapping } from "../../domain/template/signal-template.ts";
import { previewSignalTemplate, type PreviewResult } from "../../use-cases/preview-template.ts";
import { counted, exactTime, signed } from "../kit/format.ts";
import { Notice, Panel, ValueList, WithCode } from "../kit/parts.tsx";
import { contextOf, type Ctx, signalPath } from "../pages-env.ts";
import { errorList } from "../kit/forms.tsx";
import { checkTemplate, isEmptyTemplate, samplesIn, type TypedTemplate } from "./template-form.tsx";

/** `unread`: why nothing can be shown, in sentences. Null: there is nothing to show yet. */
export type TemplatePreview =
  | "empty"
  | { template: SignalMapping[]; found: PreviewResult }
  | { unread: string; details: string[] }
  | null;

/** @param keyId undefined: the key is new. */
export async function previewTyped(c: Ctx, typed: TypedTemplate, keyId: string | undefined): Promise<TemplatePreview> {
  if (isEmptyTemplate(typed)) return "empty";
  const [template, samples] = [checkTemplate(typed), samplesIn(typed, keyId)];
  if (!template.ok) return { unread: "The template is not complete", details: errorList(template.rejection) };
  if (template.value === null) return null;
  if (!samples.ok) return { unread: "The sample cannot be read", details: [samples.rejection] };
  const found = await previewSignalTemplate(contextOf(c), template.value, samples.value, Date.now());
  return { template: template.value, found };
}

/** Signals that are shown. */
const SHOWN_SIGNALS = 10;

export function PreviewOfTemplate({ base, preview }: { base: string; preview: TemplatePreview }) {
  if (preview === null) {
    return (
      <p class="quiet">
        Without a template, signals are read as they are sent: their <code>event</code>, <code>email</code> and{" "}
        <code>properties</code>. Choose a sender to map another body.
      </p>
    );
  }
  if (preview === "empty") {
    return <p class="quiet">Paste a sample and press “Propose mappings”, or write the mappings yourself.</p>;
  }
  if ("unread" in preview) {
    return (
      <Notice tone="warn" title={preview.unread}>
        <ul>
          {preview.details.map((detail) => (
            <li>
              <WithCode text={detail} />
            </li>
          ))}
        </ul>
      </Notice>
    );
  }
  const { template, found } = preview;
  const { signals, rejected, warnings } = found;
  const useless = warnings.filter(({ message }) => message === NO_VALUE);
  if (signals.length + rejected.length === 0) {
    return <p class="quiet">Paste a sample to see the event and the person of its signals.</p>;
  }
  return (
    <>
      {rejected.map(({ rejection }) => (
        <Notice
          tone="bad"
          title="A call with this payload would be rejected"
          text={<WithCode text={rejection.detail} />}
        />
      ))}
      {signals.slice(0, SHOWN_SIGNALS).map((signal) => (
        <PreviewedSignal base={base} signal={signal} />
      ))}
      {signals.length > SHOWN_SIGNALS && (
        <p class="quiet small">And {counted(signals.length - SHOWN_SIGNALS, "more signal")}.</p>
      )}
      <Warnings
        template={template}
        warnings={warnings.filter(({ message }) => message !== NO_VALUE)}
        tone="warn toned"
      />
      {useless.length > 0 && (
        <details>
          <summary class="small">{counted(useless.length, "mapping finds", "mappings find")} no value here</summary>
          <Warnings template={template} warnings={useless} tone="quiet" />
        </details>
      )}
    </>
  );
}

interface WarningsProps {
  template: readonly SignalMapping[];
  warnings: PreviewResult["warnings"];
  tone: string;
}

function Warnings({ template, warnings, tone }: WarningsProps) {
  if (warnings.length === 0) return <></>;
  return (
    <ul class={`${tone} small`}>
      {warnings.map(({ mapping: index, message }) => (
        <li>
          <WithCode text={problemInWords({ index, target: template[index]?.target ?? null, field: null, message })} />
        </li>
      ))}
    </ul>
  );
}

type Previewed = PreviewResult["signals"][number];

function PreviewedSignal({ base, signal }: { base: string; signal: Previewed }) {
  const { outcome, payload, signalId } = signal;
  const from = signalId !== null && (
    <a class="small" href={signalPath(base, signalId)}>
      Stored signal
    </a>
  );
  if (outcome.kind !== "mapped") {
    const [title, text] = NOT_MAPPED[outcome.kind];
    const detail =
      outcome.kind === "call" ? text : outcome.kind === "misfit" ? outcome.misfit.detail : outcome.rejection.detail;
    return (
      <Notice tone={outcome.kind === "call" ? "info" : "warn"} title={title}>
        <p>
          <WithCode text={detail} /> {from}
        </p>
      </Notice>
    );
  }
  const { normalised, occurred, id, problems = {} } = outcome.signal;
  const { event, source, email, userId, anonymousId, traits } = normalised;
  const { account, ...person } = traits;
  const isNameless = email === undefined && userId === undefined && anonymousId === undefined;
  const isRead = occurred.from !== "received";
  return (
    <section class="stack tight">
      <ValueList
        of={[
          ["Event", <strong>{event}</strong>],
          ["Person", email ?? (isNameless ? <Nobody payload={payload} /> : null)],
          ["User id", userId],
          ["Anonymous id", anonymousId],
          ["Named", Object.values(person).filter(Boolean).join(", ")],
          ["Account", account],
          ["Source", source],
          ["Time", isRead ? exactTime(occurred.ms) : "That of the receipt"],
          ["Duplicates", id === undefined ? "By their content" : [`By the id `, <code>{id}</code>]],
          ["Rules", rulesText(signal)],
          signalId !== null && ["Sample", from],
        ]}
      />
      {Object.values(problems).map((problem) => (
        <p class="quiet small">
          <WithCode text={problem} />
        </p>
      ))}
    </section>
  );
}

const NOT_MAPPED = {
  misfit: ["The template does not fit this payload", ""],
  rejected: ["A signal with this payload would be rejected", ""],
  call: ["A call of a CDP", "It is read as one, whatever the template says."],
} as const;

function Nobody({ payload }: { payload: unknown }) {
  const path = addressPathIn(payload);
  if (path === undefined) return <span class="warn toned">Nobody: there is no address in it</span>;
  return (
    <span class="warn toned">
      Nobody, but an address stands at <code>{path}</code>
    </span>
  );
}

function rulesText({ rules, isExcluded }: Previewed): string {
  if (isExcluded) return "None: an exclusion covers it";
  if (rules === null) return "The rules take too long";
  if (rules.length === 0) return "None matches";
  return rules.map(({ scoringSignal, points }) => `${signed(points)} ${scoringSignal}`).join(", ");
}

interface PanelProps {
  base: string;
  preview: TemplatePreview;
  /** Id of the form. */
  form: string;
}

export function TemplatePreviewPanel({ base, preview, form }: PanelProps) {
  const button = (
    <button name="do" value="preview" form={form} data-swap="#preview">
      Preview
    </button>
  );
  return (
    <div id="preview" aria-live="polite">
      <Panel title="Preview" actions={preview !== null && button}>
        <PreviewOfTemplate base={base} preview={preview} />
      </Panel>
    </div>
  );
}
