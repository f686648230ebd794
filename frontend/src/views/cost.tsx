import { band, count, dollars } from "../format";
import { BandBar, Section, Table } from "../parts";
import type { Variant } from "../result";

export function Cost({ variant }: { variant: Variant }) {
  const { cpmt, capex } = variant;
  const widest = Math.max(...cpmt.breakdown.map((part) => part.high), 1e-12);
  const reach = [...cpmt.sensitivity].sort((a, b) => Math.abs(b.cpmt_high - b.cpmt_low) - Math.abs(a.cpmt_high - a.cpmt_low));
  const lowest = Math.min(cpmt.typical, ...reach.flatMap((row) => [row.cpmt_low, row.cpmt_high]));
  const highest = Math.max(cpmt.typical, ...reach.flatMap((row) => [row.cpmt_low, row.cpmt_high]));
  const at = (value: number) => (100 * (value - lowest)) / Math.max(highest - lowest, 1e-12);
  return (
    <Section
      title="Cost per million tokens"
      note={<>{band(cpmt, dollars)} (low – typical – high): dollars per hour over goodput tokens per hour, restarts and idle time included.</>}
    >
      <div class="bars">
        {cpmt.breakdown.map((part) => (
          <div class="bar-row">
            <span class="name">{part.name}</span>
            <BandBar band={part} whole={widest} />
            <span class="value">{dollars(part.typical)}</span>
          </div>
        ))}
      </div>
      <h3>Sensitivity: one assumption moved at a time</h3>
      <div class="bars">
        {reach.map((row) => {
          const left = Math.min(at(row.cpmt_low), at(row.cpmt_high));
          return (
            <div class="bar-row" title={`${row.parameter}: ${row.low_value} gives ${dollars(row.cpmt_low)}, ${row.high_value} gives ${dollars(row.cpmt_high)}`}>
              <span class="name">{row.parameter}</span>
              <div class="band">
                <span class="span" style={{ left: `${left}%`, width: `${Math.abs(at(row.cpmt_high) - at(row.cpmt_low))}%` }} />
                <span class="tick" style={{ left: `${at(cpmt.typical)}%` }} />
              </div>
              <span class="value wide">{row.low_value} → {dollars(row.cpmt_low)}; {row.high_value} → {dollars(row.cpmt_high)}</span>
            </div>
          );
        })}
      </div>
      <h3>Capital: {band(capex.total_usd, dollars)}, per GPU {band(capex.per_gpu_usd, dollars)}</h3>
      <Table
        rows={capex.components}
        columns={[
          { head: "component", text: true, cell: (row) => row.name },
          { head: "count", cell: (row) => count(row.count) },
          { head: "low", cell: (row) => dollars(row.low_usd) },
          { head: "typical", cell: (row) => dollars(row.typical_usd) },
          { head: "high", cell: (row) => dollars(row.high_usd) },
        ]}
      />
    </Section>
  );
}
