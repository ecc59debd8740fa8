/** Connect: how to set up a sender with each active key (spec §4). Members see the steps, and no keys (§5.6). */
import { findKey, listActiveKeys, type ApiKey } from "../../control/api-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import type { Rejection } from "../../domain/keys/refusal.ts";
import { canManageKeys } from "../../domain/keys/role.ts";
import { REFUSALS } from "../../http/refusal-table.ts";
import { WORKSPACE_MAX_ACTIVE_KEYS } from "../../limits.ts";
import type { KeyCalls } from "../../quota/protocol.ts";
import { CAUSE_COPY } from "../copy.ts";
import { keyText } from "../keys/key-parts.tsx";
import { HiddenFields, LinkButton } from "../kit/actions.tsx";
import { counted, withQuery } from "../kit/format.ts";
import { SelectField } from "../kit/forms.tsx";
import { sectionPath } from "../kit/layout.tsx";
import { ListAddress } from "../kit/list.tsx";
import { Empty, Notice, Panel, Tabs, Time } from "../kit/parts.tsx";
import { notFoundPage, page } from "../page.tsx";
import { counterOf, type Ctx, pages, workspacePath } from "../pages-env.ts";
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
  const list = new ListAddress(sectionPath(c, "connect"), c.req.query());
  const asked = list.option<Sender>("sender", SENDERS, "segment");
  const [home, { origin }] = [workspacePath(c), new URL(c.req.url)];
  const isAccounts = chosen?.apiKey.endpointType === "product_org";
  const sender = isAccounts ? "accounts" : chosen !== null && asked === "accounts" ? "segment" : asked;
  const senders: readonly Sender[] =
    chosen === null ? [...SIGNAL_SENDERS, "accounts"] : isAccounts ? [] : SIGNAL_SENDERS;
  const query: Record<string, string> = chosen === null ? {} : { key: chosen.apiKey.id };
  const setUp = setUpOf(origin, chosen?.apiKey);
  const tabs = senders.map((name) => ({
    href: withQuery(list.path, { ...query, sender: name }),
    text: SENDERS[name],
    current: name === sender,
  }));
  return page(
    c,
    {
      ...CONNECT_PAGE,
      intro: "Settings for each sender, and a test call.",
      actions: <a href="/docs">API documentation</a>,
    },
    <>
      {chosen === null ? (
        <Notice
          title="You need an API key"
          text={`Only owners and admins see keys. Ask an owner or admin of ${c.get("workspace").name} for one.`}
        />
      ) : (
        <KeyChoice home={home} sender={sender} {...chosen} />
      )}
      {tabs.length > 0 && <Tabs label="Senders" tabs={tabs} />}
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
    </>,
  );
});

const CONNECT_PAGE = { section: "connect", title: "Connect" } as const;

interface ChosenKey {
  apiKey: ApiKey;
  /** The active keys to choose from, the chosen one among them. */
  keys: readonly ApiKey[];
  calls: KeyCalls;
}

/** The key of the address, or the newest active key. */
async function chosenKey(c: Ctx): Promise<ChosenKey | Response> {
  const [db, { id }, nowMs] = [c.get("db"), c.get("workspace"), Date.now()];
  const keyId = c.req.query("key");
  const [{ items }, asked] = await Promise.all([
    // Older versions allowed more active keys than the limit.
    listActiveKeys(db, id, nowMs, { cursor: null, limit: WORKSPACE_MAX_ACTIVE_KEYS }),
    keyId === undefined ? null : findKey(db, id, keyId),
  ]);
  if (keyId !== undefined && asked === null) return notFoundPage(c, "key");
  if (asked !== null && keyStatus(asked, nowMs) === "Inactive") return c.redirect(sectionPath(c, "connect"), 303);
  const apiKey = asked ?? items[0];
  if (apiKey === undefined) {
    const create = (
      <Empty title="Create an API key first" text="A sender posts to a URL that contains a key.">
        <LinkButton href={`${sectionPath(c, "keys")}/new`} text="Create API key" look="primary" />
      </Empty>
    );
    return page(c, CONNECT_PAGE, create);
  }
  const keys = items.some((key) => key.id === apiKey.id) ? items : [apiKey, ...items.slice(1)];
  return { apiKey, keys, calls: await counterOf(c).keyCalls(apiKey.id) };
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
        <HiddenFields fields={{ sender }} />
        <SelectField
          name="key"
          label="API key"
          value={apiKey.id}
          options={keys.map((key) => [key.id, keyText(key, key.id)] as const)}
        />
        {keys.length > 1 && <button>Use this key</button>}
      </form>
      <FirstCall home={home} apiKey={apiKey} calls={calls} />
    </>
  );
}

type FirstCallProps = Pick<ChosenKey, "apiKey" | "calls"> & { home: string };

/** Whether calls with the key arrive. The script refreshes it until the first accepted call. */
function FirstCall({ home, apiKey: { id, endpointType }, calls: { acceptedMs, rejections } }: FirstCallProps) {
  const [noun, section] = endpointType === "signal_staging" ? ["signal", "signals"] : ["account update", "accounts"];
  const since = rejections.filter(({ lastAtMs }) => lastAtMs > (acceptedMs ?? 0));
  const [latest] = since;
  const viewRejections = <a href={`${home}/rejections?key=${id}`}>View rejections</a>;
  return (
    <div id="first-signal" {...(acceptedMs === null ? { "data-refresh": "3000" } : {})}>
      {acceptedMs !== null ? (
        <Notice tone="good" title="Connected">
          <p>
            Last accepted call <Time ms={acceptedMs} />. <a href={`${home}/${section}`}>View {section}</a>
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
            The last was <Time ms={latest.lastAtMs} />. {viewRejections}
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
