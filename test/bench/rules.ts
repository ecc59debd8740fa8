/** The mapping rules of the benches and of the tests of the built Worker. */

export interface BenchRule {
  name: string;
  event: string;
  match: "all" | "any";
  conditions: { path: string; operator: string; value?: string | number | string[] }[];
  scoring_signal: string;
  points: number;
  points_last_days?: number;
}

type Condition = BenchRule["conditions"][number];

function rule(event: string, scoring_signal: string, points: number, ...conditions: Condition[]): BenchRule {
  return { name: scoring_signal, event, match: "all", conditions, scoring_signal, points };
}

const form = (value: string): Condition => ({ path: "properties.form_name", operator: "equals", value });
const page = (value: string): Condition => ({ path: "properties.page_url", operator: "contains", value });
const title = (value: string): Condition => ({ path: "properties.title", operator: "starts_with", value });
const longerThan = (value: number): Condition => ({
  path: "properties.seconds_on_page",
  operator: "greater_than",
  value,
});

/** One point for each visit: the score is the number of signals sent. */
export const VISIT_RULE: BenchRule = rule("Visit", "visit", 1);

/** The 20 rules that this service and the straightforward Worker evaluate for every signal. */
export const RULES: BenchRule[] = [
  rule("Filled Out Form", "Asked to be contacted", 30, form("Contact us")),
  rule("Filled Out Form", "Started a trial", 50, form("Free trial")),
  rule("Filled Out Form", "Asked for a price", 40, form("Pricing request"), title("VP")),
  rule("Filled Out Form", "Subscribed", 5, form("Newsletter")),
  rule("Opened Email", "Opened an email", 1, { path: "email", operator: "exists" }),
  rule("Opened Email", "A chief opened an email", 5, title("Chief")),
  rule("Opened Email", "Customer 7 is reading", 2, {
    path: "email",
    operator: "ends_with",
    value: "@customer-7.example.com",
  }),
  rule("Clicked Email", "Clicked through to prices", 15, page("/pricing")),
  rule("Clicked Email", "Clicked through to integrations", 10, page("/product/integrations")),
  rule("Clicked Email", "A student clicked", -5, title("Student")),
  rule("Visited Web Page", "Looked at prices", 10, page("/pricing")),
  rule("Visited Web Page", "Studied prices", 20, page("/pricing"), longerThan(120)),
  rule("Visited Web Page", "Read the blog", 3, page("/blog/")),
  rule("Visited Web Page", "Looks for a job", -20, page("/careers")),
  rule("Attended Webinar", "Attended a webinar", 20, {
    path: "source",
    operator: "equals",
    value: "marketing-automation",
  }),
  rule("Attended Webinar", "A decider attended", 20, {
    path: "properties.title",
    operator: "in",
    value: ["VP Marketing", "Head of Sales", "Chief Executive Officer"],
  }),
  rule("Attended Webinar", "Left early", -5, { path: "properties.seconds_on_page", operator: "less_than", value: 30 }),
  rule("*", "Stayed for long", 2, longerThan(240)),
  rule("*", "Big customer is active", 1, { path: "properties.company", operator: "equals", value: "Customer 42" }),
  rule("*", "Engineer is active", 1, { path: "properties.title", operator: "contains", value: "engineer" }),
];
