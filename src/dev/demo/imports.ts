/** A bulk import of signals, and account data from the product's database. */
import { JSON_TYPE, type Call, type DemoKeys, type Sender } from "./delivery.ts";
import { LEADS } from "./sender-payloads.ts";

export function imports({ campaigns, accounts }: DemoKeys): Sender {
  const lines = Array.from({ length: 100 }, (_, at) => {
    const email = LEADS[at % LEADS.length]?.email;
    return JSON.stringify({ email, event: "Bought In Store", source: "import", properties: { order: 70_000 + at } });
  });
  lines[41] = lines[41]?.slice(0, 30) ?? "";
  const account = (at: number): object => ({
    company: { id: `acct-${at}`, name: `Account ${at}` },
    subscription: { plan: "team", seats: 5 + at, mrr: 49.5 * at },
  });
  const toAccounts = (body: object): Call => ({
    path: `/api/product-orgs/webhook/${accounts}`,
    headers: JSON_TYPE,
    body: JSON.stringify(body),
  });
  const singles = [1, 2, 3, 4, 5, 6, 7, 8].map((at) => toAccounts(account(at)));
  return {
    name: "Imports and account data",
    deliveries: [
      {
        what: "bulk import: 100 lines of JSON, one cut off",
        calls: [
          {
            path: `/api/signal-staging/bulk/${campaigns}`,
            headers: { "content-type": "application/x-ndjson" },
            body: lines.join("\n"),
          },
        ],
        status: 202,
        code: "signal_not_json",
        kept: 99,
        refused: 1,
      },
      { what: "account updates, Product Org Updates key", calls: singles, status: 202, kept: singles.length },
      {
        what: "account updates as an array",
        calls: [toAccounts([account(2), account(3), account(9)])],
        status: 202,
        kept: 3,
      },
    ],
  };
}
