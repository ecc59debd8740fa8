/** `kept`: nothing was swapped, because there is no answer, it lacks the element, or a later request aborted this one. */
type Swapped = "swapped" | "kept" | "signed_out";

/** After sign-out the caller decides what to do, because only it knows whether the page has input. */
export async function swap(url: string, target: string, body: FormData | null, signal?: AbortSignal): Promise<Swapped> {
  const init: RequestInit = { headers: { accept: "text/html" } };
  if (signal !== undefined) init.signal = signal;
  // The pages accept only bodies of forms.
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
 * Swaps the element every `data-refresh` milliseconds while the page is visible, until it comes without the attribute. After
 * sign-out the page is loaded again, which leads to sign-in.
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
