/**
 * Networks of client addresses, for limits by network: an IPv4 address, or the /64 of an IPv6 address, because a /64
 * is what one connection is assigned.
 */

const NETWORK_GROUPS = 4;
const MAPPED_IPV4 = /^(?:0{0,4}:){2,5}ffff:(\d{1,3}(?:\.\d{1,3}){3})$/i;

/**
 * The network of an address in its canonical spelling. A text that is not an address is returned as it is.
 *
 * @param address of the header `cf-connecting-ip`. Requests without it count as one network.
 */
export function networkOf(address: string | undefined): string {
  if (address === undefined) return "unknown";
  if (!address.includes(":")) return address;
  const mapped = MAPPED_IPV4.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const [before = "", after] = address.split("::");
  const head = groupsOf(before);
  const tail = groupsOf(after ?? "");
  // An embedded IPv4 address replaces the last two groups, which are beyond the /64.
  const missing = after === undefined ? 0 : 8 - head.length - tail.length - (address.includes(".") ? 1 : 0);
  const groups = [...head, ...Array<string>(Math.max(0, missing)).fill("0"), ...tail];
  const network = groups.slice(0, NETWORK_GROUPS).map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(":")}::/64`;
}

function groupsOf(text: string): string[] {
  return text === "" ? [] : text.split(":");
}
