/** Records that the tests of one file share, because none of them changes these records and each costs several calls. */
const shared = new Map<string, Promise<unknown>>();

export function sharedForFile<T>(name: string, make: () => Promise<T>): Promise<T> {
  const record = shared.get(name) ?? make();
  shared.set(name, record);
  return record as Promise<T>;
}

/** After the databases were emptied the records are gone. */
export function forgetShared(): void {
  shared.clear();
}
