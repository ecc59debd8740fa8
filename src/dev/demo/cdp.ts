/** Customer data platforms: webhook destinations, batching ones too, and server-side SDKs. */
import { gzipSync } from "node:zlib";
import { JSON_TYPE, type Call, type DemoKeys, type Sender } from "./delivery.ts";
import { cdpCall, IDENTIFIED, identifyCall, pageCall, trackCall, VISITORS } from "./sender-payloads.ts";

const PRICES = "https://example.com/pricing";

export function customerDataPlatforms({ campaigns }: DemoKeys): Sender {
  const path = `/api/signal-staging/webhook/${campaigns}`;
  const single = (call: object): Call => ({ path, headers: JSON_TYPE, body: JSON.stringify(call) });
  const visits = VISITORS.flatMap((visitor) => [
    single(pageCall(visitor, "Home", "https://example.com/")),
    single(pageCall(visitor, "Prices", PRICES)),
    single(trackCall(visitor, "Feature Used", { feature: "tour" })),
  ]);
  const features = VISITORS.flatMap((visitor) =>
    ["export", "import", "share", "comment", "search"].map((feature) =>
      trackCall(visitor, "Feature Used", { feature }),
    ),
  );

  // A server-side SDK that knows its users by their id only.
  const reports = Array.from({ length: 50 }, (_, at) => {
    const { userId } = IDENTIFIED[at % IDENTIFIED.length] ?? {};
    return cdpCall("track", { anonymousId: null, userId, event: "Report Viewed", properties: { report: at } });
  });
  const segmentBatch: Call = {
    path: `${path}/batch`,
    headers: { ...JSON_TYPE, authorization: "Basic d3JpdGUta2V5Og==" },
    body: JSON.stringify({ batch: reports, writeKey: "write-key", sentAt: new Date().toISOString() }),
  };
  // A server-side SDK that compresses, and labels its JSON as a form.
  const pages = Array.from({ length: 60 }, (_, at) => {
    const { userId } = IDENTIFIED[at % IDENTIFIED.length] ?? {};
    const url = at % 6 === 0 ? `${PRICES}?plan=${at}` : `https://example.com/blog/${at}`;
    const context = { library: { name: "@rudderstack/rudder-sdk-node" }, page: { url } };
    const { timestamp: originalTimestamp, ...call } = cdpCall("page", {
      userId,
      name: "Page",
      properties: {},
      context,
    });
    return { ...call, originalTimestamp };
  });
  const rudderBatches = [pages.slice(0, 30), pages.slice(30)].map((batch) => ({
    path: `${path}/batch`,
    headers: { "content-type": "application/x-www-form-urlencoded", "content-encoding": "gzip" },
    body: gzipSync(JSON.stringify({ batch, timestamp: new Date().toISOString(), sentAt: new Date().toISOString() })),
  }));
  const mixed = reports.slice(0, 16).map((call) => ({ ...call, messageId: `mixed-${call.messageId}` }));
  const bad = [
    { type: "track", messageId: "m-1" },
    "Report Viewed",
    { email: "jane", event: "Signed Up" },
    { event: "" },
  ];
  return {
    name: "Customer data platforms",
    deliveries: [
      {
        what: "page and track calls of 8 anonymous visitors",
        calls: visits,
        parallel: true,
        status: 202,
        kept: visits.length,
        points: IDENTIFIED.map(({ lead }) => [lead, 5 + 2]),
      },
      {
        what: "5 of the visitors identify themselves",
        calls: IDENTIFIED.map((visitor) => single(identifyCall(visitor))),
        parallel: true,
        status: 202,
        kept: IDENTIFIED.length,
      },
      {
        what: "a destination with batching on: a bare array",
        calls: [single(features)],
        status: 202,
        kept: features.length,
        points: IDENTIFIED.map(({ lead }) => [lead, 5 * 2]),
      },
      { what: 'Segment SDK, {"batch":[…]}', calls: [segmentBatch], status: 202, kept: reports.length },
      {
        what: "the same batch again, after a time-out",
        calls: [segmentBatch],
        status: 202,
        kept: reports.length,
        duplicates: reports.length,
      },
      {
        what: "RudderStack SDK, gzip labelled as a form",
        calls: rudderBatches,
        status: 202,
        kept: pages.length,
        points: IDENTIFIED.map(({ lead }) => [lead, 2 * 5]),
      },
      {
        what: "a batch with four bad items among 20",
        calls: [
          { ...segmentBatch, body: JSON.stringify({ batch: [...mixed.slice(0, 3), ...bad, ...mixed.slice(3)] }) },
        ],
        status: 202,
        code: "event_missing",
        kept: mixed.length,
        refused: bad.length,
      },
    ],
  };
}
