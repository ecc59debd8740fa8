/** Connect: how to set up a sender with each active key (spec §4). Members see the steps, and no keys (§5.6). */
import type { Context } from "hono";
import { findKey, listActiveKeys, type ApiKey } from "../../control/api-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import type { Rejection } from "../../domain/keys/refusal.ts";
import { canManageKeys } from "../../domain/keys/role.ts";
import { REFUSALS } from "../../http/refusal-table.ts";
import { WORKSPACE_MAX_ACTIVE_KEYS } from "../../limits.ts";
import type { KeyCalls } from "../../quota/protocol.ts";
import { quotaCounter } from "../../workspace/objects.ts";
import { CAUSE_COPY } from "../copy.ts";
import { keyText } from "../key-names.tsx";
import { counted } from "../kit/format.ts";
import { SelectField } from "../kit/forms.tsx";
import { ListAddress } from "../kit/list-address.ts";
import { Empty, Notice, PageHead, Panel, Tabs, Time } from "../kit/parts.tsx";
import { notFoundPage, page } from "../page.tsx";
import { pages, type PagesEnv, workspacePath } from "../pages-env.ts";
import {
  KEY_PLACEHOLDER,
  SECRET_PLACEHOLDER,
  SENDERS,
  SenderSteps,
  SIGNAL_SENDERS,
  TestCall,
  USUAL_EVENT,
  type Composer,
  type Sender,
  type SetUp,
} from "./senders.tsx";

const TEXT = { title: "Connect", section: "connect" } as const;

interface Asked {
  list: ListAddress;
  sender: Sender;
  composer: Composer;
}

export const connectPages = pages.createApp().get("/", (c) => {
  const list = new ListAddress(`${workspacePath(c)}/connect`, c.req.query());
  const sender = list.choice<Sender>("sender", null, SENDERS, "segment");
  const { status = USUAL_EVENT.status, program = USUAL_EVENT.program } = c.req.query();
  const asked = { list, sender, composer: { status, program } };
  return canManageKeys(c.get("role"))
    ? managersPage(c, asked)
    : page(c, TEXT, <MembersView {...membersProps(c, asked)} />);
});

async function managersPage(c: Context<PagesEnv>, asked: Asked): Promise<Response> {
  const [db, { id }, nowMs] = [c.get("db"), c.get("workspace"), Date.now()];
  const keyId = c.req.query("key");
  const [active, chosen] = await Promise.all([
    // Older versions allowed more active keys than the limit.
    listActiveKeys(db, id, nowMs, { cursor: null, limit: WORKSPACE_MAX_ACTIVE_KEYS }),
    keyId === undefined ? null : findKey(db, id, keyId),
  ]);
  if (keyId !== undefined && chosen === null) return notFoundPage(c, "key");
  if (chosen !== null && keyStatus(chosen, nowMs) === "Inactive") return c.redirect(asked.list.path, 303);
  const apiKey = chosen ?? active.items[0];
  if (apiKey === undefined) return page(c, TEXT, <NoKeyView home={workspacePath(c)} />);
  const calls = await quotaCounter(c.env, id).keyCalls(apiKey.id);
  const keys = active.items.some((key) => key.id === apiKey.id) ? active.items : [apiKey, ...active.items.slice(1)];
  const view = { ...asked, home: workspacePath(c), origin: new URL(c.req.url).origin, keys, apiKey, calls, nowMs };
  return page(c, TEXT, <ManagersView {...view} />);
}

function NoKeyView({ home }: { home: string }) {
  return (
    <>
      <PageHead title="Connect" />
      <Empty title="Create an API key first">
        <p>A sender posts to a URL that contains a key.</p>
        <a class="button primary" href={`${home}/settings/api-keys/new`}>
          Create API key
        </a>
      </Empty>
    </>
  );
}

interface ManagersProps extends Asked {
  home: string;
  origin: string;
  /** The active keys to choose from. */
  keys: readonly ApiKey[];
  /** The chosen key. */
  apiKey: ApiKey;
  calls: KeyCalls;
  nowMs: number;
}

