/** Links to what the workspace holds, as files, for owners and admins. */
import { EXPORTS } from "./export-copy.ts";
import { Panel } from "../views/parts.tsx";

export function ExportLinks({ base }: { base: string }) {
  return (
    <Panel title="Export" id="export">
      <p class="quiet small">
        Everything as it stands at this moment. Every export is noted under{" "}
        <a href={`${base}/settings/activity?action=data.exported`}>Activity</a>.
      </p>
      <ul class="exports">
        {Object.entries(EXPORTS).map(([records, { label }]) => (
          <li>
            <span>{label}</span>
            <a class="button small" href={exportPath(base, records, "csv")} aria-label={`${label} as CSV`} download>
              CSV
            </a>
            <a
              class="button small"
              href={exportPath(base, records, "ndjson")}
              aria-label={`${label} as NDJSON`}
              download
            >
              NDJSON
            </a>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function exportPath(base: string, records: string, format: string): string {
  return `${base}/people/export?${new URLSearchParams({ records, format }).toString()}`;
}
