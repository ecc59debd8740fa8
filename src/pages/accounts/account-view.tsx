/** One account: its values and where each comes from, its attributes, and how its fields changed. */
import type { KeyName } from "../../control/api-keys.ts";
import { keyText } from "../key-names.tsx";
import type { Child } from "hono/jsx";
import type { AccountField } from "../../domain/accounts/payload-template.ts";
import { ACCOUNT_CHANGE_CHARACTERS } from "../../limits.ts";
import type { PageOf } from "../../platform/list-page.ts";
import type { AccountPage, ShownChange } from "../../store/protocol/people-and-accounts.ts";
import { Flags, ShortValue, JsonValue } from "./account-values.tsx";
import { Empty, PageHead, Panel, Stat, Stats, Time } from "../views/parts.tsx";
import { Pager, Table } from "../views/table.tsx";

/** Names of keys by their ids; null: whoever looks may not see them (spec §1). */
type KeyNames = ReadonlyMap<string, KeyName> | null;

interface Props {
  base: string;
  account: AccountPage;
  keys: KeyNames;
  cursor: string | undefined;
  nowMs: number;
}

const ACCOUNT_FIELD_LABEL = {
  name: "Name",
  plan: "Plan",
  user_count: "User count",
  recurring_revenue: "Recurring revenue",
  trial_status: "Trial status",
  feature_flags: "Feature flags",
} as const satisfies Record<AccountField, string>;

const FIELDS = Object.entries(ACCOUNT_FIELD_LABEL) as [AccountField, string][];

export function AccountView({ base, account, keys, cursor, nowMs }: Props) {
  const { externalId, values, attributes } = account;
  const name = values.name;
  const sent = keys === null ? "Last sent" : "Last sent, by the template of";
  const origin = (target: string) => <Origin base={base} origin={account.origins[target]} keys={keys} nowMs={nowMs} />;
  return (
    <>
      <PageHead title={externalId} crumbs={<a href={`${base}/accounts`}>Accounts</a>}>
        {typeof name === "string" && name.length <= ACCOUNT_CHANGE_CHARACTERS ? name : undefined}
      </PageHead>
      <Stats>
        <Stat label="Last seen" value={<Time ms={account.lastSeenMs} nowMs={nowMs} />} />
        <Stat label="First seen" value={<Time ms={account.firstSeenMs} nowMs={nowMs} />} />
      </Stats>
      <Panel title="Fields" flush>
        <Table caption="Fields" head={["Field", "Value", sent]}>
          {FIELDS.map(([field, label]) => (
            <tr>
              <th scope="row">{label}</th>
              <td class="what">
                {values[field] === null ? (
                  <span class="quiet">never sent</span>
                ) : field === "feature_flags" ? (
                  <Flags value={values[field]} />
                ) : (
                  <JsonValue value={values[field]} />
                )}
              </td>
              <td>{origin(field)}</td>
            </tr>
          ))}
        </Table>
      </Panel>
      {Object.keys(attributes).length > 0 && (
        <Panel title="Attributes" flush>
          <Table caption="Attributes" head={["Attribute", "Value", sent]}>
            {Object.entries(attributes).map(([attribute, value]) => (
              <tr>
                <th scope="row" class="what">
                  {attribute}
                </th>
                <td class="what">
                  <JsonValue value={value} />
                </td>
                <td>{origin(`attributes.${attribute}`)}</td>
              </tr>
            ))}
          </Table>
        </Panel>
      )}
      <ChangesPanel base={base} externalId={externalId} changes={account.changes} cursor={cursor} nowMs={nowMs} />
    </>
  );
}

/** The update that carried a value last, and the key whose payload template took it from there. */
function Origin({
  base,
  origin,
  keys,
  nowMs,
}: {
  base: string;
  origin: AccountPage["origins"][string] | undefined;
  keys: KeyNames;
  nowMs: number;
}) {
  if (origin === undefined) return <span class="quiet">–</span>;
  const { atMs, signalId, keyId } = origin;
  const key = keyId === null ? undefined : keys?.get(keyId);
  return (
    <div class="origin small">
      <Time ms={atMs} nowMs={nowMs} />
      {keyId === null ? (
        <span class="quiet">by a signal that is not kept</span>
      ) : (
        <CauseLink base={base} id={signalId} />
      )}
      {key !== undefined && <a href={`${base}/settings/api-keys/${keyId}`}>{keyText(key, keyId ?? "")}</a>}
    </div>
  );
}

function ChangesPanel({
  base,
  externalId,
  changes: { items, next },
  cursor,
  nowMs,
}: {
  base: string;
  externalId: string;
  changes: PageOf<ShownChange>;
  cursor: string | undefined;
  nowMs: number;
}) {
  const query: Record<string, string> = { external_id: externalId, ...(cursor === undefined ? {} : { cursor }) };
  return (
    <Panel title="History" flush id="history">
      <p class="panel-text quiet small">Each time that a field became another value, the latest first.</p>
      {items.length === 0 ? (
        <Empty title="No changes">
          <p>No field has been sent yet; attributes have no history.</p>
        </Empty>
      ) : (
        <ol class="changes">
          {items.map((change) => (
            <li>
              <div class="quiet small">
                <Time ms={change.atMs} nowMs={nowMs} />
              </div>
              <div class="what">
                <div class="row">
                  <strong>{ACCOUNT_FIELD_LABEL[change.field]}</strong>
                  <CauseLink base={base} id={change.signalId} />
                </div>
                <BeforeAfter change={change} />
              </div>
            </li>
          ))}
        </ol>
      )}
      <Pager path={`${base}/accounts/one`} query={query} next={next} />
    </Panel>
  );
}

function BeforeAfter({ change: { before, after } }: { change: ShownChange }): Child {
  const shown = (json: string | null) => <ShortValue json={json} characters={ACCOUNT_CHANGE_CHARACTERS} />;
  return (
    <p>
      {before === null ? (
        <span class="quiet">not sent before</span>
      ) : (
        <>
          <span class="visually-hidden">from </span>
          {shown(before)}
        </>
      )}
      <span aria-hidden="true"> → </span>
      <span class="visually-hidden"> to </span>
      {shown(after)}
    </p>
  );
}

function CauseLink({ base, id }: { base: string; id: string }) {
  return (
    <a class="small" href={`${base}/signals/${encodeURIComponent(id)}`} title={id}>
      signal
    </a>
  );
}
