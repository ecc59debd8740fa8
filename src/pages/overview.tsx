/** Overview, the first page after sign-in: what needs attention, and the figures of the last days. */
import type { Child } from "hono/jsx";
import { activeKeys, keysToWatch, listKeys, newestOfChains, type ApiKey } from "../d1/api-keys.ts";
import { listRules } from "../d1/stored-rules.ts";
import { DAY_MS, dayOf, utcDay } from "../domain/duration.ts";
import { expiringDays, silentSinceMs } from "../domain/notifications/key-notices.ts";
import type { FailingDestination } from "../domain/health/alarm.ts";
import type { RejectionEntry } from "../domain/keys/rejection.ts";
import { keyStatus } from "../domain/keys/api-key.ts";
import { canManage } from "../domain/keys/role.ts";
import { keyLevel } from "../domain/quota/key-budget.ts";
import { addVerdicts, NO_VERDICTS, ordinalsTaken, roomToRelease, VERDICTS } from "../domain/quota/quota.ts";
import { verdictsPerDay } from "../domain/quota/usage-day.ts";
import { REJECTIONS } from "../http/rejection-table.ts";
import type { CounterOverview } from "../quota/protocol.ts";
import type { SignalStore } from "../store/signal-store.ts";
import { overviewOf } from "../use-cases/configure-workspace.ts";
import { destinationsOf } from "../use-cases/objects.ts";
import { VERDICT_LABELS, verdictSentence, type Tone } from "./copy.ts";
import { keyText, type KeyNames, originText, readKeyNames } from "./keys/key-parts.tsx";
import { LinkButton } from "./kit/forms.tsx";
import { DayBars } from "./kit/charts.tsx";
import { counted, day, grouped } from "./kit/format.ts";
import { Badge, Panel, Stat, Stats, Table, Time } from "./kit/parts.tsx";
import { page } from "./page.tsx";
import { pages, storeOf, workspacePath, destinationPath, keyPath, withQuery } from "./pages-env.ts";
import { PeopleTable } from "./people/people.tsx";
import { NoScores } from "./people/person.tsx";
import { reasonText } from "./rejection-texts.ts";
import { callPath, groupRejections } from "./rejections.tsx";
import { UsageMeter } from "./usage/usage.tsx";
import { Dismiss, isDismissed, usageNotice } from "./usage-notices.tsx";

const DAYS_SHOWN = 14;
const PEOPLE_SHOWN = 5;
const PEOPLE_SEEN_DAYS = 7;
/** Rejected calls of a key and code within a day. Fewer need no attention. */
const REJECTED_CALLS_MIN = 20;
const REJECTIONS_SHOWN = 3;

type StoreOverview = ReturnType<SignalStore["overview"]>;
type WatchedKey = Awaited<ReturnType<typeof keysToWatch>>[number];

interface AttentionInputs {
  base: string;
  counter: CounterOverview;
  store: StoreOverview;
  failing: readonly FailingDestination[];
  keys: readonly WatchedKey[];
  /** Empty for members, who may not see keys (spec §1), like the next. */
  keyNames: KeyNames;
  /** The newest keys of those that have used 80 % of their signal limit, by first key. */
  nearLimit: ReadonlyMap<string, ApiKey>;
  /** Active keys that a browser has used. */
  publicKeys: readonly ApiKey[];
  nowMs: number;
}

export const overviewPages = pages.createApp().get("/", async (c) => {
  const nowMs = Date.now();
  const { id } = c.get("workspace");
  const [db, role, base, first] = [c.get("db"), c.get("role"), workspacePath(c), { cursor: null, limit: 1 }];
  const [counter, store, failing, keys, anyKey, anyRule] = await Promise.all([
    overviewOf(c.env, db, c.get("workspace")),
    storeOf(c).overview(dayOf(nowMs) - PEOPLE_SEEN_DAYS + 1, PEOPLE_SHOWN),
    canManage(role) ? destinationsOf(c.env, id).failing() : [],
    canManage(role) ? keysToWatch(db, id, nowMs) : [],
    listKeys(db, id, first),
    listRules(db, id, first),
  ]);
  const names = await readKeyNames(
    c,
    counter.rejections.map(({ keyId }) => keyId),
  );
  const nearLimit = canManage(role) ? await newestOfChains(db, id, keysNearLimit(counter.usage)) : new Map();
  const publicKeys = canManage(role) ? await activeKeys(db, id, Object.keys(counter.publicKeys), nowMs) : [];
  const { processed, duplicates, held, purged, deadLettered } = store.totals;
  const hasSignals = processed + duplicates + held + purged + deadLettered > 0;
  const done = {
    key: anyKey.items.length > 0,
    signal: hasSignals,
    rule: anyRule.items.length > 0,
    person: store.hasPeople,
  };
  const showsSteps = !Object.values(done).every(Boolean) && !isDismissed(c, "first-steps", "all");
  const items = attentionOf({ base, counter, store, failing, keys, keyNames: names, nearLimit, publicKeys, nowMs });
  return page(
    c,
    { section: "overview", title: "Overview" },
    showsSteps && <FirstSteps base={base} mayManage={canManage(role)} done={done} />,
    (hasSignals || counter.rejections.length > 0) && (
      <>
        {items.length > 0 && <Attention items={items} />}
        <SignalsPanel base={base} counter={counter} nowMs={nowMs} />
        <Panel title="Plan usage" actions={<a href={`${base}/usage`}>View usage</a>}>
          <UsageMeter usage={counter.usage} nowMs={nowMs} />
        </Panel>
        <ScoresPanel base={base} people={store.top.items} />
      </>
    ),
  );
});

