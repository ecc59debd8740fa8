/** Spec §4: example calls on the pages work when they are pasted. */
import { execFileSync, spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import {
  composedEvent,
  curlLine,
  fetchCall,
  marketingTemplate,
  pythonCall,
  webhooksOf,
  type Webhook,
} from "../../../src/domain/webhook-calls.ts";
import { validateSignal } from "../../../src/domain/signal/validate-signal.ts";

const HOSTILE = "it's $HOME `id` \"quoted\" \\ \n & <b> * ' ; !! ü";
const webhook: Webhook = {
  id: "x",
  label: "",
  note: "",
  url: "https://a.example/'x'?a=$b",
  body: { [HOSTILE]: HOSTILE },
};

/** The arguments that a POSIX shell passes to curl. */
function argumentsOf(line: string): string[] {
  const script = `curl() { for word in "$@"; do printf '%s\\0' "$word"; done; }\n${line}`;
  return execFileSync("sh", ["-c", script], { encoding: "utf8" }).split("\0").slice(0, -1);
}

test("passes exactly the URL, headers and body to curl in a POSIX shell, with any characters", () => {
  const type = ["-H", "Content-Type: application/json"];
  const call = ["-X", "POST", webhook.url, ...type];
  const data = ["-d", JSON.stringify(webhook.body)];
  expect(argumentsOf(curlLine(webhook, "s3'cret"))).toEqual([...call, "-H", "X-Api-Secret: s3'cret", ...data]);
  expect(argumentsOf(curlLine(webhook, null))).toEqual([...call, ...data]);
});

test("makes the same request in JavaScript", async () => {
  const calls: unknown[][] = [];
  const fetch = (...call: unknown[]): Promise<Response> => {
    calls.push(call);
    return Promise.resolve(new Response("{}", { status: 202 }));
  };
  const text = `export default async (fetch) => { ${fetchCall(webhook, "s")} }`;
  const module = (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(text)}`)) as {
    default: (f: typeof fetch) => Promise<void>;
  };
  await module.default(fetch);
  expect(calls).toEqual([
    [
      webhook.url,
      {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Api-Secret": "s" },
        body: JSON.stringify(webhook.body),
      },
    ],
  ]);
});

const hasPython = spawnSync("python3", ["--version"]).status === 0;

test.skipIf(!hasPython)("makes the same request in Python", () => {
  const stub = `
import io, json, urllib.request
def urlopen(request):
    print(json.dumps([request.full_url, request.get_method(), dict(request.header_items()), request.data.decode()]))
    answer = io.BytesIO(b"{}")
    answer.status = 202
    return answer
urllib.request.urlopen = urlopen
`;
  const printed = execFileSync("python3", ["-c", stub + pythonCall(webhook, "s")], { encoding: "utf8" });
  expect(JSON.parse(printed.split("\n")[0] ?? "")).toEqual([
    webhook.url,
    "POST",
    { "Content-type": "application/json", "X-api-secret": "s" },
    JSON.stringify(webhook.body),
  ]);
});

test("a signal key has four addresses, a product org key has one", () => {
  const signals = webhooksOf("https://a.example", {
    key: "sk_1",
    endpointType: "signal_staging",
    payloadTemplate: null,
  });
  expect(signals.map(({ url }) => url)).toEqual([
    "https://a.example/api/signal-staging/webhook/sk_1",
    "https://a.example/api/signal-staging/webhook/website/sk_1",
    "https://a.example/api/signal-staging/webhook/sk_1/batch",
    "https://a.example/api/signal-staging/bulk/sk_1",
  ]);
  const accounts = webhooksOf("https://a.example", { key: "sk_1", endpointType: "product_org", payloadTemplate: [] });
  expect(accounts.map(({ url }) => url)).toEqual(["https://a.example/api/product-orgs/webhook/sk_1"]);
});

describe("the payload template of a marketing platform", () => {
  /** With token encoding JSON: a text with its quotes, or null. */
  function filled(template: string, value: string | null): unknown {
    return JSON.parse(template.replaceAll(/\{\{[^}]+\}\}/g, () => JSON.stringify(value)));
  }

  test("is a signal after its tokens are filled, also with hostile values and without values", () => {
    const template = marketingTemplate(composedEvent(" Registered ", 'The "Spring" \\ Webinar'));
    expect(validateSignal(filled(template, null)).ok).toBe(true);
    expect(filled(template.replace("{{lead.Email Address}}", '"jane@example.com"'), HOSTILE)).toMatchObject({
      email: "jane@example.com",
      event: 'Registered - The "Spring" \\ Webinar',
      properties: { program_name: HOSTILE, first_name: HOSTILE, last_name: HOSTILE, company: HOSTILE, title: HOSTILE },
    });
  });

  test("writes token names exactly, spaces included", () => {
    const template = marketingTemplate("x");
    const tokens = ["lead.Email Address", "lead.First Name", "company.Company Name", "program.Name", "lead.Job Title"];
    for (const token of tokens) expect(template).toContain(`: {{${token}}}`);
  });

  test("needs no program", () => {
    expect(composedEvent("Attended", " ")).toBe("Attended");
  });
});
