/** How full a workspace is, on the Usage page; and, where somebody has to do something about it, on others. */
import type { StorageHealth } from "../../workspace/read-health.ts";
import { duplicatesSaid, storageNotice, storedSaid, waitingSaid } from "./storage-copy.ts";
import { Fact, FactList, Notice, Panel } from "../views/parts.tsx";

export function StorageNotice({ health, nowMs }: { health: StorageHealth; nowMs: number }) {
  const notice = storageNotice(health, nowMs);
  if (notice === null) return <></>;
  return (
    <Notice tone={notice.tone} title={notice.title}>
      <p>{notice.text}</p>
    </Notice>
  );
}

export function StoragePanel({ health, nowMs }: { health: StorageHealth; nowMs: number }) {
  return (
    <Panel title="Storage">
      <FactList>
        <Fact name="Used">{storedSaid(health)}</Fact>
        <Fact name="To be processed">{waitingSaid(health, nowMs)}</Fact>
        <Fact name="Duplicates are found">{duplicatesSaid(health)}</Fact>
      </FactList>
    </Panel>
  );
}
