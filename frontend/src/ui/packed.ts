/** Columns of numbers as `railyard.face.web.views.packed` writes them, read in place. */

type Column = Uint8Array | Int16Array | Int32Array | Float32Array;

interface Row {
  name: string;
  kind: "uint8" | "int16" | "int32" | "float32";
  count: number;
  offset: number;
}

const KINDS = { uint8: Uint8Array, int16: Int16Array, int32: Int32Array, float32: Float32Array } as const;

export class Packed<Head> {
  readonly head: Head;
  private readonly columns: Map<string, Column>;

  constructor(buffer: ArrayBuffer) {
    const length = new DataView(buffer).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as Head & { columns: Row[] };
    this.head = head;
    this.columns = new Map(head.columns.map((row) => [row.name, new KINDS[row.kind](buffer, 4 + length + row.offset, row.count)]));
  }

  column(name: string): Column {
    const found = this.columns.get(name);
    if (found === undefined) throw new Error(`the answer has no column ${name}`);
    return found;
  }
}
