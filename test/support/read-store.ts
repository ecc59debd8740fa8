/** The stored data of a workspace's Signal Store, read by a separate reader. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { StoreState } from "../../src/store/state/store-state.ts";
import { expectStateToAddUp } from "./adds-up.ts";

/** As after a restart. */
export function readStore<T>(
  workspaceId: string,
  read: (state: StoreState, storage: DurableObjectStorage) => T | Promise<T>,
): Promise<T> {
  return runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), (instance, { storage }) => {
    // The rows of the signal queue's groups are updated first.
    instance.recentNames();
    return read(new StoreState(storage.sql), storage);
  });
}

/** @param hasDropped retention has deleted signals, whose counts in the signal queue stay. */
export function expectToAddUp(workspaceId: string, { hasDropped = false } = {}): Promise<void> {
  return readStore(workspaceId, (state) => expectStateToAddUp(state, { hasDropped }));
}
