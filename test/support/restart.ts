import { evictDurableObject, runInDurableObject } from "cloudflare:test";

/** The object loses its memory. An object that does not run cannot be stopped, so it is started first. */
export async function restart(stub: DurableObjectStub): Promise<void> {
  await runInDurableObject(stub, () => null);
  await evictDurableObject(stub);
}
