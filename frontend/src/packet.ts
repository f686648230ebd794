/** Variants with a packet-level run: a training step may or may not stand beside it. */

import type { Variant } from "./result";
import type { PacketFigures } from "./result.gen";

export interface PacketVariant {
  name: string;
  packet: PacketFigures;
}

export const hasPackets = (variant: Variant): variant is Variant & PacketVariant =>
  "packet" in variant && variant.packet !== undefined && variant.packet !== null;
