/** The Hono environment of the whole Worker, and the one factory that every route and middleware is made with. */
import { createFactory } from "hono/factory";

export interface AppEnv {
  Bindings: Env;
  Variables: {
    /** `req_` + UUIDv7; in every log line and problem body. */
    requestId: string;
    /** What the request log says beyond route, status and duration. Never a path, a key or a payload. */
    logFields: Record<string, string | number | boolean | null>;
  };
}

export const factory = createFactory<AppEnv>();
