/**
 * The signals of the bench: marketing-automation signals of about 300 bytes from about 5,000 people, all different.
 */

const PEOPLE = 5_000;
const EVENTS = ["Filled Out Form", "Opened Email", "Clicked Email", "Visited Web Page", "Attended Webinar"];
const FORMS = ["Contact us", "Free trial", "Pricing request", "Newsletter"];
const TITLES = ["VP Marketing", "Head of Sales", "Software Engineer", "Student", "Chief Executive Officer"];
const PAGES = ["pricing", "product/integrations", "blog/attribution", "careers"];

/** @param n unlike in every signal of a run: it makes the content hash. */
export function signal(n: number, extra: Record<string, string> = {}): string {
  const person = n % PEOPLE;
  return JSON.stringify({
    email: `person.${person}@customer-${person % 200}.example.com`,
    event: EVENTS[n % EVENTS.length],
    source: "marketing-automation",
    properties: {
      lead_id: n,
      first_name: `Jane ${person}`,
      company: `Customer ${person % 200}`,
      title: TITLES[person % TITLES.length],
      form_name: FORMS[n % FORMS.length],
      page_url: `https://www.example.com/${PAGES[(n >> 2) % PAGES.length] ?? ""}`,
      seconds_on_page: n % 300,
      ...extra,
    },
  });
}

/** The body of one call of `count` signals, from number `n` on; a single signal has no array. */
export function body(n: number, count: number): string {
  return count === 1 ? signal(n) : `{"batch":[${Array.from({ length: count }, (_, i) => signal(n + i)).join(",")}]}`;
}

/** `count` signals that fill a body of `bytes`, each with a comment that begins with `first`. */
export function largestBulk(count: number, bytes: number, first: string): string[] {
  // One byte separates two of them.
  const each = Math.floor(bytes / count) - 1;
  return Array.from({ length: count }, (_, n) => {
    const padding = "x".repeat(each - Buffer.byteLength(signal(n, { comments: first })));
    return signal(n, { comments: first + padding });
  });
}
