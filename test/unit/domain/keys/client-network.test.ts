/** Failed authentications are counted by network, because a client with an IPv6 address has 2^64 of them. */
import { expect, test } from "vitest";
import { networkOf } from "../../../../src/domain/keys/client-network.ts";

test.each([
  ["192.0.2.1", "192.0.2.1"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:db8:1:2::", "2001:db8:1:2::/64"],
  ["2001:DB8:0001:0002:ffff::1", "2001:db8:1:2::/64"],
  ["2001:db8::1", "2001:db8:0:0::/64"],
  ["2001:db8:0:0:1::", "2001:db8:0:0::/64"],
  ["::1", "0:0:0:0::/64"],
  ["fe80::1:2:3:4", "fe80:0:0:0::/64"],
  ["1::2:3:4:5:6", "1:0:0:2::/64"],
  ["64:ff9b::192.0.2.1", "64:ff9b:0:0::/64"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["0:0:0:0:0:FFFF:192.0.2.1", "192.0.2.1"],
  ["1:2:3:4:5:6:192.0.2.1", "1:2:3:4::/64"],
  ["1:2::192.0.2.1", "1:2:0:0::/64"],
  ["1::5:6:7:8:192.0.2.1", "1:0:5:6::/64"],
  ["1::4:5:6:7:8", "1:0:0:4::/64"],
  ["unknown", "unknown"],
])("%s belongs to %s", (address, network) => {
  expect(networkOf(address)).toBe(network);
});

test("all addresses of a /64 share a network, unlike the next /64", () => {
  const networks = Array.from({ length: 100 }, (_, n) => networkOf(`2001:db8:7:8:${n.toString(16)}::${n}`));
  expect(new Set(networks).size).toBe(1);
  expect(networkOf("2001:db8:7:9::1")).not.toBe(networks[0]);
});
