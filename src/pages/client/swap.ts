/** Takes one element of a page from a fresh answer of the server, so that there is one way of drawing it. */

/** What became of a swap; `kept`: there was no answer, none that fits, or a later one has overtaken it. */
type Swapped = "swapped" | "kept" | "signed_out";

/** Whoever has signed out meanwhile is told so by the caller: only it knows whether something is typed on the page. */
export async function swap(url: string, target: string, body: FormData | null, signal?: AbortSignal): Promise<Swapped> {
  const init: RequestInit = { headers: { accept: "text/html" } };
  if (signal !== undefined) init.signal = signal;
  // The body is sent as a form sends it: the pages take no other bodies.
  if (body !== null) {
    Object.assign(init, {
      method: "POST",
      body: new URLSearchParams(
        [...body].flatMap(([name, value]) => (typeof value === "string" ? [[name, value]] : [])),
      ),
    });
  }
  let answer: Response;
  try {
    answer = await fetch(url, init);
  } catch {
    // Offline, or overtaken by the next one: what is shown stays.
    return "kept";
  }
  if (answer.redirected || answer.status === 401) return "signed_out";
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(target);
  const shown = document.querySelector(target);
  if (fresh === null || shown === null || signal?.aborted === true) return "kept";
  const focused = document.activeElement?.id ?? "";
  shown.replaceWith(fresh);
  if (focused !== "" && document.activeElement === document.body) document.getElementById(focused)?.focus();
  fresh.dispatchEvent(new CustomEvent("swapped", { bubbles: true }));
  return "swapped";
}

/**
 * Swaps the element every `data-refresh` milliseconds while the page is seen, until it comes without that. Whoever has
 * signed out meanwhile is led to sign-in by loading the page again.
 */
export function refresh(element: HTMLElement, url: string = location.href): void {
  const { id } = element;
  const afterMs = Number(element.dataset["refresh"]);
  const timer = setInterval(() => {
    const shown = document.getElementById(id);
    if (shown === null || shown.dataset["refresh"] === undefined) clearInterval(timer);
    else if (!document.hidden) void swapOrLeave(url, `#${id}`);
  }, afterMs);
}

async function swapOrLeave(url: string, target: string): Promise<void> {
  if ((await swap(url, target, null)) === "signed_out") location.reload();
}
