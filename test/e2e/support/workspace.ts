/** A workspace for one test, with three members and its senders. */
import { inject } from "vitest";
import { OperatorClient } from "../../../src/dev/operator-client.ts";

const ROLES = ["owner", "admin", "member"] as const;

export interface TestWorkspace {
  id: string;
  /** `/w/{slug}`. */
  home: string;
  /** Emails. */
  owner: string;
  admin: string;
  member: string;
  operator: OperatorClient;
  /** A key, created through the operator API. */
  newKey(): Promise<string>;
  /** The score of a person; null for an unknown one. */
  score(email: string): Promise<number | null>;
}

/** @param slug that no other test has. */
export async function newWorkspace(slug: string, signalLimit = 1_000): Promise<TestWorkspace> {
  const operator = new OperatorClient(inject("origin"), inject("operatorToken"));
  await operator.call("PUT", `plans/${slug}`, { name: `plan of ${slug}`, signal_limit: signalLimit, paid: true });
  const { id } = await operator.post<{ id: string }>("workspaces", { slug, name: slug, plan: slug });
  const email = (role: string) => `${role}@${slug}.example`;
  for (const role of ROLES) await operator.post(`workspaces/${id}/members`, { email: email(role), role });
  return {
    id,
    home: `/w/${slug}`,
    owner: email("owner"),
    admin: email("admin"),
    member: email("member"),
    operator,
    newKey: async () => (await operator.post<{ key: string }>(`workspaces/${id}/keys`, { name: "Test" })).key,
    async score(of) {
      const people = await operator.get<{ items: { score: number }[] }>(`workspaces/${id}/people?email=${of}`);
      return people.items[0]?.score ?? null;
    },
  };
}

/** Sends a signal as a sender does. @returns the status of the answer. */
export async function send(key: string, signal: object): Promise<number> {
  const url = `${inject("origin")}/api/signal-staging/webhook/${key}`;
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(signal) });
  await answer.body?.cancel();
  return answer.status;
}

export const FORM = {
  email: "jane@example.com",
  event: "Filled Out Form",
  source: "website",
  properties: { form_name: "Demo request" },
};
