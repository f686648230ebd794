import { band, dollars, duration, percent } from "../format";
import { Legend, Section, StackedBar, Table } from "../parts";
import type { StageRow } from "../result.gen";
import { PARTS, type Served } from "../serving";

const SHADES = ["var(--compute)", "var(--bubble)", "var(--bandwidth)", "var(--contention)", "var(--straggler)", "var(--latency)", "var(--data)", "var(--checkpoint)", "var(--accent)", "var(--other)"];

const total = (stage: StageRow, of: "ttft_parts" | "e2e_parts", level: "p50" | "p99"): number =>
  PARTS.reduce((sum, { key }) => sum + (stage[of][level]?.[key] ?? 0), 0);

const hardware = (stage: StageRow): string =>
  stage.hardware.length === 0 ? "outside" : stage.hardware.map((one) => `${one.replicas} on ${one.accelerators} ${one.accelerator}`).join(", ");

/** Where the time and the dollars of a pipeline go, stage by stage. */
export function Stages({ variant }: { variant: Served }) {
  const stages = "stages" in variant.serving ? variant.serving.stages : [];
  if (stages.length === 0) return null;
  const colors = stages.map((_, index) => SHADES[index % SHADES.length] ?? "var(--compute)");
  const bars = (["p50", "p99"] as const).flatMap((level) =>
    (["ttft_parts", "e2e_parts"] as const).map((of) => ({
      name: `${of === "ttft_parts" ? "first token" : "end to end"}, ${level}`,
      whole: stages.reduce((sum, stage) => sum + total(stage, of, level), 0),
      values: stages.map((stage) => total(stage, of, level)),
    })),
  );
  return (
    <Section title="Stages" note="Each bar adds up to its percentile: the time in each stage on the path that decides, the way there included.">
      <Legend items={stages.map((stage, index) => ({ name: stage.name, color: colors[index] ?? "" }))} />
      <div class="bars">
        {bars.map((bar) => (
          <div class="bar-row">
            <span class="name">{bar.name}</span>
            <StackedBar
              whole={Math.max(bar.whole, 1e-12)}
              parts={stages.map((stage, index) => ({ name: stage.name, color: colors[index] ?? "", value: bar.values[index] ?? 0, tip: `${stage.name} ${duration(bar.values[index] ?? 0)}` }))}
            />
            <span class="value">{duration(bar.whole)}</span>
          </div>
        ))}
      </div>
      <Table
        rows={stages}
        columns={[
          { head: "stage", text: true, by: (row) => row.name },
          { head: "kind", text: true, by: (row) => row.kind },
          { head: "hardware", text: true, cell: hardware },
          { head: "taken by", by: (row) => row.taken, show: percent },
          { head: "busy", by: (row) => row.busy, show: percent },
          { head: "queue, mean", by: (row) => row.queue_s, show: duration },
          { head: "compute, mean", by: (row) => row.compute_s, show: duration },
          { head: "p99", by: (row) => row.seconds.p99, show: duration },
          { head: "of first token, p99", cell: (row) => duration(total(row, "ttft_parts", "p99")) },
          { head: "$ an hour", cell: (row) => (row.hardware.length === 0 ? "—" : band(row.usd_per_h, dollars)) },
        ]}
      />
    </Section>
  );
}
