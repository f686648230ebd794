import { dollars, duration, percent } from "../format";
import { Section, Table } from "../parts";
import type { Stepped } from "../result";

export function Bottleneck({ variant }: { variant: Stepped }) {
  const { ranking, headline, sensitivity, name, changes } = variant.bottleneck;
  const drawn = (best: number) => (gain: number) => <div class="gain"><span style={{ width: `${(100 * Math.max(gain, 0)) / best}%` }} /></div>;
  const remedy = drawn(Math.max(...(changes ?? []).map((row) => row.cpmt_gain ?? row.gain), 1e-9));
  const moved = drawn(Math.max(...ranking.map((row) => row.gain), 1e-9));
  return (
    <>
      <Section title="What you can change" note={headline}>
        {changes && changes.length > 0 ? (
          <Table
            rows={changes}
            columns={[
              { head: "remedy", text: true, cell: (row) => (row.bound ? `${row.name} (a bound: nobody sells it)` : row.name) },
              { head: "set in the scenario", text: true, wide: true, cell: (row) => <code>{written(row.settings)}</code> },
              { head: "step", wide: true, by: (row) => row.step_seconds, show: duration },
              { head: "step shorter by", cell: (row) => percent(row.gain, 2) },
              { head: "token cheaper by", cell: (row) => (row.cpmt_gain === null ? "–" : percent(row.cpmt_gain, 2)) },
              { head: "capital", wide: true, cell: (row) => (row.capex_change_usd === null ? "–" : signed(row.capex_change_usd)) },
              { head: "gain", text: true, wide: true, cell: (row) => remedy(row.cpmt_gain ?? row.gain) },
            ]}
          />
        ) : (
          <p class="note">No remedy was tried on this step.</p>
        )}
      </Section>
      <Section title="Sensitivity" note={<>Each resource made better by itself, the step simulated again: hardware that nobody sells, to show what the step depends on. {sensitivity}</>}>
        <Table
          rows={ranking}
          mark={(row) => row.resource === name}
          columns={[
            { head: "resource", text: true, by: (row) => row.resource },
            { head: "made", wide: true, cell: (row) => (typeof row.factor === "number" ? `${row.factor} ×` : row.factor) },
            { head: "step", wide: true, by: (row) => row.step_seconds, show: duration },
            { head: "shorter by", cell: (row) => percent(row.gain, 2) },
            { head: "change", text: true, wide: true, cell: (row) => moved(row.gain) },
          ]}
        />
      </Section>
    </>
  );
}

/** `key: value` of each setting, those that keep their value left out where a whole layout is written. */
function written(settings: Record<string, unknown>): string {
  return Object.entries(settings)
    .map(([key, value]) => `${key}: ${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
    .join(", ");
}

function signed(usd: number): string {
  if (Math.abs(usd) < 1) return "same";
  return `${usd > 0 ? "+" : "−"}${dollars(Math.abs(usd))}`;
}
