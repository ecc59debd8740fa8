/** What several pages about API keys show. */
import type { Child } from "hono/jsx";
import type { ApiKey } from "../../control/api-keys.ts";
import { keyStatus } from "../../domain/keys/api-key.ts";
import { ENDPOINT_LABEL } from "../copy.ts";
import { Badge, Fact, FactList, Time } from "../views/parts.tsx";
import { day, exactTime } from "../kit/format.ts";

/** So long before its end a key is shown in amber: time to rotate it without haste. */
const KEY_EXPIRES_SOON_MS = 30 * 24 * 3_600_000;

/** A date with its time: UTC, or with a script the viewer's own zone (client/times.ts). */
export function LocalTime({ iso }: { iso: string }) {
  return (
    <time datetime={iso} data-local="time">
      {exactTime(Date.parse(iso))}
    </time>
  );
}

/** A date in UTC, or with a script in the viewer's own zone; its time is shown on hover. */
export function LocalDate({ iso }: { iso: string }) {
  return (
    <time datetime={iso} data-local="date" title={exactTime(Date.parse(iso))} class="nowrap">
      {day(Date.parse(iso))}
    </time>
  );
}

/** The link back from a key's pages to the list of keys. */
export function KeyCrumbs({ path }: { path: string }): Child {
  return <a href={path}>API Keys</a>;
}

/** Says which key a page is about that rotates or ends it. */
export function KeySummary({ apiKey, usedMs, nowMs }: { apiKey: ApiKey; usedMs: number | undefined; nowMs: number }) {
  return (
    <FactList>
      <Fact name="Name">{apiKey.name}</Fact>
      <Fact name="Key">
        <code>{apiKey.maskedKey}</code>
      </Fact>
      <Fact name="Endpoint Type">{ENDPOINT_LABEL[apiKey.endpointType]}</Fact>
      <Fact name="Expires">{apiKey.endsAt === null ? "Never" : <LocalTime iso={apiKey.endsAt} />}</Fact>
      <Fact name="Last Used">{usedMs === undefined ? "Never" : <Time ms={usedMs} nowMs={nowMs} />}</Fact>
    </FactList>
  );
}

/** When a key ends by itself, in amber where that is near. */
export function Expiration({ apiKey: { endsAt, deactivatedAt }, nowMs }: { apiKey: ApiKey; nowMs: number }) {
  if (endsAt === null) return <>Never</>;
  const leftMs = Date.parse(endsAt) - nowMs;
  const isAhead = deactivatedAt === null && leftMs > 0;
  return (
    <>
      <LocalDate iso={endsAt} />
      {isAhead && (
        <div class={leftMs < KEY_EXPIRES_SOON_MS ? "warn-text small" : "quiet small"}>
          <Time ms={Date.parse(endsAt)} nowMs={nowMs} />
        </div>
      )}
    </>
  );
}

/** A key's status (spec §2.1, §3.1): active, or since when it is not and why. */
export function KeyBadge({ apiKey, nowMs }: { apiKey: ApiKey; nowMs: number }) {
  const { deactivatedAt, endsAt } = apiKey;
  if (keyStatus(apiKey, nowMs) === "Active") return <Badge tone="good">Active</Badge>;
  const at = deactivatedAt ?? endsAt;
  return (
    <>
      <Badge tone="quiet">Inactive</Badge>
      {at !== null && (
        <div class="quiet small">
          {deactivatedAt === null ? "Expired" : "Deactivated"} <Time ms={Date.parse(at)} nowMs={nowMs} />
        </div>
      )}
    </>
  );
}
