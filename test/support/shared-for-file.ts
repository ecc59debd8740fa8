/** Records that the tests of a file share: no test changes them, and creating each takes several calls. */
const shared = new Map<string, Promise<unknown>>();

export function sharedForFile<T>(name: string, make: () => Promise<T>): Promise<T> {
  const record = shared.get(name) ?? make();
  shared.set(name, record);
  return record as Promise<T>;
}

/** Call it after the databases were emptied. */
export function forgetShared(): void {
  shared.clear();
}
