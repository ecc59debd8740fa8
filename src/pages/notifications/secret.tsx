/** The only page that shows a destination's signing secret; and how a receiver verifies deliveries. */
import type { CreatedDestination } from "../../notifications/destination-calls.ts";
import { LinkButton, PostButton } from "../kit/forms.tsx";
import { CopyText, Notice, Panel, Time } from "../kit/parts.tsx";
import { alreadyCreatedPage, page } from "../page.tsx";
import { workspacePath, type Ctx, destinationPath } from "../pages-env.ts";

export function secretPage(c: Ctx, { destination, secret, isNew }: CreatedDestination, title: string) {
  const { name, type, oldSecretEndsAtMs } = destination;
  const path = destinationPath(workspacePath(c), destination.id);
  const view = <LinkButton href={path} text="View destination" />;
  if (!isNew) {
    const shown = type === "webhook" ? { name: "secret", remedy: "rotate it on the destination's page" } : null;
    const noun = "destination";
    return alreadyCreatedPage(c, { section: "notifications", noun, intro: name, secret: shown, actions: view });
  }
  const test = <PostButton action={`${path}/test`} look="primary" text="Send test" />;
  return page(
    c,
    { section: "notifications", title, crumbs: [[name, path]], intro: name, actions: [view, test] },
    secret !== null && (
      <>
        <Panel title="Signing secret" unsaved={1}>
          <Notice
            tone="warn"
            title="Copy the secret now: it is not shown again"
            text="The receiver needs it to verify deliveries. If you lose it, rotate it."
          />
          <CopyText id="new-secret" label="signing secret" text={secret} />
          {oldSecretEndsAtMs !== null && (
            <p>
              The old secret ends <Time ms={oldSecretEndsAtMs} />. Until then, deliveries are signed with both.
            </p>
          )}
        </Panel>
        <VerifyPanel />
      </>
    ),
  );
}

export function VerifyPanel() {
  return (
    <Panel title="Verify deliveries" id="verify">
      <p class="quiet">
        Deliveries are signed by the <a href="https://www.standardwebhooks.com/">Standard Webhooks</a> specification.
        Answer with 2xx within ten seconds. Other answers are retried for about three days; a 410 switches the
        destination off.
      </p>
      {VERIFY_CODE.map(({ id, language, install, code }) => (
        <details>
          <summary>{language}</summary>
          <div class="stack tight">
            <CopyText id={`install-${id}`} label={`installation for ${language}`} text={install} />
            <CopyText block id={`verify-${id}`} label={`verification in ${language}`} text={code} />
          </div>
        </details>
      ))}
    </Panel>
  );
}

/** Receivers that use the libraries of the Standard Webhooks specification. They read the secret from the environment. */
const VERIFY_CODE = [
  {
    id: "javascript",
    language: "JavaScript",
    install: "npm install standardwebhooks",
    code: `import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.WEBHOOK_SECRET);

export async function receive(request) {
  const body = await request.text();
  let notification;
  try {
    notification = webhook.verify(body, Object.fromEntries(request.headers));
  } catch {
    return new Response(null, { status: 401 });
  }
  // A notification with the same id may arrive again: handle it once.
  console.log(notification.id, notification.type, notification.data);
  return new Response(null, { status: 204 });
}`,
  },
  {
    id: "python",
    language: "Python",
    install: "pip install standardwebhooks flask",
    code: `import os
from flask import Flask, request
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

app = Flask(__name__)
webhook = Webhook(os.environ["WEBHOOK_SECRET"])

@app.post("/hooks/signals")
def receive():
    try:
        notification = webhook.verify(request.get_data(), dict(request.headers))
    except WebhookVerificationError:
        return "", 401
    # A notification with the same id may arrive again: handle it once.
    print(notification["id"], notification["type"], notification["data"])
    return "", 204`,
  },
  {
    id: "go",
    language: "Go",
    install: "go get github.com/standard-webhooks/standard-webhooks/libraries",
    code: `import standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

func receive(w http.ResponseWriter, r *http.Request) {
	webhook, err := standardwebhooks.NewWebhook(os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		log.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || webhook.Verify(body, r.Header) != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	// A notification with the same id may arrive again: handle it once.
	log.Printf("%s", body)
	w.WriteHeader(http.StatusNoContent)
}`,
  },
];
