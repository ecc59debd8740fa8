/**
 * The edge's look-up of a key (design §5). Uses plain SQL, so that an isolate need not load the query builder before its
 * first signal.
 */
import { keyEnd } from "../domain/keys/api-key.ts";
import type { PayloadMapping } from "../domain/accounts/payload-template.ts";
import type { EndpointType } from "../domain/signal/signal.ts";

/**
 * Facts of a key that the edge caches. All but `configVersion` never change. The Quota Counter knows whether the key is
 * active.
 */
export interface KeyFacts {
  keyId: string;
  workspaceId: string;
  endpointType: EndpointType;
  /** SHA-256 of the shared secret, 32 bytes; null: none needed. */
  secretHash: Uint8Array | null;
  endsAtMs: number | null;
  /** Null unless the key is of type `product_org`. */
  payloadTemplate: PayloadMapping[] | null;
  /** Version of the workspace's configuration, as of the look-up. */
  configVersion: number;
  /** Jurisdiction of the workspace's objects; empty: none. */
  jurisdiction: string;
}

interface KeyLookUp {
  facts: KeyFacts | null;
  /** Whether the primary answered: a replica may not know a new key yet. */
  byPrimary: boolean;
}

interface KeyFactsRow {
  id: string;
  workspace_id: string;
  endpoint_type: EndpointType;
  secret_hash: string | null;
  expires_at: string | null;
  overlap_ends_at: string | null;
  payload_template: string | null;
  config_version: number;
  jurisdiction: string;
}

/** Finds a key by its hash, deactivated or not: the Quota Counter checks that when it counts. */
export async function findKeyFacts(d1: D1Database | D1DatabaseSession, keyHash: string): Promise<KeyLookUp> {
  const { results, meta } = await d1
    .prepare(
      `SELECT k.id, workspace_id, endpoint_type, secret_hash, expires_at, overlap_ends_at, payload_template, config_version,
         jurisdiction
       FROM api_keys k JOIN workspaces w ON w.id = workspace_id WHERE key_hash = ?`,
    )
    .bind(keyHash)
    .run<KeyFactsRow>();
  const [row] = results;
  return { facts: row === undefined ? null : toKeyFacts(row), byPrimary: meta.served_by_primary === true };
}

function toKeyFacts(row: KeyFactsRow): KeyFacts {
  const endsAt = keyEnd({ expiresAt: row.expires_at, overlapEndsAt: row.overlap_ends_at });
  return {
    keyId: row.id,
    workspaceId: row.workspace_id,
    endpointType: row.endpoint_type,
    secretHash: row.secret_hash === null ? null : Uint8Array.from(Buffer.from(row.secret_hash, "hex")),
    endsAtMs: endsAt === null ? null : Date.parse(endsAt),
    payloadTemplate: row.payload_template === null ? null : (JSON.parse(row.payload_template) as PayloadMapping[]),
    configVersion: row.config_version,
    jurisdiction: row.jurisdiction,
  };
}
