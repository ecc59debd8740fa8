/** Receivers that verify deliveries with the libraries of the Standard Webhooks specification. */

interface CodeSample {
  id: string;
  language: string;
  install: string;
  code: string;
}

/** None holds the secret: each reads it from the environment. */
export const VERIFY_CODE: readonly CodeSample[] = [
  {
    id: "javascript",
    language: "JavaScript",
    install: "npm install standardwebhooks",
    code: `import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.WEBHOOK_SECRET);

export async function receive(request) {
  const body = await request.text();
  let event;
  try {
    event = webhook.verify(body, Object.fromEntries(request.headers));
  } catch {
    return new Response(null, { status: 401 });
  }
  // An event with the same id may arrive again: handle it once.
  console.log(event.id, event.type, event.data);
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
        event = webhook.verify(request.get_data(), dict(request.headers))
    except WebhookVerificationError:
        return "", 401
    # An event with the same id may arrive again: handle it once.
    print(event["id"], event["type"], event["data"])
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
	// An event with the same id may arrive again: handle it once.
	log.Printf("%s", body)
	w.WriteHeader(http.StatusNoContent)
}`,
  },
];
