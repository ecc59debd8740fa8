/** What stands for a key's name where it is not shown or not known: enough to tell the key from others. */
export function keyLabel(keyId: string): string {
  return `An API key (…${keyId.slice(-4)})`;
}
