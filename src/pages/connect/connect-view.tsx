/** Connect: how to set up a sender with a key, or without one (spec §4, §5.6). */
import type { ApiKey } from "../../control/api-keys.ts";
import type { Rejection } from "../../domain/keys/refusal.ts";
import type { EndpointType } from "../../domain/signal/signal.ts";
import type { KeyCalls } from "../../quota/protocol.ts";
import type { PageOf } from "../../platform/list-page.ts";
import { ENDPOINT_LABEL, CAUSE_COPY } from "../copy.ts";
import { REFUSALS } from "../../http/refusal-table.ts";
import { counted } from "../views/format.ts";
import { webhooksOf } from "../../domain/webhook-calls.ts";
import { KEY_PLACEHOLDER, SECRET_PLACEHOLDER, SetUpView, type Composed } from "./connect-set-up.tsx";
import { TestCall } from "../views/test-call-view.tsx";
import { CopyText } from "../views/copy-text.tsx";
import { Empty, PageHead, Notice, Panel, Time } from "../views/parts.tsx";
import { Pager } from "../views/table.tsx";

interface ManagersConnect {
  /** The workspace's path, `/w/{slug}`. */
  home: string;
  origin: string;
  query: Record<string, string>;
  active: PageOf<ApiKey>;
  /** The key whose steps are shown; null: there is no active key. */
  selected: ApiKey | null;
  /** What came with the selected key. */
  calls: KeyCalls | null;
  composed: Composed;
  nowMs: number;
}

export function ManagersConnectView({ home, query, active, selected, calls, nowMs, ...rest }: ManagersConnect) {
  if (selected === null || calls === null) {
    return (
      <>
        <PageHead title="Connect">How to set up a sender.</PageHead>
        <Panel>
          <Empty title="Create an API key first">
            <p>A sender posts to a URL with a key in it. With an active key, every step is shown here.</p>
            <a class="button primary" href={`${home}/settings/api-keys/new`}>
              Create API Key
            </a>
          </Empty>
        </Panel>
      </>
    );
  }
  const { id, name, maskedKey, hasSecret, endpointType, payloadTemplate } = selected;
  return (
    <>
      <PageHead title="Connect">
        How to set up a sender, with each active key. Every endpoint and error is described in the{" "}
        <a href="/docs">API documentation</a>.
      </PageHead>
      <Panel title="Key">
        <ul class="key-choice" aria-label="Active keys">
          {active.items.map((key) => (
            <li>
              <a href={`${home}/connect?key=${key.id}`} aria-current={key.id === id ? "true" : undefined}>
                <strong>{key.name}</strong> <code>{key.maskedKey}</code>{" "}
                <span class="quiet small">{ENDPOINT_LABEL[key.endpointType]}</span>
              </a>
            </li>
          ))}
        </ul>
        <Pager path={`${home}/connect`} query={query} next={active.next} />
        <WhatCame home={home} keyId={id} calls={calls} nowMs={nowMs} endpointType={endpointType} />
        <p class="quiet small">
          Write the full key of {name} (<code>{maskedKey}</code>) in place of <code>{KEY_PLACEHOLDER}</code>
          {hasSecret && (
            <>
              {" "}
              and its secret in place of <code>{SECRET_PLACEHOLDER}</code>
            </>
          )}
          . It was shown once, right after it was created. If it is lost,{" "}
          <a href={`${home}/settings/api-keys/new`}>create a new key</a> and deactivate this one.
        </p>
      </Panel>
      <SetUpView {...rest} {...{ endpointType, payloadTemplate, hasSecret }} query={{ key: id }}>
        <TestCall
          home={home}
          webhook={webhooksOf(rest.origin, { key: KEY_PLACEHOLDER, endpointType, payloadTemplate })[0]}
          placeholder={KEY_PLACEHOLDER}
          secret={hasSecret ? "ask" : null}
        />
      </SetUpView>
    </>
  );
}

interface Came {
  home: string;
  keyId: string;
  calls: KeyCalls;
  nowMs: number;
  endpointType: EndpointType;
}

/** What came with the key; the script takes it anew until a call was accepted. */
function WhatCame(came: Came) {
  const { home, keyId, calls, nowMs, endpointType } = came;
  const isSignals = endpointType === "signal_staging";
  const { acceptedMs, rejections } = calls;
  const refused = `${home}/rejections?key=${keyId}`;
  if (acceptedMs === null && rejections.length === 0) {
    return (
      <div id="first-signal" data-refresh="3000" class="notice info" role="status">
        <span class="pulse">Waiting for the first {isSignals ? "signal" : "account update"} with this key …</span>
        <span class="no-script quiet small">Reload this page to look again.</span>
      </div>
    );
  }
  if (acceptedMs === null) {
    return (
      <div id="first-signal" data-refresh="3000" class="notice warn" role="status">
        <strong>{allRefused(rejections)}</strong>
        <span>
          The last one came <Time ms={rejections[0]?.lastAtMs ?? nowMs} nowMs={nowMs} />. What the sender should change
          is under <a href={refused}>Rejections</a>.
        </span>
      </div>
    );
  }
  const since = rejections.filter(({ lastAtMs }) => lastAtMs > acceptedMs);
  return (
    <div id="first-signal" class="notice good" role="status">
      <strong>
        Connected: the last call that was accepted came <Time ms={acceptedMs} nowMs={nowMs} />.
      </strong>
      <span>
        Find it in{" "}
        {isSignals ? <a href={`${home}/signals`}>the Signal Queue</a> : <a href={`${home}/accounts`}>Accounts</a>}.
      </span>
      {since.length > 0 && (
        <span>
          Calls after it were refused: {reasonsOf(since)}. See <a href={refused}>Rejections</a>.
        </span>
      )}
    </div>
  );
}

/** What is said where every call was refused, such as `3 calls came, all refused: Not JSON`. */
function allRefused(rejections: readonly Rejection[]): string {
  const calls = rejections.reduce((sum, entry) => sum + entry.calls, 0);
  return `${counted(calls, "call")} came, ${calls === 1 ? "" : "all "}refused: ${reasonsOf(rejections)}`;
}

function reasonsOf(rejections: readonly Rejection[]): string {
  const reasons = rejections.map(({ code, cause }) =>
    cause === null ? REFUSALS[code].label : CAUSE_COPY[cause].replace(/\.$/, ""),
  );
  return [...new Set(reasons)].join("; ");
}

/** Connect for members who may not manage keys: the same steps, and nothing of any key. */
export function MembersConnectView({
  origin,
  workspaceName,
  composed,
}: {
  origin: string;
  workspaceName: string;
  composed: Composed;
}) {
  return (
    <>
      <PageHead title="Connect">How to set up a sender.</PageHead>
      <Notice title="You need an API key.">
        <p>
          Only owners and admins can see or manage keys. Ask an owner or admin of {workspaceName} for one; they are
          listed under Members. Write it in place of <code>{KEY_PLACEHOLDER}</code>.
        </p>
      </Notice>
      <SetUpView
        {...{ origin, composed, endpointType: "signal_staging", payloadTemplate: null, hasSecret: null, query: {} }}
      />
      <Panel title="Account data" id="accounts">
        <p class="quiet">
          Plans, user counts, revenue and the like go to an address of their own, with a key of the type{" "}
          {ENDPOINT_LABEL.product_org}. The key's payload template says which part of the body fills what.
        </p>
        <CopyText
          id="accounts-url"
          label="account data URL"
          text={webhooksOf(origin, { key: KEY_PLACEHOLDER, endpointType: "product_org", payloadTemplate: null })[0].url}
        />
      </Panel>
    </>
  );
}
