/**
 * A test fails if the code logs a failure that the test does not expect: the code survives it, so nothing else shows it.
 * Background work may log after its test. So a line belongs to the test that made its workspace.
 */
import { afterAll, afterEach, beforeEach } from "vitest";

interface LogEntry {
  event: string;
  workspace?: string;
}

/** A test, or a file outside its tests. */
interface Scope {
  expected: Set<string>;
  isOver: boolean;
}

/**
 * Events of a service without failures. `rules_failed` names no workspace, so no test owns it; if the next read also
 * fails, `batch_failed` says so.
 */
const ORDINARY = new Set(["request", "requests", "batch", "delivery", "rules_failed"]);
const ANY = "any event";

/** The fields that a line of each event has in every case. The operator finds what happened by them. */
const FIELDS: Record<string, string> = {
  admit_failed: "workspace attempt error",
  alarm_ended: "workspace chore",
  alarm_failed: "workspace error",
  batch: "queue workspace messages signals outcome ms",
  batch_failed: "queue workspace messages error ms",
  chore_failed: "workspace chore error",
  cold_read_failed: "workspace object error",
  commit_failed: "workspace calls error",
  configure_failed: "workspace error",
  deliveries_not_sent: "workspace deliveries error",
  delivery: "workspace delivery attempt destination type status outcome ms",
  delivery_lost: "workspace delivery attempt error",
  destinations_alarm_failed: "workspace error",
  drain_failed: "workspace failed error",
  end_failed: "workspace error",
  error: "request_id error",
  health_report_failed: "workspace error",
  key_copy_failed: "workspace error",
  key_lookup_failed: "workspace error",
  limiter_failed: "error",
  link_failed: "workspace error",
  notes_failed: "workspace error",
  notifications_not_raised: "notifications first",
  public_key_not_noted: "key error",
  raise_failed: "workspace failed error",
  record_failed: "workspace signals error",
  rejected_calls_lost: "workspace calls error",
  rejections_burst_failed: "workspace error",
  request: "request_id method route status ms",
  requests: "since_ms calls signals",
  resend_failed: "workspace chore error",
  rows_newer: "queue workspace rows",
  rows_set_aside: "workspace signals",
  rows_unreadable: "queue workspace rows",
  rules_failed: "workspaces error",
  sign_in_failed: "request_id error",
  sources_not_informed: "workspace error",
  store_full: "workspace",
  token_use_failed: "token error",
  watch_failed: "error",
  work_unknown: "workspace chores",
};

const scopeOf = (expected: Iterable<string> = []): Scope => ({ expected: new Set(expected), isOver: false });

let ofFile = scopeOf();
let current = ofFile;
/**
 * The tests that made workspaces, also of earlier files of this runtime. The runtime keeps it, because Vitest may load this
 * module again in a runtime where work of earlier files still runs.
 */
const owners = ((globalThis as { testsOfWorkspaces?: Map<string, Scope> }).testsOfWorkspaces ??= new Map<
  string,
  Scope
>());
let entries: LogEntry[] = [];

/**
 * Lets the test log these events, or any events if none are named: for faults at random. Outside a test: lets all tests
 * of the file log them.
 * @returns a function that lists the entries with these events since the test began.
 */
export function expectLogged(...events: string[]): () => LogEntry[] {
  for (const event of events.length === 0 ? [ANY] : events) current.expected.add(event);
  return () => entries.filter(({ event }) => events.includes(event));
}

/** Makes lines about this workspace belong to the test that runs. */
export function ownWorkspace(id: string): void {
  if (!owners.has(id)) owners.set(id, current);
}

/** Keeps what the code logs: prints it if a test fails, and fails the test if it contains an unexpected failure. */
export function watchLog(): void {
  ofFile = scopeOf();
  current = ofFile;
  /* oxlint-disable no-console -- the code logs to it */
  const print = console.log;
  let lines: unknown[][] = [];
  console.log = (...line: unknown[]) => {
    lines.push(line);
    const [text] = line;
    if (typeof text === "string" && text.startsWith('{"event":')) entries.push(JSON.parse(text) as LogEntry);
  };
  /* oxlint-enable no-console */
  beforeEach(() => {
    current = scopeOf(ofFile.expected);
  });
  afterEach(({ task }) => {
    const unexpected = entries.filter(isUnexpected);
    const partial = entries.filter((entry) => !hasFields(entry));
    if (task.result?.state === "fail" || unexpected.length + partial.length > 0)
      for (const line of lines) print(...line);
    lines = [];
    entries = [];
    if (unexpected.length > 0) throw new Error(`logged, but not expected: ${JSON.stringify(unexpected)}`);
    if (partial.length > 0) throw new Error(`logged without a field of the event: ${JSON.stringify(partial)}`);
  });
  afterAll(() => {
    for (const scope of owners.values()) scope.isOver = true;
  });
}

function hasFields(entry: LogEntry): boolean {
  return FIELDS[entry.event]?.split(" ").every((field) => field in entry) ?? false;
}

function isUnexpected({ event, workspace = "" }: LogEntry): boolean {
  const owner = owners.get(workspace) ?? current;
  // After its file the databases are emptied, so that what still runs fails.
  if (owner.isOver || ORDINARY.has(event)) return false;
  return [owner, current].every(({ expected }) => !expected.has(event) && !expected.has(ANY));
}
