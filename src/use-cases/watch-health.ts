/**
 * The watch over all workspaces: every five minutes it asks for the workspaces whose objects have reported a new alarm (platform/health-report.ts)
 * and for those with an open one, and posts what has changed to the operator's address. So nobody has to ask for health to learn that
 * it is bad.
 *
 * A change is posted before it is stored: at worst it is posted twice. What fails is repeated five minutes later.
 */
import { controlDatabase, type ControlDatabase } from "../d1/database.ts";
import { storeAlarmChanges, workspacesToWatch, type WatchedWorkspace } from "../d1/open-alarms.ts";
import { changeOf, channelText, webhookBody, type AlarmPost } from "../domain/health/alarm-post.ts";
import { configuredAlarms } from "../env.ts";
import { CALL_TIMEOUT_MS, DELIVERY_TIMEOUT_MS } from "../limits.ts";
import { signatureHeaders } from "../notifications/signature.ts";
import { newId } from "../platform/ids.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import { HEALTH_PAGE_WORKSPACES, healthOfAll } from "./read-health.ts";

/** As in wrangler.toml. */
const WATCH_EVERY_MS = 5 * 60_000;
const HOUR_MS = 3_600_000;
/** UTC. */
const HEARTBEAT_HOUR = 8;
const SLACK_HOST = "hooks.slack.com";

/** Never throws. @param scheduledMs the time of this run, in milliseconds since 1970. */
export async function watchHealth(env: Env, scheduledMs: number): Promise<void> {
  const address = configuredAlarms(env);
  if (address === null) return;
  const send = (post: AlarmPost): Promise<void> => postTo(address, post);
  try {
    const db = controlDatabase(env.DB.withSession("first-primary"));
    const watched = await within(CALL_TIMEOUT_MS, workspacesToWatch(db, HEALTH_PAGE_WORKSPACES));
    await postChanges(env, db, watched, send);
    if (isFirstRunOfDay(scheduledMs)) await send({ type: "alarms.heartbeat", open: await openAlarms(db) });
  } catch (error) {
    logEvent("watch_failed", { error: errorText(error) });
    // Without D1 the watch remembers nothing, so it says this once an hour.
    if (!(error instanceof NotAccepted) && isFirstRunOfHour(scheduledMs))
      await send({ type: "alarms.unknown", says: UNKNOWN }).catch(() => undefined);
  }
}

const UNKNOWN =
  "The watch could not read the alarms: D1 does not answer. See `watch_failed` in the log, and docs/operate.md.";

async function postChanges(
  env: Env,
  db: ControlDatabase,
  watched: readonly WatchedWorkspace[],
  send: (post: AlarmPost) => Promise<void>,
): Promise<void> {
  const health = new Map((await healthOfAll(env, watched)).map(({ id, alarms }) => [id, alarms]));
  const asked = watched.flatMap((workspace) => {
    const alarms = health.get(workspace.id) ?? [];
    // One that was not asked in time keeps its report.
    if (alarms.some(({ alarm }) => alarm === "not_asked")) return [];
    return { reportedAt: workspace.reportedAt, ...changeOf(workspace, alarms) };
  });
  const workspaces = asked.filter(({ added, gone }) => added.length + gone.length > 0);
  if (workspaces.length > 0) await send({ type: "alarms.changed", workspaces });
  await within(CALL_TIMEOUT_MS, storeAlarmChanges(db, asked, Date.now()));
}

async function openAlarms(db: ControlDatabase) {
  const watched = await within(CALL_TIMEOUT_MS, workspacesToWatch(db, HEALTH_PAGE_WORKSPACES));
  return watched.flatMap(({ slug, open }) =>
    open.length === 0 ? [] : [{ slug, alarms: open.map(({ alarm }) => alarm) }],
  );
}

function isFirstRunOfHour(scheduledMs: number): boolean {
  return scheduledMs % HOUR_MS < WATCH_EVERY_MS;
}

function isFirstRunOfDay(scheduledMs: number): boolean {
  return isFirstRunOfHour(scheduledMs) && new Date(scheduledMs).getUTCHours() === HEARTBEAT_HOUR;
}

class NotAccepted extends Error {}

/** @throws NotAccepted unless the receiver answers 2xx. The error does not contain the address, which is a secret. */
async function postTo({ url, secret }: { url: string; secret: string | null }, post: AlarmPost): Promise<void> {
  const isSlack = URL.parse(url)?.host === SLACK_HOST;
  const body = isSlack ? JSON.stringify({ text: channelText(post) }) : webhookBody(post, Date.now());
  const secrets = secret === null || isSlack ? [] : [secret];
  const headers = {
    ...signatureHeaders(secrets, newId("ntf"), body),
    "content-type": "application/json",
    "user-agent": "signal-ingestion/1",
  };
  const signal = AbortSignal.timeout(DELIVERY_TIMEOUT_MS);
  const status = await fetch(url, { method: "POST", headers, body, redirect: "manual", signal }).then(
    (response) => response.status,
    () => null,
  );
  if (status === null || status >= 300) throw new NotAccepted(`the address for alarms answered ${status ?? "nothing"}`);
}
