/** The preview of a typed rule: its matches among stored signals, with samples. */
import type { Context } from "hono";
import type { StoredRule } from "../../control/stored-rules.ts";
import { signalStore } from "../../workspace/objects.ts";
import { previewRule, type RulePreview } from "../../workspace/rules-on-history.ts";
import { counted, signed } from "../kit/format.ts";
import { Json, JSON_SAMPLE_CHARACTERS, Notice, Panel, Stat, Stats, Time } from "../kit/parts.tsx";
import type { PagesEnv } from "../pages-env.ts";
import { draftOf, previewDays, type FieldErrors, type RuleForm } from "./rule-form.ts";

/** Signals that a preview while typing reads: a quarter of a second. The Preview button reads all. */
export const TYPING_SIGNALS = 3_000;

/** The result of a preview, or the errors that prevent it; null: no preview yet. */
export type Previewed = { errors: FieldErrors } | Found | null;

interface Found {
  days: number;
  found: RulePreview;
  /** If nothing matches: known events whose names differ from the rule's in letter case only. */
  similar: string[];
}

export async function tryOut(
  c: Context<PagesEnv>,
  form: RuleForm,
  source: StoredRule | null,
  maxSignals?: number,
): Promise<Previewed> {
  const draft = draftOf(form, source);
  if (!draft.ok) return { errors: draft.refusal };
  const days = previewDays(form);
  const found = await previewRule(c.env, c.get("workspace").id, draft.value, days, maxSignals);
  return { days, found, similar: found.matches === 0 ? await eventsLike(c, draft.value.event) : [] };
}

async function eventsLike(c: Context<PagesEnv>, event: string): Promise<string[]> {
  const { events } = await signalStore(c.env, c.get("workspace").id).recentNames();
  return events.filter((known) => known !== event && known.toLowerCase() === event.toLowerCase());
}

interface Props {
  base: string;
  preview: Previewed;
  /** Paths of the event's payloads. They are part of the preview to follow the typed event. */
  paths: readonly string[];
}

export function RulePreviewPanel({ base, preview, paths }: Props) {
  return (
    <div id="preview" aria-live="polite">
      <datalist id="paths">
        {["event", "source", "email", ...paths].map((path) => (
          <option value={path} />
        ))}
      </datalist>
      <Panel title="Preview">
        {preview === null && (
          <p class="quiet">
            Shows the stored signals that the rule matches. <span class="no-script">Press Preview.</span>
          </p>
        )}
        {preview !== null && "errors" in preview && (
          <p class="quiet">
            {preview.errors["event"] === undefined
              ? "Complete the conditions to see matches."
              : "Enter an event to see matches."}
          </p>
        )}
        {preview !== null && "found" in preview && <Matches base={base} {...preview} />}
      </Panel>
    </div>
  );
}

function Matches({ base, days, found, similar }: Found & { base: string }) {
  const { matches, people, scoringSignals, points, samples, scanned, complete } = found;
  return (
    <>
      <Stats>
        <Stat label="Matches" value={matches} />
        <Stat label="Scored" value={scoringSignals} />
        <Stat label="People" value={people} />
        <Stat label="Points" value={signed(points)} />
      </Stats>
      <p class="quiet small">
        {complete
          ? `All ${counted(scanned, "signal")} of the last ${counted(days, "day")} read.`
          : `Only the latest ${counted(scanned, "signal")} read. Press Preview to read more.`}
      </p>
      {matches === 0 && (
        <Notice tone="warn" title="No stored signals match">
          <p>
            {similar.length > 0
              ? `Event names are case-sensitive. Did you mean ${similar.map((name) => `“${name}”`).join(" or ")}?`
              : "Only processed signals of known people are read, not anonymous, held or duplicate ones."}
          </p>
        </Notice>
      )}
      {samples.map(({ id, email, event, source, receivedAtMs, payload }) => (
        <details>
          <summary>
            {email}{" "}
            <span class="quiet">
              · <Time ms={receivedAtMs} />
            </span>
          </summary>
          <p class="quiet small">
            {event} from {source} · <a href={`${base}/signals/${encodeURIComponent(id)}`}>View signal</a>
          </p>
          <Json value={payload} label={`Payload of ${id}`} characters={JSON_SAMPLE_CHARACTERS} />
        </details>
      ))}
    </>
  );
}