function ScoresPanel({ base, people }: { base: string; people: StoreOverview["top"]["items"] }) {
  const text = `People who were seen in the last ${PEOPLE_SEEN_DAYS} days appear here once a mapping rule gives them points.`;
  return (
    <Panel
      title={`Highest scores, seen in the last ${PEOPLE_SEEN_DAYS} days`}
      actions={<a href={`${base}/people?sort=score`}>View all people</a>}
      list
    >
      <PeopleTable base={base} people={people} empty={<NoScores base={base} text={text} />} />
    </Panel>
  );
}

function SignalsPanel({ base, counter, nowMs }: { base: string; counter: CounterOverview; nowMs: number }) {
  const today = utcDay(nowMs);
  const present = { ...counter.usage, dayMs: today };
  const fromMs = today - (DAYS_SHOWN - 1) * DAY_MS;
  const days = verdictsPerDay([...counter.days, present], fromMs, today + DAY_MS);
  const sums = { ...NO_VERDICTS };
  for (const counts of days) addVerdicts(sums, counts);
  const names = { ...VERDICT_LABELS, rejected: "Rejected over the limit" };
  const seen = VERDICTS.filter((verdict) => verdict === "accepted" || sums[verdict] > 0);
  const legend = Object.fromEntries(seen.map((verdict) => [verdict, names[verdict]]));
  const calls = counter.rejections.filter(({ lastAtMs }) => lastAtMs >= fromMs);
  const rejected = calls.reduce((sum, entry) => sum + entry.calls, 0);
  return (
    <Panel title={`Signals, last ${DAYS_SHOWN} days`} actions={<a href={`${base}/signals`}>View signal queue</a>}>
      <Stats>
        <Stat label="Today (UTC)" value={ordinalsTaken(days.at(-1) ?? NO_VERDICTS)} />
        {seen.map((verdict) => (
          <Stat label={names[verdict]} value={sums[verdict]} />
        ))}
        <Stat label="Rejected calls" value={<a href={`${base}/rejections`}>{grouped(rejected)}</a>} />
      </Stats>
      <DayBars
        days={days}
        label={`${verdictSentence(sums)} in ${DAYS_SHOWN} days.`}
        legend={seen.length > 1 ? legend : {}}
      />
    </Panel>
  );
}

interface AttentionItem {
  tone: Tone;
  title: Child;
  detail: Child;
  href: string;
  action: string;
}

function Attention({ items }: { items: readonly AttentionItem[] }) {
  return (
    <Panel title="Needs attention" list id="attention">
      <Table
        caption="Needs attention"
        rows={items}
        href={({ href }) => href}
        columns={[
          { head: "Subject", cell: ({ tone, title }) => <Badge tone={tone}>{title}</Badge> },
          { head: "Details", kind: "text", cell: ({ detail }) => detail },
          {
            head: "Next step",
            kind: "actions",
            drop: "phone",
            cell: ({ action }) => <span class="quiet nowrap">{action} →</span>,
          },
        ]}
      />
    </Panel>
  );
}

