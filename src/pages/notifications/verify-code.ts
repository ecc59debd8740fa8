/** How a receiver checks what it is sent, in common languages: with the libraries of the Standard Webhooks specification. */

interface CodeSample {
  id: string;
  language: string;
  install: string;
  code: string;
}

/** Samples of receivers. None holds the secret: each reads it from where secrets are. */
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
  // The same event.id may come again: do it once.
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
    # The same event["id"] may come again: do it once.
    print(event["id"], event["type"], event["data"])
    return "", 204`,
  },
  {
    id: "go",
    language: "Go",
    install: "go get github.com/standard-webhooks/standard-webhooks/libraries",
    code: `package main

import (
	"io"
	"log"
	"net/http"
	"os"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func main() {
	webhook, err := standardwebhooks.NewWebhook(os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("POST /hooks/signals", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || webhook.Verify(body, r.Header) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		// The same id may come again: do it once.
		log.Printf("%s", body)
		w.WriteHeader(http.StatusNoContent)
	})
	log.Fatal(http.ListenAndServe(":8080", nil))
}`,
  },
];
