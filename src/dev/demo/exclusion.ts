/** The demo's exclusion: it takes the points of one person away, and gives them back. */
import { setTimeout as sleep } from "node:timers/promises";
import type { OperatorClient } from "../operator-client.ts";
import { bold, mark } from "../terminal.ts";

const POLL_MS = 50;

type Scores = Map<string, number>;

interface Preview {
  points: number;
  by_person: { email: string; before: number; after: number }[];
}

/** @param email of somebody with points. @returns whether all is as expected. */
export async function excludePerson(operator: OperatorClient, home: string, email: string): Promise<boolean> {
  const exclusion = { name: "Own staff", conditions: [{ path: "email", operator: "equals", value: email }] };
  const before = await scores(operator, home);
  const preview = await operator.post<Preview>(`${home}/exclusions/preview`, { items: [exclusion] });
  await apply(operator, home, [exclusion]);
  const during = await scores(operator, home);
  await apply(operator, home, []);
  const after = await scores(operator, home);

  const points = before.get(email) ?? 0;
  const [only, ...others] = preview.by_person;
  const changed = [...before].filter(([person, score]) => during.get(person) !== score).map(([person]) => person);
  const checks: [string, boolean][] = [
    [
      `the preview says that ${email} would lose ${points} points`,
      points > 0 && only?.email === email && only.after === 0 && others.length === 0 && preview.points === -points,
    ],
    [`excluded, ${email} has no points, and nobody else changes`, during.get(email) === 0 && changed.join() === email],
    [
      "without the exclusion, everybody has the same points as before",
      [...before].every(([person, score]) => after.get(person) === score),
    ],
  ];
  console.log(`\n${bold("An exclusion, applied to the past and removed")}`);
  for (const [text, good] of checks) console.log(`  ${mark(good)} ${text}`);
  return checks.every(([, good]) => good);
}

async function scores(operator: OperatorClient, home: string): Promise<Scores> {
  const people = await operator.list<{ email: string; score: number }>(`${home}/people`);
  return new Map(people.map(({ email, score }) => [email, score]));
}

async function apply(operator: OperatorClient, home: string, items: readonly object[]): Promise<void> {
  await operator.call("PUT", `${home}/exclusions`, { items });
  let { status } = await operator.post<{ status: string }>(`${home}/exclusions/apply`);
  while (status !== "done") {
    // oxlint-disable-next-line no-await-in-loop -- waits for the job
    await sleep(POLL_MS);
    // oxlint-disable-next-line no-await-in-loop -- waits for the job
    ({ status } = await operator.get<{ status: string }>(`${home}/exclusions/apply`));
  }
}
