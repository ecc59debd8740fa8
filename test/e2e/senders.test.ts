/** Spec §2.2, §4: a sender that cannot change its body, from its name on the form of a key to the score of a person. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, inject, test } from "vitest";
import { PRESETS } from "../../src/presets/presets.ts";
import { browserForFile } from "./support/browser.ts";
import { problems } from "./support/problems.ts";
import { newWorkspace } from "./support/workspace.ts";

const browser = browserForFile();

/** A line of test/unit/presets/samples. */
interface Sample {
  expect: [event: string, email: string | null, at: string | null][];
  headers?: Record<string, string>;
  form?: string;
  body?: unknown;
}

/** The first body of a vendor that names a person. */
function sampleOf(id: string) {
  const file = path.join(import.meta.dirname, "../unit/presets/samples", `${id}.ndjson`);
  for (const line of readFileSync(file, "utf8").trimEnd().split("\n")) {
    const { expect: expected, headers = {}, form, body } = JSON.parse(line) as Sample;
    const [[event, email] = ["", null]] = expected;
    if (email !== null)
      return { event, email, headers, text: form ?? JSON.stringify(body), isForm: form !== undefined };
  }
  throw new Error(`No body of ${id} names a person.`);
}

test.each([
  ["typeform", 202],
  ["shopify", 202],
  ["mailchimp", 202],
  ["mailgun", 200],
  ["sendgrid", 202],
])("%s is chosen by name, previewed, saved, and its webhook followed to a score", async (id, status) => {
  const { name = id } = PRESETS.find((preset) => preset.id === id) ?? {};
  const { event, email, headers, text, isForm } = sampleOf(id);
  const workspace = await newWorkspace(`sender-${id}`);
  const rule = { name: "Their event", event, scoring_signal: "their_event", points: 7 };
  await workspace.operator.post(`workspaces/${workspace.id}/rules`, rule);
  const page = await browser.open(workspace.admin, `${workspace.home}/settings/api-keys/new`);
  await page.getByLabel("Name", { exact: true }).fill(name);
  await page.getByLabel("Who sends?").selectOption(name);
  await page.getByLabel("Sample webhook").fill(text);
  const typed = Object.entries(headers).map(([header, value]) => `${header}: ${value}`);
  if (typed.length > 0) await page.getByLabel("Headers", { exact: true }).fill(typed.join("\n"));
  const preview = page.locator("#preview");
  for (const shown of [event, email, "+7 their_event"])
    await preview.getByText(shown, { exact: true }).first().waitFor();

  await page.getByRole("button", { name: "Create API key" }).last().click();
  const url = await page.locator("#url-preset").innerText();
  expect(url).toContain(`${inject("origin")}/api/signal-staging/webhook/`);
  const type = isForm ? "application/x-www-form-urlencoded" : "application/json";
  const answer = await fetch(url, { method: "POST", body: text, headers: { "content-type": type, ...headers } });
  expect([answer.status, await answer.text()]).toEqual([status, expect.not.stringContaining("misfit")]);
  await expect.poll(() => workspace.score(email), { timeout: 20_000 }).toBe(7);
  await page.getByRole("link", { name: "I have copied it" }).click();
  await page.goto(`${workspace.home}/people/${encodeURIComponent(email)}`);
  await page.getByText("their_event").first().waitFor();
});

test("a payload that no template fits is mapped from its trace, and its replay scores", async () => {
  const workspace = await newWorkspace("sender-misfit");
  const rule = { name: "Order", event: "order.*", scoring_signal: "ordered", points: 5 };
  await workspace.operator.post(`workspaces/${workspace.id}/rules`, rule);
  const fields = { name: "Shop", payload_template: [{ target: "event", path: "trigger" }], misfits: "keep" };
  const { key } = await workspace.operator.post<{ key: string }>(`workspaces/${workspace.id}/keys`, fields);
  const url = `${inject("origin")}/api/signal-staging/webhook/shop/${key}`;
  const body = JSON.stringify({ topic: "order.created", buyer: { email: "zoe@example.com" } });
  const { id } = (await (await fetch(url, { method: "POST", body })).json()) as { id: string };
  const page = await browser.open(workspace.owner, `${workspace.home}/signals/${id}`);
  await page.getByText("The payload template does not fit").waitFor();
  await page.getByRole("link", { name: "Map this payload" }).click();
  await page.getByRole("button", { name: "Propose mappings" }).click();
  await page.locator("#preview").getByText("zoe@example.com", { exact: true }).waitFor();
  await page.locator("#preview").getByText("+5 ordered", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Save template" }).last().click();
  await page.getByText("Payload template saved.").waitFor();
  await page.getByRole("button", { name: `Replay ${id}` }).click();
  await expect.poll(() => workspace.score("zoe@example.com"), { timeout: 20_000 }).toBe(5);
});

test("the pages of senders are accessible and fit every screen", async () => {
  const workspace = await newWorkspace("sender-pages");
  const { id } = await workspace.operator.post<{ id: string }>(`workspaces/${workspace.id}/keys`, { name: "Shop" });
  const page = await browser.open(workspace.owner, `${workspace.home}/settings/api-keys/new?sender=shopify`);
  for (const address of [
    "settings/api-keys/new?sender=shopify",
    `settings/api-keys/${id}/template?sender=other`,
    "connect?sender=webhooks&preset=intercom",
  ]) {
    const size = (await (await page.goto(`${workspace.home}/${address}`))?.body())?.length ?? 0;
    expect(size).toBeLessThan(60 * 1024);
    await page.evaluate("for (const details of document.querySelectorAll('details:not([class])')) details.open = true");
    expect(await problems(page)).toEqual([]);
  }
});

test("while typing, the preview follows the mapping, and an error names its mapping", async () => {
  const workspace = await newWorkspace("sender-typing");
  const page = await browser.open(workspace.owner, `${workspace.home}/settings/api-keys/new?sender=other`);
  const preview = page.locator("#preview");
  await page.getByLabel("Sample webhook").fill('{"what":"paid","buyer":{"email":"zoe@example.com"}}');
  await page.getByLabel("Mapping 1: paths").fill("what");
  await preview.getByText("paid", { exact: true }).waitFor();
  await preview.getByText("buyer.email", { exact: true }).waitFor();
  await page.getByLabel("Mapping 2: paths").fill("buyer.email");
  await preview.getByText("zoe@example.com", { exact: true }).waitFor();
  await page.getByLabel("Mapping 2: paths").fill("buyer..email");
  await preview.getByText("Mapping 2:").waitFor();
  expect(await preview.innerText()).toContain("buyer..email is not a path");
});
