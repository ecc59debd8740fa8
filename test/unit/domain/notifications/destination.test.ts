/** Targets of destinations: URLs that webhooks may use, masked targets, and the notifications that sources raise. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  checkDestinationUrl,
  maskedTarget,
  wantedBy,
  type DestinationState,
} from "../../../../src/domain/notifications/destination.ts";
import {
  notificationTypes,
  exampleNotification,
  type NotificationType,
} from "../../../../src/domain/notifications/notification.ts";

const RULES = { local: false, ownHosts: ["signals.example.com"] };
const LOCAL = { ...RULES, local: true };

function rejection(text: string, rules = RULES): string | null {
  const checked = checkDestinationUrl(text, rules);
  return checked.ok ? null : checked.rejection;
}

describe("a webhook URL with a public name over https", () => {
  test.each([
    ["https://example.com", "https://example.com/"],
    ["https://EXAMPLE.com/In?a=b", "https://example.com/In?a=b"],
    ["https://hooks.slack.com/services/T/B/x", "https://hooks.slack.com/services/T/B/x"],
    ["https://example.com:8443/in", "https://example.com:8443/in"],
    ["https://bücher.example.com/", "https://xn--bcher-kva.example.com/"],
    ["https://example.xn--p1ai/", "https://example.xn--p1ai/"],
    ["  https://example.com/in#part  ", "https://example.com/in"],
    ["https://a_b.example.com/", "https://a_b.example.com/"],
  ])("%s is accepted", (text, href) => {
    expect(checkDestinationUrl(text, RULES)).toEqual({ ok: true, value: href });
  });
});

const list = (texts: string): string[] => texts.split(" ");
/** URLs of these hosts. */
const at = (hosts: string): string[] => list(hosts).map((host) => `https://${host}/`);

describe("a webhook URL is rejected as", () => {
  test.each([
    [
      "not_a_url",
      ["", "https://exa mple.com", ...list("example.com https:// https://1.2.3.4.5/ https://0x100000000/")],
    ],
    ["not_https", list("http://example.com ftp://example.com javascript:alert(1) file:///etc/passwd data:,x")],
    ["credentials", list("https://user@example.com https://user:secret@example.com https://:secret@example.com")],
    ["address", at("127.0.0.1 10.0.0.1 169.254.169.254 2130706433 0x7f000001 0x7f.1 0177.0.0.1 017700000001 127.1")],
    ["address", at("127.0.0.1. １２７.0.0.1 127。0。0。1 %31%32%37.0.0.1 [::1] [::ffff:127.0.0.1] [fd00::1] 8.8.8.8")],
    ["not_public", at("localhost LOCALHOST localhost. a.localhost intranet printer.local metadata.google.internal")],
    ["not_public", at("vault.corp nas.home.arpa router.lan x.onion example.com. example.123x")],
    ["port", at("example.com:22 example.com:80 example.com:1023 example.com:0")],
    [
      "own_host",
      at("signals.example.com/api/signal-staging/webhook/sk_x SIGNALS.example.com signals.example.com:8443"),
    ],
    ["too_long", [`https://example.com/${"x".repeat(2_000)}`]],
  ] as const)("%s", (problem, texts) => {
    for (const text of texts) expect(rejection(text), text).toBe(problem);
  });

  test("address, for any spelling of any IPv4 address", () => {
    const part = fc.tuple(fc.nat(255), fc.constantFrom(10, 8, 16)).map(([value, base]) => spelt(value, base));
    fc.assert(
      fc.property(fc.array(part, { minLength: 4, maxLength: 4 }), (parts) => {
        expect(rejection(`https://${parts.join(".")}/`)).toBe("address");
      }),
    );
    fc.assert(
      fc.property(fc.nat(0xffffffff), fc.constantFrom(10, 8, 16), (value, base) => {
        expect(rejection(`https://${spelt(value, base)}/`)).toBe("address");
      }),
    );
  });
});

describe("a webhook URL on a developer's machine", () => {
  test.each(["http://localhost:9000/in", "http://127.0.0.1:9000/", "http://[::1]:9000/", "https://localhost/"])(
    "%s is accepted, and only there",
    (text) => {
      expect([rejection(text, LOCAL), rejection(text) === null]).toEqual([null, false]);
    },
  );

  test("is rejected for the service itself, and accepted for other local ports", () => {
    const rules = { local: true, ownHosts: ["localhost:8787"] };
    expect([rejection("http://localhost:8787/in", rules), rejection("http://localhost:9000/in", rules)]).toEqual([
      "own_host",
      null,
    ]);
  });

  test.each([
    ["http://example.com/", "not_https"],
    ["http://10.0.0.1/", "not_https"],
    ["https://10.0.0.1/", "address"],
    ["http://localhost./", "not_https"],
    ["ftp://localhost/", "not_https"],
    ["http://user:secret@localhost/", "credentials"],
  ])("%s is rejected as elsewhere", (text, problem) => {
    expect(rejection(text, LOCAL)).toBe(problem);
  });
});

function spelt(value: number, base: number): string {
  return { 8: "0", 10: "", 16: "0x" }[base] + value.toString(base);
}

describe("the masked target", () => {
  test.each([
    ["slack", "https://hooks.slack.com/services/T000/B000/secretToken", "https://hooks.slack.com/…oken"],
    ["webhook", "https://example.com/in?token=secret", "https://example.com/in?…"],
    ["webhook", "https://example.com/in", "https://example.com/in"],
    ["email", "ops@example.com", "ops@example.com"],
  ] as const)("of a %s contains no secret", (type, target, masked) => {
    expect(maskedTarget(type, target)).toBe(masked);
  });
});

describe("the notifications that sources must raise", () => {
  const NONE = { people: [], accounts: [] };
  const destination = (notifications: NotificationType[], state: DestinationState = "active") => ({
    notifications,
    state,
  });

  test("are the types of active destinations, each once", () => {
    const all = [
      destination(["usage.level", "person.scored"]),
      destination(["usage.level"]),
      destination(["key.silent"], "paused"),
      destination(["key.expiring"], "disabled"),
    ];
    expect(wantedBy(all, NONE)).toEqual({
      types: ["person.scored", "usage.level"],
      thresholds: [],
      accountThresholds: [],
      destinations: 4,
    });
    const thresholds = { people: [50], accounts: [200] };
    expect(wantedBy([], thresholds)).toEqual({
      types: [],
      thresholds: [50],
      accountThresholds: [200],
      destinations: 0,
    });
  });

  test("include a type whose data has a threshold only with thresholds for people or for accounts", () => {
    const all = [destination([...notificationTypes])];
    const unconditional = notificationTypes.filter((type) => !("threshold" in exampleNotification(type).data));
    const passing = (people: number[], accounts: number[]) =>
      wantedBy(all, { people, accounts }).types.filter((type) => !unconditional.includes(type));
    expect(wantedBy(all, NONE).types).toEqual(unconditional.toSorted());
    expect(passing([50], [])).toEqual(["person.score_crossed", "person.score_fell"]);
    expect(passing([], [50])).toEqual(["account.score_crossed", "account.score_fell"]);
    expect(wantedBy(all, { people: [50], accounts: [50] }).types).toEqual(notificationTypes.toSorted());
  });

  test("come with the thresholds in ascending order", () => {
    const wanted = wantedBy([], { people: [100, -5, 20], accounts: [500, 60] });
    expect(wanted).toMatchObject({ thresholds: [-5, 20, 100], accountThresholds: [60, 500] });
  });
});
