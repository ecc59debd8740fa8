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
  type Sender,
  type SetUp,
} from "./senders.tsx";

export const connectPages = pages.createApp().get("/", async (c) => {
  const chosen = canManageKeys(c.get("role")) ? await chosenKey(c) : null;
  if (chosen instanceof Response) return chosen;
  const { status = USUAL_EVENT.status, program = USUAL_EVENT.program } = c.req.query();
  const list = new ListAddress(`${workspacePath(c)}/connect`, c.req.query());
  const sender = list.choice<Sender>("sender", null, SENDERS, "segment");
  const [home, { origin }] = [workspacePath(c), new URL(c.req.url)];
  const view = { home, origin, workspaceName: c.get("workspace").name, chosen, sender, status, program };
  return page(c, { title: "Connect", section: "connect" }, <ConnectView {...view} />);
});

interface ChosenKey {
  apiKey: ApiKey;
  /** The active keys to choose from, the chosen one among them. */
  keys: readonly ApiKey[];
  calls: KeyCalls;
}

/** The key of the address, or the newest active key. */
async function chosenKey(c: Context<PagesEnv>): Promise<ChosenKey | Response> {
  const [db, { id }, nowMs] = [c.get("db"), c.get("workspace"), Date.now()];
  const keyId = c.req.query("key");
  const [{ items }, asked] = await Promise.all([
    // Older versions allowed more active keys than the limit.
    listActiveKeys(db, id, nowMs, { cursor: null, limit: WORKSPACE_MAX_ACTIVE_KEYS }),
    keyId === undefined ? null : findKey(db, id, keyId),
  ]);
  if (keyId !== undefined && asked === null) return notFoundPage(c, "key");
  if (asked !== null && keyStatus(asked, nowMs) === "Inactive") return c.redirect(`${workspacePath(c)}/connect`, 303);
  const apiKey = asked ?? items[0];
  if (apiKey === undefined) return noKeyPage(c);
  const keys = items.some((key) => key.id === apiKey.id) ? items : [apiKey, ...items.slice(1)];
  return { apiKey, keys, calls: await quotaCounter(c.env, id).keyCalls(apiKey.id) };
}

function noKeyPage(c: Context<PagesEnv>): Promise<Response> {
  return page(
    c,
    { title: "Connect", section: "connect" },
    <>
      <PageHead title="Connect" />
      <Empty title="Create an API key first">
        <p>A sender posts to a URL that contains a key.</p>
        <a class="button primary" href={`${workspacePath(c)}/settings/api-keys/new`}>
          Create API key
        </a>
      </Empty>
    </>,
  );
}

interface Props {
  home: string;
  origin: string;
  workspaceName: string;
  /** Null for members, who may not see keys. */
  chosen: ChosenKey | null;
  sender: Sender;
  status: string;
  program: string;
}

function ConnectView({ home, origin, workspaceName, chosen, sender: asked, status, program }: Props) {
  const isAccounts = chosen?.apiKey.endpointType === "product_org";
  const sender = isAccounts ? "accounts" : chosen !== null && asked === "accounts" ? "segment" : asked;
  const senders: readonly Sender[] =
    chosen === null ? [...SIGNAL_SENDERS, "accounts"] : isAccounts ? [] : SIGNAL_SENDERS;
  const query: Record<string, string> = chosen === null ? {} : { key: chosen.apiKey.id };
  const setUp = setUpOf(origin, chosen?.apiKey);
  return (
    <>
      <PageHead title="Connect" actions={<a href="/docs">API documentation</a>}>
        Settings for each sender, and a test call.
      </PageHead>
      {chosen === null ? (
        <Notice title="You need an API key">
          <p>Only owners and admins see keys. Ask an owner or admin of {workspaceName} for one.</p>
        </Notice>
      ) : (
        <KeyChoice home={home} sender={sender} {...chosen} />
      )}
      {senders.length > 0 && (
        <Tabs
          label="Senders"
          tabs={senders.map((name) => ({
            href: `${home}/connect?${new URLSearchParams({ ...query, sender: name }).toString()}`,
            text: SENDERS[name],
            current: name === sender,
          }))}
        />
      )}
      <div class="columns main-first">
        <Panel title={SENDERS[sender]}>
          <p class="quiet">
            Replace <strong>{KEY_PLACEHOLDER}</strong> with the full key
            {chosen !== null && (
              <>
                , or enter it in the test call to fill it in. If it is lost,{" "}
                <a href={`${home}/settings/api-keys/${chosen.apiKey.id}/rotate`}>rotate the key</a>
              </>
            )}
            .
          </p>
          <SenderSteps sender={sender} setUp={setUp} composer={{ status, program, query: { ...query, sender } }} />
        </Panel>
        {chosen !== null && <TestCall home={home} setUp={setUp} />}
      </div>
    </>
  );
}

function setUpOf(origin: string, apiKey: ApiKey | undefined): SetUp {
  const { endpointType = "signal_staging", payloadTemplate = null, hasSecret } = apiKey ?? {};
  const secret = hasSecret === undefined ? undefined : hasSecret ? SECRET_PLACEHOLDER : null;
  return { origin, key: KEY_PLACEHOLDER, endpointType, payloadTemplate, secret };
}

function KeyChoice({ home, sender, apiKey, keys, calls }: ChosenKey & { home: string; sender: Sender }) {
  return (
    <>
      <form method="get" class="row" action={`${home}/connect`}>
        <input type="hidden" name="sender" value={sender} />
        <SelectField
          name="key"
          label="API key"
          value={apiKey.id}
          options={keys.map((key) => [key.id, keyText(key, key.id)] as const)}
        />
        {keys.length > 1 && <button>Use this key</button>}
      </form>
      <FirstCall home={home} apiKey={apiKey} calls={calls} nowMs={Date.now()} />
    </>
  );
}

type FirstCallProps = Pick<ChosenKey, "apiKey" | "calls"> & { home: string; nowMs: number };

/** Whether calls with the key arrive. The script refreshes it until the first accepted call. */
function FirstCall({ home, apiKey: { id, endpointType }, calls: { acceptedMs, rejections }, nowMs }: FirstCallProps) {
  const [noun, section] = endpointType === "signal_staging" ? ["signal", "signals"] : ["account update", "accounts"];
  const since = rejections.filter(({ lastAtMs }) => lastAtMs > (acceptedMs ?? 0));
  const [latest] = since;
  const viewRejections = <a href={`${home}/rejections?key=${id}`}>View rejections</a>;
  return (
    <div id="first-signal" {...(acceptedMs === null ? { "data-refresh": "3000" } : {})}>
      {acceptedMs !== null ? (
        <Notice tone="good" title="Connected">
          <p>
            Last accepted call <Time ms={acceptedMs} nowMs={nowMs} />. <a href={`${home}/${section}`}>View {section}</a>
          </p>
          {latest !== undefined && (
            <p>
              Rejected since then: {reasonsOf(since)}. {viewRejections}
            </p>
          )}
        </Notice>
      ) : latest !== undefined ? (
        <Notice tone="warn" title={`${counted(callsOf(since), "call")} rejected: ${reasonsOf(since)}`}>
          <p>
            The last was <Time ms={latest.lastAtMs} nowMs={nowMs} />. {viewRejections}
          </p>
        </Notice>
      ) : (
        <Notice>
          <span class="pulse">Waiting for the first {noun} with this key …</span>
          <span class="no-script quiet small">Reload this page to check again.</span>
        </Notice>
      )}
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
