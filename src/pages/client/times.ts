/** Times in the viewer's time zone. The server writes UTC. */

const date = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const dateAndTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

export function localTimes(within: ParentNode): void {
  for (const time of within.querySelectorAll<HTMLTimeElement>('time[datetime*="T"]')) {
    time.title = exact.format(new Date(time.dateTime));
    const { local } = time.dataset;
    if (local !== undefined) time.textContent = (local === "date" ? date : dateAndTime).format(new Date(time.dateTime));
  }
  for (const input of within.querySelectorAll<HTMLInputElement>("input[data-local-time]")) localInput(input);
}

/** The server reads a `datetime-local` field as UTC. The viewer types local time, so a hidden field sends the UTC time. */
function localInput(input: HTMLInputElement): void {
  if (input.dataset["localTime"] === "on") return;
  input.dataset["localTime"] = "on";
  const sent = document.createElement("input");
  sent.type = "hidden";
  sent.name = input.name;
  sent.value = input.value;
  input.removeAttribute("name");
  if (input.value !== "") {
    const at = new Date(`${input.value}Z`);
    input.value = new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  }
  const take = (): void => {
    const at = new Date(input.value);
    sent.value = Number.isNaN(at.getTime()) ? "" : at.toISOString().slice(0, 16);
  };
  input.addEventListener("input", take);
  input.after(sent);
  for (const zone of document.querySelectorAll(`[data-zone-of="${input.id}"]`)) {
    zone.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
  }
}
