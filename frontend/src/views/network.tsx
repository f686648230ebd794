import { loadColor } from "../colors";
import { bitRate, bytes, count, percent } from "../format";
import { Section, Table } from "../parts";
import type { Stepped } from "../result";
import { Topology } from "./topology";

function Scale() {
  return (
    <div class="scale" aria-hidden="true">
      <span>busiest link: 0 %</span>
      <i style={{ background: `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(loadColor).join(",")})` }} />
      <span>100 %</span>
    </div>
  );
}

export function Network({ variant }: { variant: Stepped }) {
  const { tiers, saturated_tier, hot_links } = variant.network;
  const picture = variant.topology.picture;
  return (
    <Section
      title="Network"
      note={<>{variant.topology.kind}: {saturated_tier === null ? "ranks wait for no tier's bandwidth in this step." : <>where ranks wait for bandwidth it is that of <strong>{saturated_tier}</strong>.</>} Loads are means over the step: a link that is full for a tenth of it has 10 %.</>}
    >
      {picture !== undefined && picture !== null && <><Scale /><Topology picture={picture} label="Link load over the topology" /></>}
      <Table
        rows={tiers}
        mark={(row) => row.name === saturated_tier}
        columns={[
          { head: "tier", text: true, by: (row) => row.name },
          { head: "links (one way)", by: (row) => row.links, show: count },
          { head: "rate each", by: (row) => row.rate_bps, show: bitRate },
          { head: "bytes a step", by: (row) => row.bytes, show: bytes },
          { head: "mean load", by: (row) => row.mean_utilization, show: percent },
          { head: "busiest link", by: (row) => row.max_utilization, show: percent },
        ]}
      />
      <h3>Ports of its switches</h3>
      <Table
        rows={[...variant.topology.switches]}
        columns={[
          { head: "role", text: true, by: (row) => row.role },
          { head: "switch", text: true, by: (row) => row.box },
          { head: "boxes", by: (row) => row.count, show: count },
          { head: "ports bought", by: (row) => row.ports, show: count },
          { head: "used", by: (row) => row.used, show: count },
          { head: "stranded", by: (row) => row.stranded, show: count },
        ]}
      />
      {hot_links.length > 0 && (
        <details>
          <summary>The busiest links</summary>
          <Table
            rows={hot_links}
            columns={[
              { head: "link", text: true, by: (row) => row.name },
              { head: "tier", text: true, by: (row) => row.tier },
              { head: "load", by: (row) => row.utilization, show: percent },
            ]}
          />
        </details>
      )}
    </Section>
  );
}
