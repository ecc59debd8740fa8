// Sends a signal: node node.mjs. WEBHOOK_URL is the address that was shown with the API key.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const ATTEMPTS = 6;

/** Resolves with the answer. Rejects if the service rejects the signal, or cannot be reached in several minutes. */
export async function send(signal, { url = process.env.WEBHOOK_URL, secret = process.env.WEBHOOK_SECRET } = {}) {
  const headers = {
    "content-type": "application/json",
    // The same for each attempt: if an attempt was counted although its answer was lost, the next one scores nothing.
    "idempotency-key": randomUUID(),
    ...(secret !== undefined && { "x-api-secret": secret }),
  };
  const body = JSON.stringify(signal);
  for (let attempt = 1; ; attempt++) {
    const answer = await fetch(url, { method: "POST", headers, body }).catch((error) => error);
    if (answer instanceof Response) {
      if (answer.ok) return answer.json();
      // 429 and 5xx: later it may work. Everything else says what is wrong with the call.
      if (answer.status !== 429 && answer.status < 500) throw new Error(await answer.text());
    }
    if (attempt === ATTEMPTS) throw new Error(`not delivered after ${ATTEMPTS} attempts`, { cause: answer });
    const seconds = answer instanceof Response ? Number(answer.headers.get("retry-after")) : 0;
    await sleep(Math.max(seconds * 1_000, 2 ** attempt * 250 * (1 + Math.random())));
  }
}

if (import.meta.main ?? process.argv[1] === import.meta.filename) {
  console.log(await send({ email: "jane@example.com", event: "Signed Up", properties: { plan: "growth" } }));
}