/** Most urgent first. */
function attentionOf(inputs: AttentionInputs): AttentionItem[] {
  const { base, counter, store, failing } = inputs;
  const { deadLettered } = store.totals;
  const { usage } = counter;
  const held = heldSignals(inputs);
  const canRelease = roomToRelease(usage) > 0;
  const heldText = `Held signals do not update scores. They are deleted on ${day(usage.periodEndMs)}.`;
  const items: (AttentionItem | false)[] = [
    store.isFull && {
      tone: "bad",
      title: "Storage full",
      detail: "New signals are accepted and wait. They are not processed until there is room.",
      href: `${base}/usage`,
      action: "Make room",
    },
    ...limitItems(inputs),
    ...rejectionItems(inputs),
    ...failing.map(({ id, name, sinceMs, off }): AttentionItem => ({
      tone: "bad",
      title: off === null ? "Destination failing" : "Destination switched off",
      detail: [name, ", since ", <Time ms={off?.sinceMs ?? sinceMs} />],
      href: destinationPath(base, id),
      action: "Fix destination",
    })),
    deadLettered > 0 && {
      tone: "bad",
      title: counted(deadLettered, "dead letter"),
      detail: "These signals could not be processed. Fix the cause, then replay them.",
      href: `${base}/signals/dead-letters`,
      action: "View dead letters",
    },
    held > 0 && {
      tone: "warn",
      title: `${counted(held, "signal")} held`,
      detail: canRelease ? heldText : `${heldText} Upgrade or enable overages to release them.`,
      href: `${base}/usage/plan`,
      action: canRelease ? "Release signals" : "View plans",
    },
    ...keyLimitItems(inputs),
    ...publicKeyItems(inputs),
    ...keyItems(inputs),
  ];
  return items.filter((item) => item !== false);
}

/** Still held: some that the counter counts were duplicates, or were deleted with their person. */
function heldSignals({ counter, store }: AttentionInputs): number {
  return Math.min(counter.usage.held, store.totals.held);
}

/** Held signals below twice the limit have their own item. */
function limitItems(inputs: AttentionInputs): AttentionItem[] {
  const { base, counter } = inputs;
  const { usage } = counter;
  const notice = usageNotice(usage);
  if (notice === null || usage.overages || (notice.tone === "warn" && heldSignals(inputs) > 0)) return [];
  const { tone, title, text } = notice;
  return [{ tone, title: title.replace(/\.$/, ""), detail: text, href: `${base}/usage/plan`, action: "View plans" }];
}

/** Keys with many rejected calls of one code, and keys whose latest call was rejected, such as that of a first integration. */
function rejectionItems(inputs: AttentionInputs): AttentionItem[] {
  const { counter, nowMs } = inputs;
  const recent = counter.rejections.filter(({ lastAtMs }) => lastAtMs > nowMs - DAY_MS);
  const many = manyRejectedItems(inputs, recent);
  const latest = new Map<string, RejectionEntry>();
  for (const entry of recent) {
    if (entry.lastAtMs > (latest.get(entry.keyId)?.lastAtMs ?? 0)) latest.set(entry.keyId, entry);
  }
  const failing = [...latest.values()].filter(
    ({ keyId, lastAtMs }) =>
      lastAtMs > (counter.lastAccepted[keyId] ?? 0) && !many.some((item) => item.keyId === keyId),
  );
  const more = failing.length - REJECTIONS_SHOWN;
  return [
    ...many,
    ...failing.slice(0, REJECTIONS_SHOWN).map((entry) => latestRejectedItem(inputs, entry)),
    ...(more > 0 ? [moreRejectedItem(inputs, more)] : []),
  ];
}

function moreRejectedItem({ base }: AttentionInputs, keys: number): AttentionItem {
  return {
    tone: "warn",
    title: "Latest call rejected",
    detail: counted(keys, "more key"),
    href: `${base}/rejections`,
    action: "View rejections",
  };
}

function latestRejectedItem({ base, keyNames: names }: AttentionInputs, entry: RejectionEntry): AttentionItem {
  const name = names.get(entry.keyId);
  return {
    tone: "warn",
    title: "Latest call rejected",
    detail: [
      reasonText(entry),
      name !== undefined && `, key ${keyText(name, entry.keyId)}`,
      ", ",
      <Time ms={entry.lastAtMs} />,
    ],
    href: callPath(base, entry),
    action: "View call",
  };
}

function manyRejectedItems(
  { base, keyNames: names }: AttentionInputs,
  recent: readonly RejectionEntry[],
): (AttentionItem & { keyId: string })[] {
  return groupRejections(recent.map((rejection) => ({ ...rejection, cause: null })))
    .filter(({ calls }) => calls >= REJECTED_CALLS_MIN)
    .slice(0, REJECTIONS_SHOWN)
    .map(({ keyId, code, calls }) => {
      const name = names.get(keyId);
      return {
        keyId,
        tone: "bad",
        title: `${counted(calls, "call")} rejected in 24 hours`,
        detail: `${REJECTIONS[code].title}${name === undefined ? "" : `, key ${keyText(name, keyId)}`}`,
        href: withQuery(`${base}/rejections`, { code, ...(name === undefined ? {} : { key: keyId }) }),
        action: "View rejections",
      };
    });
}

/** By first key. */
function keysNearLimit({ budgets, budgetUse }: CounterOverview["usage"]): string[] {
  const isNear = (id: string) => keyLevel(budgetUse[id] ?? 0, budgets[id] ?? Infinity) !== null;
  return Object.keys(budgets).filter(isNear);
}

