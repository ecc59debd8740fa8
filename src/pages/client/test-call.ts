/** Sends a test signal as a sender would, shows the answer, and then the signal's trace. */
import { refresh, swap } from "./swap.ts";

const TRACE_MS = 1_000;

export function startTestCalls(): void {
  document.addEventListener("submit", (event) => {
    const form = event.target as HTMLFormElement;
    if (form.dataset["testCall"] === undefined) return;
    event.preventDefault();
    void send(form);
  });
  document.addEventListener("input", (event) => {
    const input = event.target as HTMLInputElement;
    const placeholder = input.dataset["fill"];
    if (placeholder !== undefined) fill(placeholder, input.value.trim() || placeholder);
  });
}

/** The texts that contain a placeholder, as the server sent them. */
const original = new Map<Element, string>();
const filled = new Map<string, string>();

function fill(placeholder: string, value: string): void {
  filled.set(placeholder, value);
  for (const element of document.querySelectorAll("main :is(code, pre, output, dd)")) {
    const text = original.get(element) ?? element.textContent ?? "";
    if (!text.includes(placeholder)) continue;
    original.set(element, text);
    element.textContent = [...filled].reduce((result, [name, typed]) => result.replaceAll(name, () => typed), text);
  }
}

async function send(form: HTMLFormElement): Promise<void> {
  const { testCall = "", secret, signals = "", headers: others = "{}" } = form.dataset;
  const fields = new FormData(form);
  const typed = (name: string): string => {
    const value = fields.get(name);
    return typeof value === "string" ? value.trim() : "";
  };
  const placeholder = form.querySelector<HTMLInputElement>("[name=test-key]")?.dataset["fill"];
  const url =
    placeholder === undefined ? testCall : testCall.replace(placeholder, encodeURIComponent(typed("test-key")));
  const headers = new Headers({
    "content-type": "application/json",
    ...(JSON.parse(others) as Record<string, string>),
  });
  const proof = secret ?? typed("test-secret");
  const button = form.querySelector("button");
  const answer = form.querySelector<HTMLElement>("[data-answer]");
  if (button === null || answer === null) return;
  button.disabled = true;
  answer.replaceChildren("Sending …");
  document.getElementById("trace")?.replaceChildren();
  try {
    if (proof !== "") headers.set("x-api-secret", proof);
    const response = await fetch(url, { method: "POST", headers, body: typed("test-body") });
    const text = await response.text();
    answer.replaceChildren(...answerNodes(response, text));
    const id = response.ok ? signalId(text) : null;
    if (id !== null) await follow(`${signals}${id}`, answer);
  } catch {
    answer.replaceChildren("No answer. Check your connection and send it again.");
  } finally {
    button.disabled = false;
  }
}

function answerNodes(response: Response, text: string): Node[] {
  const status = document.createElement("strong");
  status.className = `badge ${response.ok ? "good" : "bad"}`;
  status.textContent = `${response.status} ${response.statusText}`.trim();
  const body = document.createElement("pre");
  body.tabIndex = 0;
  body.setAttribute("aria-label", "Answer");
  body.textContent = indented(text);
  return [status, body];
}

async function follow(url: string, after: HTMLElement): Promise<void> {
  const link = document.createElement("a");
  link.href = url;
  link.textContent = "Open its trace";
  after.append(link);
  const shown = document.getElementById("trace");
  if (shown === null) return;
  shown.dataset["refresh"] = String(TRACE_MS);
  await swap(url, "#trace", null);
  const trace = document.getElementById("trace");
  if (trace?.dataset["refresh"] !== undefined) refresh(trace, url);
}

function signalId(text: string): string | null {
  try {
    const { id, results } = JSON.parse(text) as { id?: string; results?: { id?: string }[] };
    return id ?? results?.find((result) => result.id !== undefined)?.id ?? null;
  } catch {
    return null;
  }
}

function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
