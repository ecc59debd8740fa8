/**
 * Milliseconds of a processor that `work` takes in this thread: what else the machine does meanwhile is not counted. To
 * some milliseconds only: that is how often a kernel may count.
 */
export function cpuMs(work: () => void): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}