function keyLimitItems({ base, nearLimit, counter: { usage }, nowMs }: AttentionInputs): AttentionItem[] {
  return [...nearLimit].flatMap(([firstKeyId, key]) => {
    const { id, name, maskedKey, signalLimit } = key;
    const used = usage.budgetUse[firstKeyId] ?? 0;
    if (signalLimit === null || keyStatus(key, nowMs) === "Inactive") return [];
    const isFull = keyLevel(used, signalLimit) === 100;
    const item: AttentionItem = {
      tone: isFull ? "bad" : "warn",
      title: isFull ? "Signal limit of a key reached" : "80% of a key's signal limit used",
      detail: `${name} (${maskedKey}): ${grouped(used)} of ${counted(signalLimit, "signal")}. ${isFull ? "Its calls are rejected." : ""}`,
      href: keyPath(base, id),
      action: "View key",
    };
    return [item];
  });
}

const PUBLIC_KEYS_SHOWN = 3;

function publicKeyItems({ base, publicKeys, counter }: AttentionInputs): AttentionItem[] {
  return publicKeys.slice(0, PUBLIC_KEYS_SHOWN).map(({ id, name, maskedKey }) => ({
    tone: "warn",
    title: "Key used in a browser",
    detail: `${name} (${maskedKey}), from ${originText(counter.publicKeys[id]?.origin ?? "")}. Whoever opens the page can read it.`,
    href: keyPath(base, id),
    action: "Rotate key",
  }));
}

function keyItems({ base, keys, counter: { lastUsed }, nowMs }: AttentionInputs): AttentionItem[] {
  return keys.flatMap((stored) => {
    const key = { ...stored, lastUsedMs: lastUsed[stored.id] ?? null };
    const href = keyPath(base, key.id);
    const items: AttentionItem[] = [];
    if (expiringDays(key, nowMs) !== null && key.endsAtMs !== null) {
      const detail = [key.name, ", ends ", <Time ms={key.endsAtMs} />];
      // A rotated key was used after its rotation: another rotation would not help its sender.
      const [title, action] =
        key.rotatedAtMs === null
          ? (["Key expires soon", "Rotate key"] as const)
          : (["Rotated key still in use", "View key"] as const);
      items.push({ tone: "warn", title, detail, href, action });
    }
    const silentMs = silentSinceMs(key, nowMs);
    if (silentMs !== null) {
      const detail = [key.name, ", last call ", <Time ms={silentMs} />];
      items.push({ tone: "warn", title: "No calls", detail, href, action: "View key" });
    }
    return items;
  });
}

/** From an empty workspace to the first score. `managersOnly`: only owners and admins can do the step. */
const STEPS = [
  {
    name: "key",
    title: "Create an API key",
    text: "Choose who sends, such as Typeform, Stripe or your own code. The key is shown once, with the webhook URL.",
    path: "settings/api-keys/new",
    button: "Create API key",
    managersOnly: true,
  },
  {
    name: "signal",
    title: "Send the first signal",
    text: "Give the webhook URL to the sender, or send a test signal.",
    path: "connect",
    button: "Connect a sender",
    managersOnly: false,
  },
  {
    name: "rule",
    title: "Create a mapping rule",
    text: "A rule turns an event into points. Preview it on the signals you have before you save it.",
    path: "rules/new",
    button: "Create rule",
    managersOnly: true,
  },
  {
    name: "person",
    title: "See the first person",
    text: "A signal with an email creates a person. Their points add up to their score.",
    path: "people",
    button: "View people",
    managersOnly: false,
  },
] as const;

interface StepsProps {
  base: string;
  mayManage: boolean;
  done: Record<(typeof STEPS)[number]["name"], boolean>;
}

function FirstSteps({ base, mayManage, done }: StepsProps) {
  const next = STEPS.find(({ name }) => !done[name]);
  return (
    <Panel
      title="First steps"
      actions={<Dismiss home={base} what="first-steps" state="all" back={`${base}/`} label="Dismiss first steps" />}
    >
      <ol class="steps">
        {STEPS.map((step) => (
          <li class={done[step.name] ? "done" : undefined}>
            <div>
              <h3>
                {step.title}
                {done[step.name] && <span class="visually-hidden"> (done)</span>}
              </h3>
              <p class="quiet small">{step.text}</p>
            </div>
            {step === next &&
              (mayManage || !step.managersOnly ? (
                <LinkButton href={`${base}/${step.path}`} text={step.button} look="primary" />
              ) : (
                <span class="quiet small">Ask an owner or admin</span>
              ))}
          </li>
        ))}
      </ol>
    </Panel>
  );
}
