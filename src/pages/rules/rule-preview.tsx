/** What a rule would have scored: numbers and samples of stored signals. */
import type { RulePreview } from "../../workspace/rules-on-history.ts";
import type { FieldErrors } from "./rule-form.ts";
import { counted, day, grouped, signed } from "../kit/format.ts";
import { Json, JSON_SAMPLE_CHARACTERS, Notice, Panel, Stat, Stats, Time } from "../views/parts.tsx";
import { SignalLink } from "../signals/signals.tsx";

/** What a preview found, or why there is none; null: it was not asked for yet. */
export type Previewed =
  | { errors: FieldErrors }
  | { days: number; points: number; found: RulePreview; similar: string[] }
  | null;

/** @param props.paths paths that signals of the rule's event carry; they stand here to follow the event while it is typed. */
export function RulePreviewPanel({
  base,
  preview,
  paths,
}: {
  base: string;
  preview: Previewed;
  paths: readonly string[];
}) {
  return (
    <div id="preview" aria-live="polite">
      <datalist id="paths">
        {["event", "source", "email", ...paths].map((path) => (
          <option value={path} />
        ))}
      </datalist>
      <Panel title="On stored signals">
        {preview === null && (
          <p class="quiet">
            What the rule would have scored, had it been there already. <span class="no-script">Press Preview.</span>
          </p>
        )}
        {preview !== null && "errors" in preview && (
          <p class="quiet">
            {preview.errors["event"] === undefined
              ? "Complete the conditions to see what the rule would match."
              : "Name an event to see what the rule would match."}
          </p>
        )}
        {preview !== null && "found" in preview && <PreviewFound base={base} {...preview} />}
      </Panel>
    </div>
  );
}

interface FoundProps {
  base: string;
  days: number;
  points: number;
  found: RulePreview;
  /** Events whose names differ from the rule's in letter case only; looked for where nothing matches. */
  similar: readonly string[];
}

function PreviewFound({ base, days, points, found, similar }: FoundProps) {
  const { matches, people, scoringSignals, samples, scanned, complete } = found;
  return (
    <>
      <Stats>
        <Stat label="Matches" value={matches} />
        <Stat label="Scored" value={scoringSignals} />
        <Stat label="People" value={people} />
        <Stat label="Points" value={signed(found.points)} />
      </Stats>
      <p class="quiet small">
        {counted(scoringSignals, "signal")} of the last {counted(days, "day")} would score, at {signed(points)} each;{" "}
        {complete
          ? `${grouped(scanned)} looked at.`
          : `only the latest ${grouped(scanned)} were looked at, there are more. Preview looks further.`}
      </p>
      {matches === 0 && (
        <Notice tone="warn" title="Nothing that is stored matches this rule.">
          <p>
            {similar.length > 0
              ? `Event names are case-sensitive. Did you mean ${similar.map((name) => `“${name}”`).join(" or ")}?`
              : "No processed signal of a person matches. Anonymous, held and duplicate signals are not looked at."}
          </p>
        </Notice>
      )}
      {samples.map((sample) => (
        <details class="sample">
          <summary>
            {sample.email} · <Time ms={sample.receivedAtMs} />
          </summary>
          <p class="small">
            {sample.event} from {sample.source}, {day(sample.receivedAtMs)} · <SignalLink base={base} id={sample.id} />
          </p>
          <Json value={sample.payload} label={`Payload of ${sample.id}`} characters={JSON_SAMPLE_CHARACTERS} />
        </details>
      ))}
    </>
  );
}
