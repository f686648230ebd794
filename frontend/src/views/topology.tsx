/** The network by its tiers: boxes of switches, the cables between them, and what is marked on both. */

import { loadColor } from "../colors";
import { percent } from "../format";
import type { Picture } from "../result.gen";

const WIDTH = 960;
const TIER = 96;
const BOX = 22;
/** From the middle of the lowest boxes to the edge, and the same above the highest. */
const FOOT = 62;
/** Width of a marked edge, in units of the drawing. */
const MARKED = 5;

/** What is marked: edges by number, boxes by tier and place. */
export interface Marks {
  edges: ReadonlySet<number>;
  boxes: readonly (readonly [tier: number, box: number])[];
}

export interface TopologyProps {
  picture: Picture;
  label: string;
  /** Load of an edge, where it is not that of the picture: at a moment, say. */
  load?: ((edge: number) => number) | undefined;
  /** Drawn faintly: everything that something was found at. */
  found?: Marks | undefined;
  /** Drawn boldly: what is chosen. */
  marks?: Marks | undefined;
}

/** Width of a letter of a box's label. */
const LETTER = 6.6;

/** Of a label that is drawn; all of it is in the tooltip. */
const LONGEST = 22;

/** `A09-P1-IBLEAF-01-02` of `MF0;A09-P1-IBLEAF-01-02:MQM9701/U1 to ...`. */
function short(label: string): string {
  const first = (label.split(" to ")[0] ?? "").replace(/^[^;]*;/, "").replace(/:.*$/, "");
  return first.length > LONGEST ? `${first.slice(0, LONGEST - 1)}…` : first;
}

/** From one label to the next, in boxes: all of them where they fit. */
function labelled({ nodes }: Picture["tiers"][number]): number {
  const longest = Math.max(...nodes.map((node) => short(node.label).length));
  return Math.ceil(((longest + 1) * LETTER * nodes.length) / WIDTH);
}

/** Whether a label below a box stays in the drawing. */
const fits = (x: number, words: string): boolean => Math.min(x, WIDTH - x) >= (words.length * LETTER) / 2;

function place(picture: Picture, tier: number, node: number): [number, number] {
  const nodes = picture.tiers[tier]?.nodes.length ?? 1;
  return [((node + 0.5) * WIDTH) / nodes, (picture.tiers.length - 1 - tier) * TIER + 34];
}

/** Load of every box, in the order of tiers: that of the busiest cable bundle at it. */
function boxLoads(picture: Picture, loads: number[]): number[][] {
  const found = picture.tiers.map((tier) => tier.nodes.map(() => 0));
  picture.edges.forEach((edge, index) => {
    for (const [tier, node] of [edge.from, edge.to]) {
      const row = found[tier];
      if (row !== undefined) row[node] = Math.max(row[node] ?? 0, loads[index] ?? 0);
    }
  });
  return found;
}

const has = (marks: Marks | undefined, tier: number, node: number): boolean => marks?.boxes.some(([row, box]) => row === tier && box === node) ?? false;

export function Topology({ picture, label, load, found, marks }: TopologyProps) {
  const loads = picture.edges.map((edge, index) => load?.(index) ?? edge.max);
  const boxes = boxLoads(picture, loads);
  const order = picture.edges.map((_, index) => index).sort((a, b) => rank(a) - rank(b));
  function rank(edge: number): number {
    return (marks?.edges.has(edge) ? 4 : 0) + (found?.edges.has(edge) ? 2 : 0) + (loads[edge] ?? 0);
  }
  const look = (edge: number, links: number): { stroke: string; strokeWidth: number; opacity: number } => {
    const width = Math.min(1 + Math.log2(1 + links) / 2, 6);
    if (marks?.edges.has(edge)) return { stroke: "var(--hot)", strokeWidth: Math.max(width, MARKED), opacity: 1 };
    if (found?.edges.has(edge)) return { stroke: "var(--latency)", strokeWidth: Math.max(width, 3), opacity: 0.9 };
    const busy = loads[edge] ?? 0;
    return { stroke: loadColor(busy), strokeWidth: width, opacity: found === undefined ? 0.25 + 0.75 * busy : 0.45 };
  };
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={`${label}, scrolls`}>
      <svg viewBox={`0 0 ${WIDTH} ${(picture.tiers.length - 1) * TIER + FOOT}`} class="chart" role="img" aria-label={label}>
        {order.map((index) => {
          const edge = picture.edges[index];
          if (edge === undefined) return null;
          const [x1, y1] = place(picture, ...edge.from);
          const [x2, y2] = place(picture, ...edge.to);
          return (
            <line x1={x1} y1={y1} x2={x2} y2={y2} style={look(index, edge.links)}>
              <title>{load === undefined && found === undefined ? `${edge.links} links, mean ${percent(edge.mean)}, busiest ${percent(edge.max)}` : load === undefined ? `${edge.links} links` : `${edge.links} links, busiest ${percent(loads[index] ?? 0)}`}</title>
            </line>
          );
        })}
        {picture.tiers.map((tier, index) => {
          const size = Math.min(BOX, (WIDTH / tier.nodes.length) * 0.7);
          const every = labelled(tier);
          return (
            <g>
              <text x="4" y={(picture.tiers.length - 1 - index) * TIER + 14} class="tier">{tier.name}</text>
              {tier.nodes.map((node, position) => {
                const [x, y] = place(picture, index, position);
                const fill = has(marks, index, position) ? "var(--hot)" : has(found, index, position) ? "var(--latency)" : loadColor(boxes[index]?.[position] ?? 0);
                return (
                  <>
                    <rect x={x - size / 2} y={y - size / 2} width={size} height={size} rx="3" class="box" style={{ fill }}>
                      <title>{node.count > 1 ? `${node.label}: ${node.count} together` : node.label}</title>
                    </rect>
                    {position % every === Math.floor(every / 2) && fits(x, short(node.label)) && <text x={x} y={y + size / 2 + 12} class="node">{short(node.label)}</text>}
                  </>
                );
              })}
            </g>
          );
        })}
      </svg>
    </div>
  );
}

/** The marks of several places as one. */
export function marksOf(places: readonly { edges: readonly number[]; boxes: readonly (readonly [number, number])[] }[]): Marks {
  return { edges: new Set(places.flatMap((each) => each.edges)), boxes: places.flatMap((each) => each.boxes) };
}
