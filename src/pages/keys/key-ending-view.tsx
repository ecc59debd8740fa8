/** Settings › API Keys: what is asked before a key is deactivated or rotated (spec §3.1, design §5). */
import type { ApiKey } from "../../control/api-keys.ts";
import type { Overlap } from "../../workspace/manage-keys.ts";
import type { TypedLifetime } from "./key-lifetime.ts";
import { LifetimeFields } from "./key-lifetime-fields.tsx";
import { KeyCrumbs, KeySummary } from "./key-parts.tsx";
import { FormErrors } from "../views/fields.tsx";
import { OverlapChoice } from "../views/overlap-choice.tsx";
import { PageHead, Notice, Panel } from "../views/parts.tsx";

interface Ending {
  path: string;
  apiKey: ApiKey;
  usedMs: number | undefined;
  nowMs: number;
}

export function DeactivateView({ path, apiKey, usedMs, nowMs }: Ending) {
  return (
    <>
      <PageHead title={`Deactivate ${apiKey.name}?`} crumbs={<KeyCrumbs path={path} />} />
      <Panel>
        <KeySummary apiKey={apiKey} usedMs={usedMs} nowMs={nowMs} />
        <Notice tone="warn" title="It takes effect at once, everywhere, and cannot be undone.">
          <ul>
            <li>Every webhook request with this key is rejected with 401 from then on.</li>
            <li>Signals that were accepted before are processed all the same.</li>
            <li>The key stays in the list, marked Inactive.</li>
          </ul>
        </Notice>
        <form method="post" action={`${path}/${apiKey.id}/deactivate`} data-once class="row">
          <button class="danger">Deactivate</button>
          <a class="button" href={path}>
            Cancel
          </a>
        </form>
      </Panel>
    </>
  );
}

const OVERLAPS = {
  none: {
    label: "Now",
    hint: "The old key ends before the new one is shown. Calls fail until the sender has the new one.",
  },
  "1h": { label: "1 hour", hint: "Both keys are accepted for an hour." },
  "24h": { label: "24 hours", hint: "Both keys are accepted for a day." },
  "7d": { label: "7 days", hint: "Both keys are accepted for a week." },
} as const satisfies Record<Overlap, { label: string; hint: string }>;

export interface RotationForm {
  formToken: string;
  overlap: Overlap;
  lifetime: TypedLifetime;
  errors: { form?: string; overlap?: string; lifetime?: string };
}

export function RotateView({ path, apiKey, usedMs, nowMs, form }: Ending & { form: RotationForm }) {
  const { formToken, overlap, lifetime, errors } = form;
  return (
    <>
      <PageHead title={`Rotate ${apiKey.name}`} crumbs={<KeyCrumbs path={path} />}>
        Makes a successor with the same settings{apiKey.hasSecret ? " and a new secret" : ""}. It is shown once.
      </PageHead>
      <FormErrors errors={Object.values(errors)} />
      <Panel>
        <KeySummary apiKey={apiKey} usedMs={usedMs} nowMs={nowMs} />
        <form method="post" action={`${path}/${apiKey.id}/rotate`} data-once class="form">
          <input type="hidden" name="form_token" value={formToken} />
          <OverlapChoice
            legend="When does the old key end?"
            copy={OVERLAPS}
            chosen={overlap}
            autofocus={errors.lifetime === undefined}
          />
          {apiKey.endsAt !== null && (
            <p class="quiet small">
              An overlap never prolongs a key: it ends when it would have anyway, if that comes first.
            </p>
          )}
          <LifetimeFields
            label="When does the new key expire?"
            typed={lifetime}
            kept={apiKey.expiresAt}
            error={errors.lifetime}
          />
          <div class="row">
            <button class="primary">Rotate</button>
            <a class="button" href={path}>
              Cancel
            </a>
          </div>
        </form>
      </Panel>
    </>
  );
}
