import { loadColor } from "../colors";
import { bitRate, bytes, count, percent } from "../format";
import { Section, Table } from "../parts";
import type { Stepped } from "../result";
import type { Picture } from "../result.gen";

const WIDTH = 960;
const TIER = 96;
const BOX = 22;

function place(picture: Picture, tier: number, node: number): [number, number] {
  const nodes = picture.tiers[tier]?.nodes.length ?? 1;
  return [((node + 0.5) * WIDTH) / nodes, (picture.tiers.length - 1 - tier) * TIER + 34];
}

/** Load of a box: that of the busiest cable bundle at it. */
function nodeLoad(picture: Picture, tier: number, node: number): number {
  const at = (end: [number, number]) => end[0] === tier && end[1] === node;
  return Math.max(0, ...picture.edges.filter((edge) => at(edge.from) || at(edge.to)).map((edge) => edge.max));
}

function Heat({ picture }: { picture: Picture }) {
  const edges = [...picture.edges].sort((a, b) => a.max - b.max);
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Link load over the topology, scrolls">
      <svg viewBox={`0 0 ${WIDTH} ${picture.tiers.length * TIER}`} class="chart" role="img" aria-label="Link load over the topology">
        {edges.map((edge) => {
          const [x1, y1] = place(picture, ...edge.from);
          const [x2, y2] = place(picture, ...edge.to);
          const width = Math.min(1 + Math.log2(1 + edge.links) / 2, 6);
          return (
            <line x1={x1} y1={y1} x2={x2} y2={y2} style={{ stroke: loadColor(edge.max), strokeWidth: width, opacity: 0.25 + 0.75 * edge.max }}>
              <title>{`${edge.links} links, mean ${percent(edge.mean)}, busiest ${percent(edge.max)}`}</title>
            </line>
          );
        })}
        {picture.tiers.map((tier, index) => {
          const size = Math.min(BOX, (WIDTH / tier.nodes.length) * 0.7);
          return (
            <g>
              <text x="4" y={(picture.tiers.length - 1 - index) * TIER + 14} class="tier">{tier.name}</text>
              {tier.nodes.map((node, position) => {
                const [x, y] = place(picture, index, position);
                return (
                  <rect x={x - size / 2} y={y - size / 2} width={size} height={size} rx="3" class="box" style={{ fill: loadColor(nodeLoad(picture, index, position)) }}>
                    <title>{node.count > 1 ? `${node.label}: ${node.count} together` : node.label}</title>
                  </rect>
                );
              })}
            </g>
          );
        })}
      </svg>
    </div>
  );
}

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
      {picture !== undefined && picture !== null && <><Scale /><Heat picture={picture} /></>}
      <Table
        rows={tiers}
        mark={(row) => row.name === saturated_tier}
        columns={[
          { head: "tier", text: true, cell: (row) => row.name },
          { head: "links (one way)", cell: (row) => count(row.links) },
          { head: "rate each", cell: (row) => bitRate(row.rate_bps) },
          { head: "bytes a step", cell: (row) => bytes(row.bytes) },
          { head: "mean load", cell: (row) => percent(row.mean_utilization) },
          { head: "busiest link", cell: (row) => percent(row.max_utilization) },
        ]}
      />
      <h3>Ports of its switches</h3>
      <Table
        rows={[...variant.topology.switches]}
        columns={[
          { head: "role", text: true, cell: (row) => row.role },
          { head: "switch", text: true, cell: (row) => row.box },
          { head: "boxes", cell: (row) => count(row.count) },
          { head: "ports bought", cell: (row) => count(row.ports) },
          { head: "used", cell: (row) => count(row.used) },
          { head: "stranded", cell: (row) => count(row.stranded) },
        ]}
      />
      {hot_links.length > 0 && (
        <details>
          <summary>The busiest links</summary>
          <Table
            rows={hot_links}
            columns={[
              { head: "link", text: true, cell: (row) => row.name },
              { head: "tier", text: true, cell: (row) => row.tier },
              { head: "load", cell: (row) => percent(row.utilization) },
            ]}
          />
        </details>
      )}
    </Section>
  );
}
