/** Makes an object's alarms ring by a clock that is `aheadMs` ahead. The platform rings them by its own clock. */
export function shiftAlarms(storage: DurableObjectStorage, aheadMs: number): void {
  if (aheadMs === 0) return;
  const [setAlarm, getAlarm] = [storage.setAlarm.bind(storage), storage.getAlarm.bind(storage)];
  // The platform takes no time before 1970.
  storage.setAlarm = (at) => setAlarm(Math.max(1, Number(at) - aheadMs));
  storage.getAlarm = async () => {
    const at = await getAlarm();
    return at === null ? null : at + aheadMs;
  };
}
