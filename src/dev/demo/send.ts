/** Sends the demo's signals and compares each answer with the expected one. */
import { bold, dim, mark, red, wrap } from "../terminal.ts";
import type { Call, DemoDelivery, Sender } from "./senders.ts";

/** Sums of the answers, and the expected result. */
export interface DemoSent {
  calls: number;
  accepted: number;
  held: number;
  duplicates: number;
  /** Expected points by email. */
  scores: Map<string, number>;
  /** Whether each answer was as expected. */
  asExpected: boolean;
}

interface Answer {
  status: number;
  accepted: number;
  held: number;
  refused: number;
  code: string | undefined;
  detail: string | undefined;
}

/** The fields of answers that are read here. */
interface AnswerBody {
  status: string | number;
  accepted?: number;
  held?: number;
  rejected?: number;
  code?: string;
  detail?: string;
  results?: { index: number; status: string; code?: string; detail?: string }[];
}

const WIDTH = { what: 47, calls: 5, detail: 100 };

export async function send(origin: string, senders: Sender[]): Promise<DemoSent> {
  const sent: DemoSent = { calls: 0, accepted: 0, held: 0, duplicates: 0, scores: new Map(), asExpected: true };
  let shownDetail: string | undefined;
  for (const { name, deliveries } of senders) {
    console.log(`\n${bold(name)}`);
    for (const delivery of deliveries) {
      const answers = await sendAll(origin, delivery);
      const odd = answers.find((answer) => answer.status !== delivery.status || answer.code !== delivery.code);
      const total = (field: "accepted" | "held" | "refused"): number =>
        answers.reduce((sum, answer) => sum + answer[field], 0);
      const [accepted, held, refused] = [total("accepted"), total("held"), total("refused")];
      const good =
        odd === undefined &&
        accepted + held === delivery.kept &&
        held === (delivery.held ?? 0) &&
        refused === (delivery.refused ?? 0);
      show(delivery, odd ?? answers[0], { accepted, held, refused }, good);
      const detail = (odd ?? answers[0])?.detail;
      if (detail !== undefined)
        console.log(dim(detail === shownDetail ? "    (as above)" : wrap(detail, WIDTH.detail, 4)));
      shownDetail = detail;
      sent.calls += answers.length;
      sent.accepted += accepted;
      sent.held += held;
      sent.duplicates += delivery.duplicates ?? 0;
      for (const [{ email }, points] of delivery.points ?? []) {
        sent.scores.set(email, (sent.scores.get(email) ?? 0) + points);
      }
      sent.asExpected &&= good;
    }
  }
  return sent;
}

async function sendAll(origin: string, { calls, parallel }: DemoDelivery): Promise<Answer[]> {
  if (parallel === true) return Promise.all(calls.map((call) => sendOne(origin, call)));
  const answers: Answer[] = [];
  for (const call of calls) answers.push(await sendOne(origin, call));
  return answers;
}

async function sendOne(origin: string, { path, body, method = "POST", headers = {} }: Call): Promise<Answer> {
  const response = await fetch(origin + path, { method, headers, body });
  const answer = (await response.json()) as AnswerBody;
  const { status } = response;
  if (status !== 202) return { status, accepted: 0, held: 0, refused: 0, code: answer.code, detail: answer.detail };
  if (answer.results === undefined) {
    const held = answer.status === "held" ? 1 : 0;
    return { status, accepted: 1 - held, held, refused: 0, code: undefined, detail: undefined };
  }
  const bad = answer.results.find((result) => result.status === "rejected");
  const detail = bad && `signal ${bad.index}: ${bad.detail}`;
  return {
    status,
    accepted: answer.accepted ?? 0,
    held: answer.held ?? 0,
    refused: answer.rejected ?? 0,
    code: bad?.code,
    detail,
  };
}

function show(
  { what, calls, status, code }: DemoDelivery,
  answer: Answer | undefined,
  { accepted, held, refused }: { accepted: number; held: number; refused: number },
  good: boolean,
): void {
  const counts = [
    accepted > 0 ? `${accepted} accepted` : "",
    held > 0 ? `${held} held` : "",
    refused > 0 ? `${refused} refused: ${answer?.code}` : accepted + held === 0 ? (answer?.code ?? "") : "",
  ].filter((text) => text !== "");
  const called = `${calls.length} ${calls.length === 1 ? "call " : "calls"}`.padStart(WIDTH.calls + 4);
  console.log(`  ${mark(good)} ${what.padEnd(WIDTH.what)} ${called}  ${answer?.status} ${counts.join(", ")}`);
  if (!good) console.log(red(`    expected: ${status} ${code ?? ""}`));
}
