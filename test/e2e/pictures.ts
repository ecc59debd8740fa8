/**
 * `npm run pictures`: the screenshots of the main pages in docs/pages.md, of a workspace with three weeks of signals.
 */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Page } from "playwright-core";
import { createDemoWorkspace } from "../../src/dev/demo-workspace.ts";
import type { DemoKeys } from "../../src/dev/demo/senders.ts";
import { sendThreeWeeks, sampleStartMs } from "../../src/dev/sample.ts";
import { setClock, WORKER_WITH_CLOCK } from "../../src/dev/local-service.ts";
import { OperatorClient, untilProcessed } from "../../src/dev/operator-client.ts";
import { SERVICE_CONFIG, build } from "../bench/build.ts";
import { startEmpty } from "../bench/start.ts";
import { launch } from "./support/chromium.ts";

const PICTURES = path.join(import.meta.dirname, "pictures");
const TOKEN = "pictures-operator";
const WHO = "joanna@example.com";

const scratch = await mkdtemp(path.join(tmpdir(), "signal-ingestion-pictures-"));
const built = await build(SERVICE_CONFIG, path.join(scratch, "worker"), WORKER_WITH_CLOCK);
const vars = { OPERATOR_TOKEN: TOKEN, SIGN_IN: "local" };
const running = await startEmpty(built, { stateDir: path.join(scratch, "state"), vars });
const browser = await launch();
try {
  const operator = new OperatorClient(running.origin, TOKEN);
  const { home, keys } = await fill(operator);
  await mkdir(PICTURES, { recursive: true });
  await takeAll(operator, home, keys);
} finally {
  await browser.close();
  await running.stop();
  await rm(scratch, { recursive: true, force: true });
}

async function fill(operator: OperatorClient): Promise<{ home: string; keys: DemoKeys }> {
  const nowMs = Date.now();
  await setClock(running.origin, sampleStartMs(nowMs));
  const { workspace, keys } = await createDemoWorkspace(operator);
  const home = `workspaces/${workspace.id}`;
  await operator.call("PUT", "plans/demo", { name: "Team", signal_limit: 1_500, paid: true });
  await operator.call("PATCH", home, { name: "Northwind" });
  await sendThreeWeeks({ origin: running.origin, operator, home, keys }, nowMs);
  return { home, keys };
}

async function takeAll(operator: OperatorClient, home: string, keys: DemoKeys): Promise<void> {
  const page = await newPage("light");
  await take(page, "overview", "");
  await take(page, "signal-queue", "signals");
  await page.goto("/w/demo/live");
  await page.locator("#live-state", { hasText: /^Live$/ }).waitFor();
  await sendNow(keys);
  await page.getByText("sam@example.com").first().waitFor();
  await untilProcessed(operator, home);
  await take(page, "live");

  const { items } = await operator.get<{ items: { id: string }[] }>(
    `${home}/signals?event=Filled%20Out%20Form&email=${WHO}`,
  );
  const latest = items[0]?.id ?? "";
  await take(page, "signal", `signals/${latest}`);
  await page.goto(`/w/demo/rules/new?from=${latest}`);
  await page.getByLabel("Scoring signal").fill("demo_requested");
  await page.getByLabel("Points", { exact: true }).fill("20");
  await page.locator("#preview").getByText("Matches", { exact: true }).first().waitFor();
  await take(page, "rule-editor");
  await take(page, "person", `people/${WHO}`);
  await take(page, "accounts", "accounts");
  await take(page, "usage", "usage");
  await take(page, "api-keys", "settings/api-keys");

  await page.goto("/w/demo/settings/api-keys/new");
  await page.getByLabel("Name", { exact: true }).fill("Online shop");
  await page.getByRole("button", { name: "Create API key" }).last().click();
  await hideKey(page);
  await take(page, "key-created");

  await take(await newPage("dark"), "person-dark", `people/${WHO}`);
}

async function newPage(colorScheme: "light" | "dark"): Promise<Page> {
  const viewport = { width: 1280, height: 760 };
  const page = await browser.newPage({ baseURL: running.origin, viewport, colorScheme, reducedMotion: "reduce" });
  await page.goto("/sign-in?to=/w/demo/signals");
  await page.getByRole("button", { name: "owner@example.com" }).click();
  return page;
}

async function take(page: Page, name: string, at?: string): Promise<void> {
  if (at !== undefined) await page.goto(`/w/demo/${at}`);
  await page.screenshot({ path: path.join(PICTURES, `${name}.png`), animations: "disabled" });
}

/**
 * A screenshot of a full key looks like a leak, although its service ends a second later. The address is that of a
 * deployment.
 */
async function hideKey(page: Page): Promise<void> {
  const key = await page.locator("#new-key").innerText();
  const hidden = key.slice(0, 5) + "•".repeat(key.length - 5);
  const replaced = [key, hidden, running.origin, "https://signals.example.com"].map((text) => JSON.stringify(text));
  await page.evaluate(
    `for (const element of document.querySelectorAll("output, pre")) {
      const text = element.textContent.replaceAll(${replaced[0]}, ${replaced[1]});
      element.textContent = text.replaceAll(${replaced[2]}, ${replaced[3]});
    }`,
  );
}

/** Signals that arrive while the live page is open. */
async function sendNow({ campaigns, retired }: DemoKeys): Promise<void> {
  const webhook = `/api/signal-staging/webhook/${campaigns}`;
  const form = { email: WHO, event: "Filled Out Form", source: "marketing-automation" };
  const page = { event: "Page Viewed", source: "website", properties: { url: "https://example.com/pricing" } };
  const signals = [
    { ...form, properties: { form_name: "Demo request" } },
    { ...page, email: WHO },
    { ...page, anonymousId: "visitor-7" },
    { email: "peter@example.com", event: "Feature Used", source: "product", properties: { feature: "export" } },
    { email: "rosa@example.com" },
    { email: "sam@example.com", event: "Registered - Autumn Webinar", source: "marketing-automation" },
  ];
  await post({ path: webhook.replace(campaigns, retired), body: JSON.stringify(signals[0]) });
  for (const signal of signals) await post({ path: webhook, body: JSON.stringify(signal) });
}

async function post({ path: at, ...call }: { path: string; body: string | Uint8Array<ArrayBuffer> }): Promise<void> {
  const answer = await fetch(running.origin + at, { method: "POST", ...call });
  await answer.body?.cancel();
}
