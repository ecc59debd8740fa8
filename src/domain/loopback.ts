/** Written as the URL parser writes them. Other notations, such as `localhost.`, count as elsewhere. */
const LOOPBACK_HOSTS = new Set(["localhost", "127.0.0.1", "[::1]"]);

export function isLoopback(url: string): boolean {
  return LOOPBACK_HOSTS.has(URL.parse(url)?.hostname ?? "");
}
