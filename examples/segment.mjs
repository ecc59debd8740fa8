// Segment's SDK as the sender: node segment.mjs. WEBHOOK_URL is the address of a single signal, which takes its batches too.
import { Analytics } from "@segment/analytics-node";

const { origin, pathname } = new URL(process.env.WEBHOOK_URL);
const analytics = new Analytics({ writeKey: "unused", host: origin, path: pathname });

analytics.identify({ userId: "u-1", traits: { email: "jane@example.com", name: "Jane Doe", company: { id: "acme" } } });
analytics.track({ userId: "u-1", event: "Demo Requested", properties: { plan: "growth" } });
await analytics.closeAndFlush();
console.log("sent");
