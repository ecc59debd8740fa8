/** The notifications about thresholds: rises minus falls are those who are above, and no transaction says both. */
import { expect } from "vitest";
import type { Notification } from "../../../src/domain/notifications/notification.ts";
import { ACCOUNT_THRESHOLDS, PERSON_THRESHOLDS, type ComparedScores, type Shown } from "./real.ts";

type Sums = Map<number, number>;

export class Balance {
  readonly #people: Sums = new Map(PERSON_THRESHOLDS.map((threshold) => [threshold, 0]));
  readonly #accounts: Sums = new Map(ACCOUNT_THRESHOLDS.map((threshold) => [threshold, 0]));

  /** @param notifications of one transaction. @param mayLapse whether it may have removed lapsed points: that is a true fall, before a rise. */
  note(notifications: readonly Notification[], mayLapse: boolean): void {
    const said = new Map<string, string>();
    const passed = (name: string, sums: Sums, threshold: number, by: 1 | -1): void => {
      add(sums, threshold, by);
      const before = said.get(`${name} ${threshold}`);
      if (!mayLapse) expect(before, `${name} rises and falls by ${threshold} at once`).toBeUndefined();
      said.set(`${name} ${threshold}`, String(by));
    };
    for (const notification of notifications) {
      switch (notification.type) {
        case "person.score_crossed":
          passed(notification.data.email, this.#people, notification.data.threshold, 1);
          break;
        case "person.score_fell":
          passed(notification.data.email, this.#people, notification.data.threshold, -1);
          break;
        case "account.score_crossed":
          passed(notification.data.external_id, this.#accounts, notification.data.threshold, 1);
          break;
        case "account.score_fell":
          passed(notification.data.external_id, this.#accounts, notification.data.threshold, -1);
          break;
        case "people.rescored":
          for (const { threshold, risen, fallen } of notification.data.thresholds)
            add(this.#people, threshold, risen - fallen);
          break;
        default:
      }
    }
  }

  /** A person who is deleted leaves silently, and their account falls silently. */
  left(email: string, before: ComparedScores, after: ComparedScores, notifications: readonly Notification[]): void {
    const score = before.people.get(email) ?? 0;
    for (const threshold of PERSON_THRESHOLDS) if (score >= threshold) add(this.#people, threshold, -1);
    const notified = new Set(
      notifications.flatMap((notification) =>
        notification.type.startsWith("account.") && "external_id" in notification.data
          ? [notification.data.external_id]
          : [],
      ),
    );
    for (const name of new Set([...before.accounts.keys(), ...after.accounts.keys()])) {
      if (notified.has(name)) continue;
      const [was, is] = [before.accounts.get(name) ?? 0, after.accounts.get(name) ?? 0];
      for (const threshold of ACCOUNT_THRESHOLDS) {
        add(this.#accounts, threshold, Number(is >= threshold) - Number(was >= threshold));
      }
    }
  }

  /** Call it when nothing is under way and all notifications have been noted. */
  expectBalanced({ people, accounts }: Shown): void {
    const scores = [...people.values()].map(scoreOf);
    for (const [threshold, sum] of this.#people) {
      const above = scores.filter((score) => score >= threshold).length;
      expect(sum, `people who have risen to ${threshold} by the notifications`).toBe(above);
    }
    for (const [threshold, sum] of this.#accounts) {
      const above = [...accounts.values()].filter(({ score }) => score >= threshold).length;
      expect(sum, `accounts that have risen to ${threshold} by the notifications`).toBe(above);
    }
  }
}

function scoreOf(row: Record<string, unknown> | undefined): number {
  return Number(row?.["score"] ?? 0);
}

function add(sums: Sums, threshold: number, by: number): void {
  sums.set(threshold, (sums.get(threshold) ?? 0) + by);
}
