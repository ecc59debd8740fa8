/** Whom a signal names: by an email, a user id, an anonymous id, or several of these. */
import { isJsonObject } from "../../domain/json/dot-path.ts";
import { normalise } from "../../domain/signal/normalise.ts";
import type { NormalisedSignal } from "../../domain/signal/signal.ts";
import type { Facts } from "../log/line.ts";
import type { Admission } from "../../wire/admission.ts";

export type VisitorNames = Pick<NormalisedSignal, "email" | "userId" | "anonymousId">;

/** The names of a line, as the signal itself has them. */
export function namesOnLine({ email, userId, anonymousId }: Facts): VisitorNames {
  return {
    ...(email === null ? {} : { email }),
    ...(userId === null ? {} : { userId }),
    ...(anonymousId === null ? {} : { anonymousId }),
  };
}

/** Whom a dead letter names, by the fields that name people; null: nobody, an account, or it cannot be read. */
export function visitorOfPayload(payload: string | null, admission: Admission): VisitorNames | null {
  if (payload === null || admission.endpoint !== "signal_staging") return null;
  try {
    const read: unknown = JSON.parse(payload);
    return isJsonObject(read) ? normalise(read, admission.pathSource) : null;
  } catch {
    return null;
  }
}
