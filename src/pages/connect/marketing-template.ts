/**
 * The body of a marketing automation platform's webhook (spec §2.2, §4). With Request Token Encoding JSON the platform
 * puts the quotes around a token's text itself, so that a token stands without quotes, and cannot be a part of a text:
 * what joins a member status to a program name is typed. Tokens are written exactly, spaces included.
 */

/** As the specification composes an event: a member status joined to a program name. */
export function composedEvent(status: string, program: string): string {
  return [status.trim(), program.trim()].filter((part) => part !== "").join(" - ");
}

export function marketingTemplate(event: string): string {
  return `{
  "email": {{lead.Email Address}},
  "event": ${JSON.stringify(event)},
  "source": "marketing-automation",
  "properties": {
    "program_name": {{program.Name}},
    "lead_id": {{lead.Id}},
    "first_name": {{lead.First Name}},
    "last_name": {{lead.Last Name}},
    "company": {{company.Company Name}},
    "title": {{lead.Job Title}}
  }
}`;
}
