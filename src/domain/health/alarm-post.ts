/** What the watch over all workspaces posts: JSON for a webhook, or text for a channel. */
import { counted } from "../text.ts";
import { wordOf, wordOfAlarm, type AlarmName, type HealthAlarm, type HealthWord } from "./alarm.ts";

/** An alarm that has been posted as new. */
export interface OpenAlarm {
  alarm: AlarmName;
  /** ISO 8601. */
  since: string;
}

export interface ChangedWorkspace {
  workspaceId: string;
  slug: string;
  /** The word of all its alarms before. */
  before: HealthWord;
  status: HealthWord;
  added: HealthAlarm[];
  gone: OpenAlarm[];
}

export type AlarmPost =
  | { type: "alarms.changed"; workspaces: ChangedWorkspace[] }
  /** Once a day, so that a watch that has stopped is noticed. */
  | { type: "alarms.heartbeat"; open: { slug: string; alarms: AlarmName[] }[] }
  /** The watch itself failed. */
  | { type: "alarms.unknown"; says: string };

/** Characters of a channel's message; Slack cuts at 40,000. */
const TEXT_MAX = 8_000;

/** With one of these, nobody knows whether the other alarms are gone. */
const UNKNOWN: readonly AlarmName[] = ["unreachable", "wrong_jurisdiction"];

/** Compares the alarms of a workspace with those that were posted. */
export function changeOf(
  workspace: { id: string; slug: string; open: readonly OpenAlarm[] },
  alarms: readonly HealthAlarm[],
): ChangedWorkspace {
  const isOpen = new Set(workspace.open.map(({ alarm }) => alarm));
  const isFound = new Set(alarms.map(({ alarm }) => alarm));
  const isUnknown = alarms.some(({ alarm }) => UNKNOWN.includes(alarm));
  return {
    workspaceId: workspace.id,
    slug: workspace.slug,
    before: wordOf(workspace.open.map(({ alarm }) => ({ word: wordOfAlarm(alarm) }))),
    status: wordOf(alarms),
    added: alarms.filter(({ alarm }) => !isOpen.has(alarm)),
    gone: workspace.open.filter(({ alarm }) => !isFound.has(alarm) && (!isUnknown || UNKNOWN.includes(alarm))),
  };
}

export function webhookBody(post: AlarmPost, atMs: number): string {
  const at = new Date(atMs).toISOString();
  if (post.type !== "alarms.changed") return JSON.stringify({ type: post.type, timestamp: at, data: dataOf(post) });
  const workspaces = post.workspaces.map(({ workspaceId, slug, before, status, added, gone }) => ({
    workspace_id: workspaceId,
    slug,
    status_before: before,
    status,
    new: added.map(({ alarm, word, says }) => ({ alarm, status: word, says, help: helpOf(alarm) })),
    gone,
  }));
  return JSON.stringify({ type: post.type, timestamp: at, data: { text: channelText(post), workspaces } });
}

function dataOf(post: Exclude<AlarmPost, { type: "alarms.changed" }>): object {
  return post.type === "alarms.heartbeat"
    ? { text: channelText(post), open: post.open }
    : { text: channelText(post), says: post.says };
}

export function channelText(post: AlarmPost): string {
  const lines = linesOf(post);
  const text = lines.join("\n");
  if (text.length <= TEXT_MAX) return text;
  return `${text.slice(0, TEXT_MAX)}…\nThe rest: GET /operator/health`;
}

function linesOf(post: AlarmPost): string[] {
  switch (post.type) {
    case "alarms.changed":
      return post.workspaces.flatMap(changeLines);
    case "alarms.heartbeat": {
      if (post.open.length === 0) return ["The watch runs. All is well."];
      const open = post.open.map(({ slug, alarms }) => `${slug}: ${alarms.join(", ")}`);
      return [`The watch runs. ${counted(open.length, "workspace has", "workspaces have")} an alarm:`, ...open];
    }
    case "alarms.unknown":
      return [post.says];
  }
}

function changeLines({ slug, before, status, added, gone }: ChangedWorkspace): string[] {
  const word = before === status ? status : `${before} → ${status}`;
  return [
    `${slug}: ${word}`,
    ...added.map(({ alarm, says }) => `• ${alarm}: ${says} (${helpOf(alarm)})`),
    ...gone.map(({ alarm, since }) => `• gone: ${alarm}, which was there since ${since}`),
  ];
}

function helpOf(alarm: AlarmName): string {
  return `docs/operate.md#${alarm}`;
}
