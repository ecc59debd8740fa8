/** In CI a run must say the same of the same code: properties are tried with one seed there, with new ones elsewhere. */
import * as fc from "fast-check";

if (process.env["CI"] !== undefined) fc.configureGlobal({ seed: 20_261_120 });
