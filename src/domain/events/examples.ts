/** What each event looks like: for the pages that offer them, and for the documents. */
import type { AnyEvent, AnyEventType, EventData } from "./workspace-event.ts";

const EMAIL = "jane@example.com";
const KEY = { key_id: "key_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d6f", key_name: "Website" };
const SIGNAL_ID = "sig_01a1f923-8ec2-7c4d-b975-0dae84bdd1d4";
const RULE_ID = "rule_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d70";
const PERIOD = { period_start: "2026-11-01T00:00:00.000Z", period_end: "2026-12-01T00:00:00.000Z" };

const DATA: EventData = {
  "person.score_crossed": { email: EMAIL, threshold: 50, score: 55, score_before: 35, signal_id: SIGNAL_ID },
  "person.scored": {
    scoring_signals: [
      {
        email: EMAIL,
        scoring_signal: "demo_requested",
        points: 20,
        score: 55,
        rule_id: RULE_ID,
        signal_id: SIGNAL_ID,
        event: "Filled Out Form",
        received_at: "2026-11-20T13:26:59.523Z",
      },
    ],
  },
  "people.rescored": {
    cause: "rule_applied",
    rule_id: RULE_ID,
    email: null,
    added: 1_240,
    changed: 0,
    removed: 0,
    points: 24_800,
    thresholds: [{ threshold: 50, risen: 31, fallen: 0 }],
  },
  "usage.level": { level: "80", used: 400_000, signal_limit: 500_000, overages: false, ...PERIOD },
  "period.closed": {
    ...PERIOD,
    signal_limit: 500_000,
    overages: false,
    accepted: 500_000,
    held: 12_000,
    rejected: 0,
    overage: 0,
    streak: 1,
    extra_room_removed: false,
  },
  "key.expiring": {
    ...KEY,
    expires_at: "2026-11-27T00:00:00.000Z",
    days: 7,
    successor_id: null,
    last_used_at: "2026-11-20T13:26:59.523Z",
  },
  "key.silent": { ...KEY, days: 3, last_used_at: "2026-11-17T08:00:00.000Z" },
  "refusals.burst": {
    key_id: KEY.key_id,
    from: "2026-11-20T13:20:00.000Z",
    to: "2026-11-20T13:25:00.000Z",
    calls: 400,
    refused: 62,
    codes: { body_not_json: 60, event_missing: 2 },
  },
  "dead_letters.added": { signals: 3, reasons: { rules_too_slow: 3 } },
  "processing.late": { oldest_at: "2026-11-20T13:12:00.000Z", signals: 1_200 },
  "destination.disabled": {
    destination_id: "dst_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d71",
    destination_name: "CRM",
    reason: "failing",
  },
  "destination.test": { message: "A test of the destination “CRM”: it works." },
};

export function exampleEvent(type: AnyEventType): AnyEvent {
  const id = "evt_01a1f923-9a10-7d3e-8c41-5b2f6e7a8c90";
  return { id, type, time: Date.parse("2026-11-20T13:27:00.000Z"), data: DATA[type] } as AnyEvent;
}
