/**
 * A real call from the browser to the webhook, its answer, and what becomes of the signal. The full key goes from the page
 * to the webhook and nowhere else: where the page does not have it, it is typed.
 */
import type { Webhook } from "../../domain/webhook-calls.ts";
import { TextArea, TextField } from "./fields.tsx";
import { Panel } from "./parts.tsx";

interface Props {
  /** The workspace's path, `/w/{slug}`. */
  home: string;
  webhook: Webhook;
  /** What stands in the URL for the full key that has to be typed; null: the URL has it. */
  placeholder: string | null;
  /** The key's shared secret; `ask`: it has to be typed; null: none is needed. */
  secret: { value: string } | "ask" | null;
}

export function TestCall({ home, webhook, placeholder, secret }: Props) {
  return (
    <div class="needs-script" id="test-call">
      <Panel title="Send a test signal">
        <form
          class="form"
          data-test-call={webhook.url}
          data-placeholder={placeholder ?? undefined}
          data-secret={secret !== null && secret !== "ask" ? secret.value : undefined}
          data-signals={`${home}/signals/`}
        >
          <p class="quiet small">
            A real call: it counts as a signal, and makes or changes what it names. Change the body as you like.
          </p>
          {placeholder !== null && (
            <TextField
              name="test-key"
              label="Full API key"
              hint="It goes from your browser to the webhook, and is kept nowhere."
              autocomplete="off"
              spellcheck={false}
              placeholder="sk_…"
              required
            />
          )}
          {secret === "ask" && (
            <TextField name="test-secret" label="Shared secret" autocomplete="off" spellcheck={false} required />
          )}
          <TextArea
            name="test-body"
            label="Body"
            value={JSON.stringify(webhook.body, null, 2)}
            rows={8}
            class="mono"
            spellcheck={false}
          />
          <div class="row">
            <button class="primary">Send a test signal</button>
          </div>
          <div class="stack" role="status" data-answer />
        </form>
        <div id="trace" />
      </Panel>
    </div>
  );
}
