/** What came of the demo's signals, as the operator API tells it, against what was sent. */
import type { DemoSent } from "./send.ts";
import type {
  BooksAnswer,
  EventGroupAnswer,
  OperatorClient,
  PersonAnswer,
  RejectionAnswer,
  UsageAnswer,
} from "../operator-client.ts";
import { bold, cut, mark, table } from "../terminal.ts";

export interface DemoOutcome extends DemoSent {
  /** The books at the end; null when not all signals were processed in time. */
  settled: BooksAnswer | null;
  signalLimit: number;
  startedMs: number;
}

export async function report(operator: OperatorClient, home: string, outcome: DemoOutcome): Promise<boolean> {
  const people = await operator.list<PersonAnswer>(`${home}/people`);
  const groups = await operator.list<EventGroupAnswer>(`${home}/events`);
  const usage = await operator.get<UsageAnswer>(`${home}/usage`);
  const { items: rejections } = await operator.get<{ items: RejectionAnswer[] }>(`${home}/rejections`);
  const books = await operator.get<BooksAnswer>(`${home}/books`);

  section("People and their scores");
  people.sort((one, other) => other.score - one.score || one.email.localeCompare(other.email));
  console.log(
    table(
      ["email", "name", "company", "score", "made of"],
      people.map((person) => [
        person.email,
        person.name ?? "",
        person.company ?? "",
        person.score,
        madeOf(person.scoring_signals),
      ]),
    ),
  );
  section("Signal queue");
  console.log(
    table(
      ["event", "source", "count", "anonymous", "held"],
      groups.map(({ event, source, count, anonymous, held }) => [event, source, count, anonymous, held]),
    ),
  );
  section("Refused calls, as an admin sees them");
  console.log(
    table(
      ["key", "status", "code", "calls", "detail"],
      rejections.map(({ key_name, status, code, calls, detail }) => [
        key_name ?? "",
        status,
        code,
        calls,
        cut(detail, 60),
      ]),
    ),
  );
  section("Usage of the billing period");
  const { signal_limit, accepted, held, rejected } = usage;
  console.log(
    table(
      ["signal limit", "accepted", "held", "rejected", "ends"],
      [[signal_limit, accepted, held, rejected, usage.period_end]],
    ),
  );
  section("Books");
  console.log(
    table(Object.keys(books), [
      Object.values(books).map((value) => (value === true ? "yes" : value === false ? "no" : value)),
    ]),
  );
  return check(outcome, { people, usage, books });
}

function check(
  outcome: DemoOutcome,
  found: { people: PersonAnswer[]; usage: UsageAnswer; books: BooksAnswer },
): boolean {
  const { people, usage, books } = found;
  const kept = outcome.accepted + outcome.held;
  const placed = books.processed + books.duplicates + books.held + books.purged + books.dead_lettered + books.in_flight;
  const wrongScores = people.filter(({ email, score }) => score !== (outcome.scores.get(email) ?? 0));
  const known = new Set(people.map(({ email }) => email));
  const missing = [...outcome.scores.keys()].filter((email) => !known.has(email));

  section("Is that what was sent?");
  const checks: [string, boolean][] = [
    ["every answer was the expected one", outcome.asExpected],
    ["all signals were processed in time", outcome.settled !== null],
    [
      `the books balance: ${books.accepted} accepted, ${placed} in exactly one place`,
      books.balanced && placed === books.accepted,
    ],
    [`accepted: ${kept} by the answers, ${books.accepted} by the books`, kept === books.accepted],
    [`duplicates: ${outcome.duplicates} sent, ${books.duplicates} found`, outcome.duplicates === books.duplicates],
    [`held: ${outcome.held} by the answers, ${books.held} by the books`, outcome.held === books.held],
    ["no dead letters, nothing purged", books.dead_lettered === 0 && books.purged === 0],
    [
      `usage: ${usage.accepted} accepted of ${outcome.signalLimit}, ${usage.held} held`,
      usage.accepted === outcome.signalLimit && usage.held === outcome.held,
    ],
    [
      `scores of ${people.length} people: ${[...wrongScores.map(({ email }) => email), ...missing].join(", ") || "as expected"}`,
      wrongScores.length === 0 && missing.length === 0,
    ],
  ];
  for (const [text, good] of checks) console.log(`  ${mark(good)} ${text}`);
  const good = checks.every(([, holds]) => holds);
  const seconds = ((Date.now() - outcome.startedMs) / 1_000).toFixed(1);
  console.log(
    `\n${kept} signals in ${outcome.calls} calls, ${seconds} s. ${good ? "All is as expected." : "SOMETHING IS WRONG."}`,
  );
  return good;
}

function section(title: string): void {
  console.log(`\n${bold(title)}`);
}

/** What a score is made of, such as `demo_requested, pricing_viewed ×3`. */
function madeOf(scoringSignals: PersonAnswer["scoring_signals"]): string {
  const byName = Map.groupBy(scoringSignals, (scored) => scored.scoring_signal);
  return [...byName].map(([name, { length }]) => (length === 1 ? name : `${name} ×${length}`)).join(", ");
}
