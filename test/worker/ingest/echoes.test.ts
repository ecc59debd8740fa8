/** Invariant 6 and design §5: keys, secrets and personal data in a rejected call. */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { expect, test } from "vitest";
import { newMembers } from "../../support/members.ts";
import { until } from "../../support/until.ts";

const PERSON = "jane.roe-at-acme.test +49 30 901820";

/** Any eight consecutive characters of a secret text. */
function pieces(text: string): string[] {
  return Array.from({ length: text.length - 8 }, (_, at) => text.slice(at, at + 8));
}

test("stores and shows no key, secret or personal data of a rejected call", async () => {
  const { workspace, member, owner, home } = await newMembers();
  const template = [
    { target: "external_id", path: "id", type: "string" },
    { target: "user_count", path: "seats", type: "number" },
  ];
  const accounts = await workspace.newKey({ endpoint_type: "product_org", payload_template: template });
  const { key, secret = "" } = await workspace.newKey({ secret: true });
  const answers: string[] = [];
  for (const text of [key, secret, key.slice(0, -8), PERSON]) {
    const bodies = [
      { event: "Signed Up", email: text },
      { event: "x".repeat(256 - text.length) + text, email: "a@example.com" },
      { event: `${text} ${"x".repeat(256)}` },
      { event: "Signed Up", source: `${text} ${"x".repeat(256)}` },
      [{ event: "Signed Up", email: text }, { event: "Signed Up" }],
      `{"event": "Signed Up", "email": ${text}}`,
    ];
    // One at a time: the first detail of a kind would hide the next.
    for (const body of bodies) answers.push(await (await workspace.send(body)).text());
    const path = "/api/product-orgs/webhook/{key}";
    answers.push(await (await workspace.send({ id: "1", seats: text }, { path, key: accounts.key })).text());
  }
  for (const text of [key, secret]) {
    for (const body of [{ event: text }, { event: "A", source: text }, { type: "track", userId: "u", event: text }]) {
      const answer = await workspace.send(body);
      expect(answer.status).toBe(422);
      answers.push(await answer.text());
    }
    expect((await workspace.send({ event: "A" }, { path: `/api/signal-staging/webhook/${text}/{key}` })).status).toBe(
      422,
    );
  }
  await workspace.settled();

  const rejections = JSON.stringify(await workspace.operator("GET", "/rejections?limit=200"));
  const page = await owner.see(`${home}/rejections`);
  const queue = await owner.see(`${home}/signals`);
  const stored = await until(async () => {
    await runDurableObjectAlarm(workspace.counter);
    const rows = await runInDurableObject(workspace.counter, (_counter, { storage: { sql } }) =>
      JSON.stringify(sql.exec("SELECT * FROM rejections").toArray()),
    );
    for (const code of ["template_mismatch", "source_invalid"]) expect(rows).toContain(code);
    return rows;
  });
  const live = (await member.get(`${home}/live/rejections`)).body;
  expect(live).toContain("Rejected");
  const everywhere = { answers: answers.join("\n"), rejections, page, queue, stored, live };
  for (const [where, shown] of Object.entries(everywhere)) {
    for (const piece of [...pieces(key.slice(8, -4)), ...pieces(secret)]) expect(shown, where).not.toContain(piece);
    // Only the sender sees the beginning of the sent text.
    if (where !== "answers") for (const piece of pieces(PERSON)) expect(shown, where).not.toContain(piece);
  }
  expect(everywhere.answers).toContain('You sent \\"jane.roe-at-acme\\"');
});
