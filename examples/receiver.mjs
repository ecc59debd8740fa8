// Receives notifications: SECRET=whsec_… PORT=8080 node receiver.mjs. The page of a new webhook destination shows the secret once.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";

const secret = Buffer.from(process.env.SECRET.replace("whsec_", ""), "base64");
const TOLERANCE_SECONDS = 300;
/** Ids of notifications that were handled. A real receiver keeps them for a week, in its database. */
const seen = new Set();

/** Standard Webhooks: HMAC-SHA256 over id, time and the raw body. During a change of the secret there are two signatures. */
function isSigned(headers, body) {
  const { "webhook-id": id, "webhook-timestamp": at, "webhook-signature": signatures = "" } = headers;
  if (Math.abs(Date.now() / 1_000 - Number(at)) > TOLERANCE_SECONDS) return false;
  const expected = createHmac("sha256", secret).update(`${id}.${at}.`).update(body).digest();
  return signatures.split(" ").some((signature) => {
    const given = Buffer.from(signature.replace("v1,", ""), "base64");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}

const server = createServer(async (request, response) => {
  const body = await buffer(request);
  if (!isSigned(request.headers, body)) return response.writeHead(400).end("wrong signature");
  // Answer first: what takes longer than ten seconds counts as failed and is sent again.
  response.writeHead(204).end();
  const id = request.headers["webhook-id"];
  if (seen.has(id)) return undefined;
  seen.add(id);
  const { type, data } = JSON.parse(body.toString());
  console.log(type, JSON.stringify(data));
  return undefined;
});
server.listen(Number(process.env.PORT ?? 8080), "127.0.0.1", () => console.log("listening on", server.address().port));
