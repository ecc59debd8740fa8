/** Sends the demo's signals and compares each answer with the expected one. */
import { bold, dim, mark, red } from "../terminal.ts";
import type { Call, DemoDelivery, Sender } from "./senders.ts";

export interface DemoSent {
  calls: number;
  accepted: number;
  held: number;
  duplicates: number;
  /** Expected points by email. */
  scores: Map<string, number>;
  asExpected: boolean;
}

interface Answer {
  status: number;
  accepted: number;
  held: number;
  rejected: number;
  code?: string | undefined;
  detail?: string | undefined;
}

export async function send(origin: string, senders: Sender[]): Promise<DemoSent> {
  const sent: DemoSent = { calls: 0, accepted: 0, held: 0, duplicates: 0, scores: new Map(), asExpected: true };
  let shownDetail: string | undefined;
  for (const { name, deliveries } of senders) {
    console.log(`\n${bold(name)}`);
    for (const delivery of deliveries) {
      const answers = await sendAll(origin, delivery);
      const shown = show(delivery, answers);
      if (shown.detail !== undefined) {
        console.log(dim(shown.detail === shownDetail ? "    (as above)" : `    ${shown.detail}`));
      }
      shownDetail = shown.detail;
      sent.calls += answers.length;
      sent.accepted += shown.accepted;
      sent.held += shown.held;
      sent.duplicates += delivery.duplicates ?? 0;
      for (const [{ email }, points] of delivery.points ?? []) {
        sent.scores.set(email, (sent.scores.get(email) ?? 0) + points);
      }
      sent.asExpected &&= shown.asExpected;
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
  const { status } = response;
  const answer = (await response.json()) as Partial<Omit<Answer, "status">> & {
    status: string | number;
    results?: { index: number; status: string; code?: string; detail?: string }[];
  };
  const none = { status, accepted: 0, held: 0, rejected: 0 };
  if (status !== 202) return { ...none, code: answer.code, detail: answer.detail };
  if (answer.results === undefined) return { ...none, [answer.status === "held" ? "held" : "accepted"]: 1 };
  const { accepted = 0, held = 0, rejected = 0 } = answer;
  const bad = answer.results.find((result) => result.status === "rejected");
  return { status, accepted, held, rejected, code: bad?.code, detail: bad && `signal ${bad.index}: ${bad.detail}` };
}

/** Prints a line of the demo. @returns the sums of its answers, and the detail of the first unexpected answer. */
function show(delivery: DemoDelivery, answers: readonly Answer[]) {
  const { what, calls, status, code, kept } = delivery;
  const odd = answers.find((answer) => answer.status !== status || answer.code !== code);
  const answer = odd ?? answers[0];
  const total = (field: "accepted" | "held" | "rejected") => answers.reduce((sum, each) => sum + each[field], 0);
  const [accepted, held, rejected] = [total("accepted"), total("held"), total("rejected")];
  const asExpected =
    odd === undefined &&
    accepted + held === kept &&
    held === (delivery.held ?? 0) &&
    rejected === (delivery.refused ?? 0);
  const counts = [
    accepted > 0 ? `${accepted} accepted` : "",
    held > 0 ? `${held} held` : "",
    rejected > 0 ? `${rejected} refused: ${answer?.code}` : accepted + held === 0 ? (answer?.code ?? "") : "",
  ].filter((text) => text !== "");
  const called = `${calls.length} ${calls.length === 1 ? "call " : "calls"}`.padStart(9);
  console.log(`  ${mark(asExpected)} ${what.padEnd(47)} ${called}  ${answer?.status} ${counts.join(", ")}`);
  if (!asExpected) console.log(red(`    expected: ${status} ${code ?? ""}`));
  return { accepted, held, asExpected, detail: answer?.detail };
}
