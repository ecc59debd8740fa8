/** The CDPs' own Node SDKs as an application uses them; only the address option is this service's. */
import { setImmediate as nextTurn } from "node:timers/promises";
import RudderAnalytics from "@rudderstack/rudder-sdk-node";
import { Analytics as SegmentAnalytics } from "@segment/analytics-node";

type Done = (error?: unknown) => void;

/** The common interface of both SDKs. */
interface Cdp {
  identify(message: object, done: Done): unknown;
  track(message: object, done: Done): unknown;
  page(message: object, done: Done): unknown;
  screen(message: object, done: Done): unknown;
  group(message: object, done: Done): unknown;
  alias(message: object, done: Done): unknown;
}

export interface Sender {
  call(type: keyof Cdp, message: object): void;
  /** Waits until the SDK has delivered or dropped everything. */
  flush(): Promise<void>;
  /** Events that the SDK reported as delivered. */
  delivered(): number;
  /** Errors that the SDK passed to the application's listener. */
  errors: unknown[];
}

export interface Vendor {
  source: "segment" | "rudderstack";
  /** The headers and fields that identify its requests. */
  wire: { "content-type": string; "content-encoding"?: string };
  newSender(origin: string, path: string): Sender;
}

const WRITE_KEY = "not-used-here";

const segment: Vendor = {
  source: "segment",
  wire: { "content-type": "application/json" },
  newSender(host, path) {
    const errors: unknown[] = [];
    const sdk = new SegmentAnalytics({ writeKey: WRITE_KEY, host, path });
    sdk.on("error", (error) => errors.push(error));
    return sender(sdk, errors, () => sdk.flush());
  },
};

const rudderstack: Vendor = {
  source: "rudderstack",
  wire: { "content-type": "application/x-www-form-urlencoded", "content-encoding": "gzip" },
  newSender(dataPlaneUrl, path) {
    const errors: unknown[] = [];
    const errorHandler = (error: unknown) => errors.push(error);
    const sdk = new RudderAnalytics(WRITE_KEY, { dataPlaneUrl, path, errorHandler, logLevel: "none" });
    return sender(sdk, errors, async () => {
      await sdk.flush();
      // The SDK calls back a turn after its flush.
      await nextTurn();
    });
  },
};

export const VENDORS = [segment, rudderstack];

function sender(cdp: Cdp, errors: unknown[], flush: () => Promise<void>): Sender {
  let delivered = 0;
  const done: Done = (error) => {
    if (error === undefined || error === null) delivered++;
  };
  return {
    call: (type, message) => void cdp[type](message, done),
    flush,
    delivered: () => delivered,
    errors,
  };
}
