// Sends many signals in one call, one JSON object a line: node batch.mjs. WEBHOOK_URL is the address of a single signal.
const signals = [
  { id: "import-1", email: "jane@example.com", event: "Attended Webinar", timestamp: "2026-11-20T09:00:00Z" },
  { id: "import-2", email: "joe@example.com", event: "Attended Webinar", timestamp: "2026-11-20T09:00:00Z" },
  { id: "import-3", email: "joe@example.com" },
];

const url = process.env.WEBHOOK_URL.replace("/webhook/", "/bulk/");
const body = signals.map((signal) => JSON.stringify(signal)).join("\n");
const answer = await fetch(url, { method: "POST", headers: { "content-type": "application/x-ndjson" }, body });
const { results = [] } = await answer.json();

console.log(`${answer.status}: ${results.filter(({ status }) => status === "accepted").length} accepted`);
// A rejected signal does not harm the others. With `id` the whole call may be sent again: the others are duplicates then.
for (const { index, status, code, detail } of results) {
  if (status === "rejected") console.log(`signal ${index}: ${code}: ${detail}`);
}
