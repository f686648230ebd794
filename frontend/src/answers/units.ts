/** Values of an objective in words, by its unit. */

import { count, dollars, duration, energy, power } from "../format";

const SHOW: Record<string, (value: number) => string> = { s: duration, W: power, J: energy };

/** "$0.127" for USD, "4.2 MW" for W; what a dollar is divided by stands once, in the title. */
export function inUnit(unit: string): (value: number | null | undefined) => string {
  const show = unit.startsWith("USD") ? dollars : (SHOW[unit] ?? count);
  return (value) => (value === null || value === undefined ? "—" : show(value));
}
