/** Time for which a measurement keeps a processor busy. */
const SPIN_MS = 50;

/** @returns the factor by which other processes slow this process down at the moment; 1: not at all. */
export function slowness(): number {
  const [startedAt, before] = [performance.now(), process.cpuUsage()];
  while (performance.now() - startedAt < SPIN_MS);
  const { user, system } = process.cpuUsage(before);
  return Math.max(1, ((performance.now() - startedAt) * 1_000) / (user + system));
}
