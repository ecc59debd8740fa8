/** Calls that a service answers at once to an honest caller. */
import type { AttackCall } from "./attack.ts";
import { callOf, type Attacker, type FreeWorkspace, type SenderKey } from "./attacker.ts";

export function honestSignal({ keys: [key] }: Attacker | FreeWorkspace): AttackCall {
  if (key === undefined) throw new Error("the workspace has no key");
  return signalOf(key);
}

function signalOf(key: SenderKey): AttackCall {
  const body = Buffer.from('{"email":"a@attacker.example","event":"e"}');
  return callOf("one small signal", "/api/signal-staging/webhook/KEY", key, body);
}

/** A page of an admin. */
export function honestGet({ slug, admins: [admin = {}] }: Attacker): AttackCall {
  return get("the list of rules", `/w/${slug}/rules`, admin);
}

export function get(title: string, path: string, headers: Record<string, string> = {}): AttackCall {
  return { title, method: "GET", path, headers };
}
