/** The hall of a cluster in memory: columns as they came, and what is found from them. */

import type { HallHead } from "./api";
import type { Packed } from "./packed";

type Numbers = ArrayLike<number>;

export interface Cable {
  row: number;
  peer: number;
  port: number;
  peerPort: number;
}

export class Hall {
  readonly head: HallHead;
  readonly row: Numbers;
  readonly column: Numbers;
  /** Left and front of each rack, in widths of one. */
  readonly x: Numbers;
  readonly y: Numbers;
  readonly zone: Numbers;
  readonly power: Numbers;
  readonly rack: Numbers;
  readonly unit: Numbers;
  readonly height: Numbers;
  readonly role: Numbers;
  readonly box: Numbers;
  readonly draw: Numbers;
  /** Devices of each rack. */
  readonly inside: number[][];
  readonly rows: number;
  /** Of the hall, in widths of a rack. */
  readonly wide: number;
  readonly high: number;
  readonly mostPower: number;
  readonly mostDraw: number;

  constructor(packed: Packed<HallHead>) {
    this.head = packed.head;
    [this.row, this.column, this.power] = [packed.column("row"), packed.column("column"), packed.column("power_w")];
    [this.x, this.y, this.zone] = [packed.column("x"), packed.column("y"), packed.column("zone")];
    [this.rack, this.unit, this.height] = [packed.column("rack"), packed.column("unit"), packed.column("height")];
    [this.role, this.box, this.draw] = [packed.column("role"), packed.column("box"), packed.column("draw_w")];
    this.inside = Array.from({ length: this.row.length }, () => []);
    for (let device = 0; device < this.rack.length; device++) this.inside[at(this.rack, device)]?.push(device);
    this.rows = 1 + largest(this.row);
    this.wide = 1 + largest(this.x);
    this.high = this.head.rack_depth + largest(this.y);
    this.mostPower = largest(this.power);
    this.mostDraw = largest(this.draw);
  }

  rackName(rack: number): string {
    let letters = "";
    for (let number = at(this.row, rack) + 1; number > 0; number = Math.floor((number - 1) / 26)) letters = String.fromCharCode(65 + ((number - 1) % 26)) + letters;
    return `${letters}${String(at(this.column, rack) + 1).padStart(2, "0")}`;
  }

  /** Left and top of a rack, racks being one wide. */
  place(rack: number): [number, number] {
    return [at(this.x, rack), at(this.y, rack)];
  }
}

/** Cables by device, and the largest load at each. */
export class Cabling {
  readonly length: Numbers;
  /** Of every cable now, -1 where nothing is known. */
  load: Numbers;
  readonly tier: Numbers;
  readonly rate: Numbers;
  readonly number: Numbers;
  readonly loaded: boolean;
  /** Load of the busiest cable over the step: the hot end of the scale. */
  readonly most: number;
  private readonly overStep: Numbers;
  private readonly hall: Hall;
  readonly deviceLoad: Float32Array;
  readonly rackLoad: Float32Array;
  private readonly a: Numbers;
  private readonly b: Numbers;
  private readonly ports: [Numbers, Numbers];
  private readonly first: Int32Array;
  private readonly listed: Int32Array;

  constructor(packed: Packed<{ loaded: boolean }>, hall: Hall) {
    this.loaded = packed.head.loaded;
    [this.a, this.b] = [packed.column("a"), packed.column("b")];
    this.ports = [packed.column("a_port"), packed.column("b_port")];
    [this.length, this.load, this.tier] = [packed.column("length_m"), packed.column("load"), packed.column("tier")];
    [this.rate, this.number] = [packed.column("gb_per_s"), packed.column("number")];
    this.overStep = this.load;
    this.hall = hall;
    const devices = hall.rack.length;
    this.most = largest(this.load);
    this.first = new Int32Array(devices + 1);
    for (let row = 0; row < this.a.length; row++) for (const end of [this.a, this.b]) this.first[at(end, row) + 1] = (this.first[at(end, row) + 1] ?? 0) + 1;
    for (let device = 0; device < devices; device++) this.first[device + 1] = (this.first[device + 1] ?? 0) + (this.first[device] ?? 0);
    const next = this.first.slice();
    this.listed = new Int32Array(2 * this.a.length);
    this.deviceLoad = new Float32Array(devices).fill(-1);
    this.rackLoad = new Float32Array(hall.row.length).fill(-1);
    for (let row = 0; row < this.a.length; row++)
      for (const end of [this.a, this.b]) {
        const device = at(end, row);
        const place = next[device] ?? 0;
        this.listed[place] = row;
        next[device] = place + 1;
      }
    this.light();
  }

  /** Shows another load, of a moment; that of the step without one. */
  show(load: Numbers | undefined): void {
    this.load = load ?? this.overStep;
    this.light();
  }

  /** The two devices of a cable. */
  ends(row: number): [number, number] {
    return [at(this.a, row), at(this.b, row)];
  }

  private light(): void {
    this.deviceLoad.fill(-1);
    this.rackLoad.fill(-1);
    for (let row = 0; row < this.a.length; row++)
      for (const end of [this.a, this.b]) {
        const device = at(end, row);
        raise(this.deviceLoad, device, at(this.load, row));
        raise(this.rackLoad, at(this.hall.rack, device), at(this.load, row));
      }
  }

  of(device: number): Cable[] {
    const rows = [...this.listed.subarray(this.first[device] ?? 0, this.first[device + 1] ?? 0)];
    const cables = rows.map((row) => {
      const lower = at(this.a, row) === device;
      return { row, peer: at(lower ? this.b : this.a, row), port: at(this.ports[lower ? 0 : 1], row), peerPort: at(this.ports[lower ? 1 : 0], row) };
    });
    return cables.sort((one, other) => one.port - other.port);
  }
}

export const at = (values: Numbers, index: number): number => values[index] ?? 0;

function raise(values: Float32Array, index: number, value: number): void {
  if (value > (values[index] ?? 0)) values[index] = value;
  else if ((values[index] ?? 0) < 0) values[index] = value;
}

function largest(values: Numbers): number {
  let most = 0;
  for (let index = 0; index < values.length; index++) most = Math.max(most, at(values, index));
  return most;
}
