/** Signals sent while the service is killed, and their state afterwards. */
import { expect } from "vitest";
import type { ProvisionedWorkspace } from "../../bench/operator-api.ts";
import type { Service } from "../../support/service.ts";

/**
 * Posts signals over several connections until the service is killed.
 *
 * @param next the signals of the next call. @param ids receives the ids of signals answered with 202.
 */
export async function postUntilKilled(
  service: Service,
  { key }: ProvisionedWorkspace,
  { connections, next, ids = [] }: { connections: number; next: () => object[]; ids?: string[] },
): Promise<void> {
  const sender = async () => {
    while (service.isRunning) {
      const signals = next();
      let answer: Response;
      let text: string;
      try {
        answer = await service.post(
          `signal-staging/webhook/${key}`,
          signals.length === 1 ? (signals[0] ?? {}) : signals,
        );
        text = await answer.text();
      } catch (error) {
        if (service.isRunning) throw error;
        return;
      }
      expect(answer.status, text).toBe(202);
      const answered = JSON.parse(text) as { id: string; results?: { id: string }[] };
      ids.push(...(answered.results ?? [answered]).map(({ id }) => id));
    }
  };
  await Promise.all(Array.from({ length: connections }, sender));
}

export interface Listed {
  id: string;
  status: string;
  email: string;
}

/** Each acknowledged signal is processed, and the books agree with the list of signals. @returns the list. */
export async function expectProcessed(
  { api }: Service,
  { id: workspaceId, home }: ProvisionedWorkspace,
  acknowledged: readonly string[],
): Promise<Listed[]> {
  const books = await api.settled(workspaceId);
  const signals = await api.list<Listed>(`${home}/signals`);
  const places = new Map(signals.map(({ id, status }) => [id, status]));
  expect(places.size).toBe(signals.length);
  expect(acknowledged.filter((id) => places.get(id) !== "processed")).toEqual([]);
  // A killed service may have counted signals that it did not answer.
  expect(books).toMatchObject({ accepted: signals.length, processed: signals.length, balanced: true });
  return signals;
}
