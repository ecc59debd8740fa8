/**
 * `npm run test:soak -- --minutes 30 [--rate 100]`: the service at a steady rate. Its memory stays flat once it is
 * warm, the outbox empties, and each score agrees with the sent signals. Exits with 1 otherwise.
 *
 * The first third warms up. Memory is flat if its median after garbage collection in the last third is at most a
 * tenth above that in the second. It is the memory of the isolate with edge, consumer and objects, without the
 * store's memory of duplicates: that grows by design with each signal, up to a limit (src/store/log/originals.ts).
 * The memory of the whole process is also shown: it includes garbage and the simulated queues, D1 and R2.
 */
import { parseArgs } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";
import { heapBytes } from "../bench/heap.ts";
import { median } from "../bench/figures.ts";
import { callSteadily, type Answered, type Call } from "../fault/support/open-loop.ts";
import { Service } from "../support/service.ts";
import { VISIT_RULE } from "../bench/rules.ts";
import { FingerprintTable } from "../../src/store/log/originals.ts";
import { countAsked } from "./run-longer.ts";

const GROWTH_MAX = 1.1;
const SAMPLE_MS = 10_000;
const DRAINED_MS = 60_000;
const CONNECTIONS = 64;
const PEOPLE = 2_000;
/** Every n-th call is a batch of this size; one in n repeats the previous call; one in n identifies a browser. */
const [BATCH_EVERY, BATCH_SIGNALS, REPEAT_EVERY, IDENTIFY_EVERY] = [10, 10, 25, 20];

interface Sent extends Call {
  /** The people who score by the rule, once for each signal. */
  scorers: string[];
  signals: number;
  repeats: boolean;
}

const { values } = parseArgs({
  options: { minutes: { type: "string", default: "30" }, rate: { type: "string", default: "100" } },
});
const minutes = Number(countAsked("minutes", values.minutes, 10_000));
const rate = Number(countAsked("rate", values.rate, 10_000));

const service = await Service.makeShifted();
await service.start({ inspected: true });
const failures: string[] = [];
try {
  const { id, home, key } = await service.api.provision({ rules: [VISIT_RULE] });
  const due = new Map<string, number>();
  const counted = { signals: 0, duplicates: 0 };
  /** As large as the memory of the store, which remembers the same number of signals. */
  const remembered = new FingerprintTable(0, 0);
  const times: number[] = [];
  const rejected = new Map<number, number>();

  const answered = (call: Sent, { status, ms }: Answered): void => {
    times.push(ms);
    if (status !== 202) {
      rejected.set(status, (rejected.get(status) ?? 0) + 1);
      return;
    }
    counted.signals += call.signals;
    if (call.repeats) {
      counted.duplicates += call.signals;
      return;
    }
    for (const email of call.scorers) due.set(email, (due.get(email) ?? 0) + 1);
    for (let n = 0; n < call.signals; n++) remembered.add(counted.signals - n, 0);
  };
  const load = callSteadily(
    { origin: service.origin, connections: CONNECTIONS, next: calls(key), answered },
    rate,
    minutes * 60_000,
  );

  const held: number[] = [];
  const resident: number[] = [];
  const outbox: number[] = [];
  for (let isOver = false; !isOver; isOver = await Promise.race([sleep(SAMPLE_MS, false), load.then(() => true)])) {
    held.push((await heapBytes(service.running.miniflare, "worker")) - remembered.bytes);
    resident.push(service.running.residentBytes());
    outbox.push((await service.api.books(id)).in_flight);
  }

  const endsAt = Date.now() + DRAINED_MS;
  let books = await service.api.books(id);
  while (books.in_flight > 0 && Date.now() < endsAt) {
    await sleep(100);
    books = await service.api.books(id);
  }
  const people = await service.api.list<{ email: string; score: number }>(`${home}/people`);
  const scores = new Map(people.map(({ email, score }) => [email, score]));
  const [warm, late] = lastThirds(held);

  if (rejected.size > 0) failures.push(`rejected: ${JSON.stringify(Object.fromEntries(rejected))}`);
  if (books.in_flight > 0) failures.push(`${books.in_flight} signals are still in the outbox`);
  if (!books.balanced || books.accepted !== counted.signals) failures.push(`the books are ${JSON.stringify(books)}`);
  if (books.duplicates !== counted.duplicates) failures.push(`${counted.duplicates} repetitions were sent`);
  const wrong = [...due].filter(([email, score]) => scores.get(email) !== score);
  if (wrong.length > 0 || scores.size !== due.size) failures.push(`${wrong.length} scores are wrong`);
  if (late > GROWTH_MAX * warm) failures.push("memory grows");
  const [residentWarm, residentLate] = lastThirds(resident);
  const mb = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
  times.sort((a, b) => a - b);
  const p99 = times[Math.floor(times.length * 0.99)] ?? Number.NaN;
  process.stdout.write(
    `soak: ${minutes} minutes, ${times.length} calls, ${counted.signals} signals accepted, ${counted.duplicates} of them duplicates, ` +
      `${scores.size} people; held in memory ${mb(warm)} in the second third, ${mb(late)} in the last, besides ${mb(remembered.bytes)} to know duplicates by; by the whole process ${mb(residentWarm)} and ${mb(residentLate)}; ` +
      `at most ${Math.max(...outbox)} signals in flight, ${books.in_flight} at the end; 99 of 100 calls within ${p99.toFixed(0)} ms\n`,
  );
} finally {
  await service.remove();
}
for (const failure of failures) process.stderr.write(`soak: ${failure}\n`);
process.exitCode = failures.length > 0 ? 1 : 0;

/** The medians of the second and of the last third. */
function lastThirds(samples: readonly number[]): [number, number] {
  const third = Math.floor(samples.length / 3);
  return [median(samples.slice(third, 2 * third)), median(samples.slice(-third))];
}

/** The calls in turn. All signals differ, except those of a repeated call. */
function calls(key: string): () => Sent {
  let made = 0;
  let signals = 0;
  let last: Sent | null = null;
  const visit = (): { email: string; signal: object } => {
    const n = signals++;
    const email = `p${n % PEOPLE}@example.com`;
    return { email, signal: { messageId: `m${n}`, email, event: "Visit", properties: { n, page: `/page/${n % 50}` } } };
  };
  return () => {
    made++;
    if (made % REPEAT_EVERY === 0 && last !== null) return { ...last, repeats: true };
    const path = `/api/signal-staging/webhook/${key}`;
    if (made % IDENTIFY_EVERY === 0) {
      // A visit of an unknown browser, and then its identify.
      const { email, signal } = visit();
      const anonymousId = `browser-${made}`;
      const track = { ...signal, type: "track", anonymousId, email: undefined };
      const identify = { type: "identify", messageId: `i${made}`, anonymousId, traits: { email } };
      last = { path, body: JSON.stringify([track, identify]), scorers: [email], signals: 2, repeats: false };
      return last;
    }
    const visits = Array.from({ length: made % BATCH_EVERY === 0 ? BATCH_SIGNALS : 1 }, visit);
    const sent = visits.map(({ signal }) => signal);
    const body = JSON.stringify(sent.length === 1 ? sent[0] : sent);
    last = { path, body, scorers: visits.map(({ email }) => email), signals: visits.length, repeats: false };
    return last;
  };
}