function ManagersView(props: ManagersProps) {
  const { home, origin, list, sender, composer, keys, apiKey, calls, nowMs } = props;
  const { id, endpointType, payloadTemplate, hasSecret } = apiKey;
  const isSignals = endpointType === "signal_staging";
  const shown = isSignals ? (sender === "accounts" ? "segment" : sender) : "accounts";
  const setUp = {
    origin,
    key: KEY_PLACEHOLDER,
    endpointType,
    payloadTemplate,
    secret: hasSecret ? SECRET_PLACEHOLDER : null,
  };
  return (
    <>
      <PageHead title="Connect" actions={<a href="/docs">API documentation</a>}>
        Settings for each sender, and a test call.
      </PageHead>
      <form method="get" class="row" action={list.path}>
        <input type="hidden" name="sender" value={sender} />
        <SelectField
          name="key"
          label="API key"
          value={id}
          options={keys.map((key) => [key.id, keyText(key, key.id)] as const)}
        />
        {keys.length > 1 && <button>Use this key</button>}
      </form>
      <FirstCall home={home} apiKey={apiKey} calls={calls} nowMs={nowMs} />
      {isSignals && <SenderTabs path={list.path} query={{ key: id }} senders={SIGNAL_SENDERS} sender={shown} />}
      <div class="columns main-first">
        <Panel title={SENDERS[shown]}>
          <p class="quiet">
            Replace <code>{KEY_PLACEHOLDER}</code> with the full key, which was shown once. If it is lost,{" "}
            <a href={`${home}/settings/api-keys/${id}/rotate`}>rotate the key</a>.
          </p>
          <SenderSteps sender={shown} setUp={setUp} composer={{ ...composer, query: { key: id, sender: shown } }} />
        </Panel>
        <TestCall home={home} setUp={setUp} />
      </div>
    </>
  );
}

function SenderTabs({
  path,
  query,
  senders,
  sender,
}: {
  path: string;
  query: Record<string, string>;
  senders: Partial<Record<Sender, string>>;
  sender: Sender;
}) {
  const tabs = Object.entries(senders).map(([name, text]) => {
    const href = `${path}?${new URLSearchParams({ ...query, sender: name }).toString()}`;
    return { href, text, current: name === sender };
  });
  return <Tabs label="Senders" tabs={tabs} />;
}

interface FirstCallProps {
  home: string;
  apiKey: ApiKey;
  calls: KeyCalls;
  nowMs: number;
}

/** Whether calls with the key arrive. The script refreshes it until the first accepted call. */
function FirstCall({ home, apiKey: { id, endpointType }, calls: { acceptedMs, rejections }, nowMs }: FirstCallProps) {
  const isSignals = endpointType === "signal_staging";
  const rejected = `${home}/rejections?key=${id}`;
  if (acceptedMs === null) {
    const [latest] = rejections;
    return (
      <div id="first-signal" data-refresh="3000">
        {latest === undefined ? (
          <Notice>
            <span class="pulse">Waiting for the first {isSignals ? "signal" : "account update"} with this key …</span>
            <span class="no-script quiet small">Reload this page to check again.</span>
          </Notice>
        ) : (
          <Notice tone="warn" title={`${counted(callsOf(rejections), "call")} rejected: ${reasonsOf(rejections)}`}>
            <span>
              The last was <Time ms={latest.lastAtMs} nowMs={nowMs} />. <a href={rejected}>View rejections</a>
            </span>
          </Notice>
        )}
      </div>
    );
  }
  const since = rejections.filter(({ lastAtMs }) => lastAtMs > acceptedMs);
  return (
    <div id="first-signal">
      <Notice tone="good" title="Connected">
        <span>
          Last accepted call <Time ms={acceptedMs} nowMs={nowMs} />.{" "}
          <a href={`${home}/${isSignals ? "signals" : "accounts"}`}>{isSignals ? "View signals" : "View accounts"}</a>
        </span>
        {since.length > 0 && (
          <span>
            Rejected since then: {reasonsOf(since)}. <a href={rejected}>View rejections</a>
          </span>
        )}
      </Notice>
    </div>
  );
}

function callsOf(rejections: readonly Rejection[]): number {
  return rejections.reduce((sum, { calls }) => sum + calls, 0);
}

function reasonsOf(rejections: readonly Rejection[]): string {
  const reasons = rejections.map(({ code, cause }) =>
    cause === null ? REFUSALS[code].label : CAUSE_COPY[cause].replace(/\.$/, ""),
  );
  return [...new Set(reasons)].join("; ");
}

function membersProps(c: Context<PagesEnv>, asked: Asked) {
  return { ...asked, origin: new URL(c.req.url).origin, workspaceName: c.get("workspace").name };
}

/** The same steps, without any key. */
function MembersView({ origin, workspaceName, list, sender, composer }: ReturnType<typeof membersProps>) {
  const setUp: SetUp = {
    origin,
    key: KEY_PLACEHOLDER,
    endpointType: "signal_staging",
    payloadTemplate: null,
    secret: undefined,
  };
  return (
    <>
      <PageHead title="Connect">Settings for each sender.</PageHead>
      <Notice title="You need an API key">
        <p>
          Only owners and admins see keys. Ask an owner or admin of {workspaceName} for one, and enter it instead of{" "}
          <code>{KEY_PLACEHOLDER}</code>.
        </p>
      </Notice>
      <SenderTabs path={list.path} query={{}} senders={SENDERS} sender={sender} />
      <Panel title={SENDERS[sender]}>
        <SenderSteps sender={sender} setUp={setUp} composer={{ ...composer, query: { sender } }} />
      </Panel>
    </>
  );
}
