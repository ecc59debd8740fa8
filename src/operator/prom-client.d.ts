/**
 * prom-client by its parts: its index also loads what Node alone has (the cluster, the event loop's delay), and a summary of
 * a process that the platform does not show.
 */
declare module "prom-client/lib/registry.js" {
  import { Registry } from "prom-client";
  export default Registry;
}
declare module "prom-client/lib/gauge.js" {
  import { Gauge } from "prom-client";
  export default Gauge;
}
declare module "prom-client/lib/counter.js" {
  import { Counter } from "prom-client";
  export default Counter;
}
