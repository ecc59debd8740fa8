/** Custom headers of a webhook: their names and values, changes, and the answers of receivers that repeat them. */
import { describe, expect, test } from "vitest";
import {
  changedHeaders,
  haveDistinctNames,
  headerNameProblem,
  headerValueProblem,
} from "../../../../src/domain/notifications/custom-header.ts";

describe("the name of a header", () => {
  test("can be a token of up to 64 characters", () => {
    for (const name of ["Authorization", "x-api-key", "X_Tenant.Id", "!#$%&'*+-.^_`|~", "x".repeat(64), "contents"])
      expect(headerNameProblem(name), name).toBeNull();
  });

  test.each(["", "x".repeat(65), "X Key", "X-Key:", "X-Schlüssel", "X-Key\r\nHost", "x/y", "x(y)", '"x"', "X-Key "])(
    "cannot be %j",
    (name) => {
      expect(headerNameProblem(name)).not.toBeNull();
    },
  );

  test("cannot be a header of the service or of the connection, in any case", () => {
    const reserved =
      "Host content-type Content-Length content-encoding transfer-encoding Connection keep-alive TE trailer Upgrade expect " +
      "webhook-id Webhook-Timestamp WEBHOOK-SIGNATURE webhook-x User-Agent Cookie set-cookie CF-Connecting-IP cf-ray " +
      "cdn-loop Forwarded x-forwarded-for X-Forwarded-Host x-real-ip true-client-ip via proxy-authorization date origin " +
      "referer sec-fetch-mode accept-encoding http2-settings";
    for (const name of reserved.split(" ")) expect(headerNameProblem(name), name).toContain("is set by the service");
  });

  test("occurs once in a list, in any case", () => {
    expect(haveDistinctNames([{ name: "X-Api-Key" }, { name: "X-Api-Keys" }])).toBe(true);
    expect(haveDistinctNames([{ name: "X-Api-Key" }, { name: "x-api-key" }])).toBe(false);
  });
});

describe("the value of a header", () => {
  test("can be up to 1,000 visible ASCII characters, with spaces inside", () => {
    for (const value of ["k", "Bearer aB3=", "~!", `${"x".repeat(999)}=`])
      expect(headerValueProblem(value), value).toBeNull();
  });

  test.each(["", " ", " k", "k ", "k\n", "k\r\nHost: x", "k\tv", "ü", "k\u0000", "•••• 1234", "x".repeat(1_001)])(
    "cannot be %j",
    (value) => {
      expect(headerValueProblem(value)).not.toBeNull();
    },
  );
});

describe("a change of a destination", () => {
  const before = {
    type: "webhook" as const,
    target: "https://crm.example.com/in",
    headers: [
      { name: "Authorization", value: "Bearer one" },
      { name: "X-Api-Key", value: "two" },
    ],
  };

  test("keeps the headers unless it names others", () => {
    expect(changedHeaders(before, {})).toEqual({ ok: true, value: before.headers });
    expect(changedHeaders(before, { headers: [] })).toEqual({ ok: true, value: [] });
  });

  test("keeps a value that it omits, replaces one that it has, and removes a header that it does not name", () => {
    const headers = [{ name: "authorization" }, { name: "X-Tenant", value: "three" }];
    expect(changedHeaders(before, { headers })).toEqual({
      ok: true,
      value: [
        { name: "authorization", value: "Bearer one" },
        { name: "X-Tenant", value: "three" },
      ],
    });
    const replaced = [{ name: "X-Api-Key", value: "four" }];
    expect(changedHeaders(before, { headers: replaced })).toEqual({ ok: true, value: replaced });
  });

  test("is rejected for a new header without a value", () => {
    const rejected = { ok: false, rejection: "header_without_value" };
    expect(changedHeaders(before, { headers: [{ name: "X-Tenant" }] })).toEqual(rejected);
  });

  test("of the URL is rejected while a stored value would go to the new one", () => {
    const rejected = { ok: false, rejection: "headers_for_another_url" };
    const elsewhere = [
      "https://crm.example.org/in",
      "https://crm.example.com:8443/in",
      "http://crm.example.com/in",
      "https://crm.example.com/out",
    ];
    for (const target of elsewhere) {
      expect(changedHeaders(before, { target }), target).toEqual(rejected);
      const [first, second] = before.headers;
      const some = [{ name: first?.name ?? "" }, { name: "X-Api-Key", value: second?.value ?? "" }];
      expect(changedHeaders(before, { target, headers: some })).toEqual(rejected);
      expect(changedHeaders(before, { target, headers: before.headers })).toEqual({ ok: true, value: before.headers });
      expect(changedHeaders(before, { target, headers: [] })).toEqual({ ok: true, value: [] });
      expect(changedHeaders({ ...before, headers: [] }, { target })).toEqual({ ok: true, value: [] });
    }
    expect(changedHeaders(before, { target: before.target })).toMatchObject({ ok: true });
  });

  test("gives headers to a webhook only", () => {
    for (const [type, target] of [
      ["slack", before.target],
      ["email", "ops@example.com"],
    ] as const) {
      const destination = { type, target, headers: [] };
      const headers = [{ name: "X-Api-Key", value: "two" }];
      expect(changedHeaders(destination, { headers })).toEqual({ ok: false, rejection: "headers_of_webhooks_only" });
      expect(changedHeaders(destination, { headers: [], target: "x" })).toEqual({ ok: true, value: [] });
    }
  });
});
