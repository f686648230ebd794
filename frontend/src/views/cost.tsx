import { band, count, dollars } from "../format";
import { BandBar, Section, Table } from "../parts";
import type { Stepped } from "../result";
import type { CapexFigures, NamedBand, TrainingCost } from "../result.gen";

export function Cost({ variant }: { variant: Stepped }) {
  if (!("cost" in variant)) return <PerToken cpmt={variant.cpmt} capex={variant.capex} />;
  const { usd_per_h, usd_per_run, breakdown } = variant.cost;
  return (
    <Section
      title="Cost per hour"
      note={<>{band(usd_per_h, dollars)} an hour of the cluster (low – typical – high); {band(usd_per_run, dollars)} for this run. There are no tokens to divide it by.</>}
    >
      <Breakdown parts={breakdown} />
      <Capital capex={variant.capex} />
    </Section>
  );
}

function Breakdown({ parts }: { parts: NamedBand[] }) {
  const widest = Math.max(...parts.map((part) => part.high), 1e-12);
  return (
    <div class="bars">
      {parts.map((part) => (
        <div class="bar-row">
          <span class="name">{part.name}</span>
          <BandBar band={part} whole={widest} />
          <span class="value">{dollars(part.typical)}</span>
        </div>
      ))}
    </div>
  );
}

function Capital({ capex }: { capex: CapexFigures }) {
  return (
    <>
      <h3>Capital: {band(capex.total_usd, dollars)}, per GPU {band(capex.per_gpu_usd, dollars)}</h3>
      <Table
        rows={capex.components}
        columns={[
          { head: "component", text: true, by: (row) => row.name },
          { head: "count", by: (row) => row.count, show: count },
          { head: "low", by: (row) => row.low_usd, show: dollars },
          { head: "typical", by: (row) => row.typical_usd, show: dollars },
          { head: "high", by: (row) => row.high_usd, show: dollars },
        ]}
      />
    </>
  );
}

function PerToken({ cpmt, capex }: { cpmt: TrainingCost; capex: CapexFigures }) {
  const reach = [...cpmt.sensitivity].sort((a, b) => Math.abs(b.cpmt_high - b.cpmt_low) - Math.abs(a.cpmt_high - a.cpmt_low));
  const lowest = Math.min(cpmt.typical, ...reach.flatMap((row) => [row.cpmt_low, row.cpmt_high]));
  const highest = Math.max(cpmt.typical, ...reach.flatMap((row) => [row.cpmt_low, row.cpmt_high]));
  const at = (value: number) => (100 * (value - lowest)) / Math.max(highest - lowest, 1e-12);
  return (
    <Section
      title="Cost per million tokens"
      note={<>{band(cpmt, dollars)} (low – typical – high): dollars per hour over goodput tokens per hour, restarts and idle time included.</>}
    >
      <Breakdown parts={cpmt.breakdown} />
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
      <Capital capex={capex} />
    </Section>
  );
}
