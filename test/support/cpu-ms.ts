/**
 * CPU milliseconds that `work` takes in this thread, regardless of other load. The resolution is some milliseconds,
 * because the kernel may count in such steps.
 */
export function cpuMs(work: () => void): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}
