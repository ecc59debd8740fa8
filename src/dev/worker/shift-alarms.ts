/** Makes an object's alarms ring by a clock that is `aheadMs` ahead. The platform rings them by its own clock. */
export function shiftAlarms(storage: DurableObjectStorage, aheadMs: number): void {
  const [setAlarm, getAlarm] = [storage.setAlarm.bind(storage), storage.getAlarm.bind(storage)];
  storage.setAlarm = (at) => setAlarm(Number(at) - aheadMs);
  storage.getAlarm = async () => {
    const at = await getAlarm();
    return at === null ? null : at + aheadMs;
  };
}
