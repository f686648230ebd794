/** Numbers for people: three to four significant digits, the unit always there. */

const known = new Map<string, Intl.NumberFormat>();

/** Numbers as the reader's own language writes them (1.5 or 1,5); words stay English. Making a format is slow, so each is kept. */
function formatted(value: number, least: number, most: number): string {
  return formatOf(`${least} ${most}`, { minimumFractionDigits: least, maximumFractionDigits: most }).format(value);
}

function formatOf(key: string, options: Intl.NumberFormatOptions): Intl.NumberFormat {
  // What rounds to nothing has no sign.
  const found = known.get(key) ?? new Intl.NumberFormat(undefined, { signDisplay: "negative", ...options });
  known.set(key, found);
  return found;
}

/** Decimals that give so many significant digits. */
const decimalsOf = (value: number, digits: number): number => (value === 0 ? 0 : Math.min(Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value)))), 6));

/** `digits` significant digits, trailing zeros kept so that columns line up; counts drop them. */
function significant(value: number, digits = 3, keepZeros = true): string {
  const decimals = decimalsOf(value, digits);
  return formatted(value, keepZeros ? decimals : 0, decimals);
}

function stepped(value: number, unit: string, steps: [number, string][]): string {
  for (const [scale, prefix] of steps) if (Math.abs(value) >= scale) return `${significant(value / scale)} ${prefix}${unit}`;
  return `${significant(value)} ${unit}`;
}

const SI: [number, string][] = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

export const percent = (share: number, digits = 1): string => `${fixed(share * 100, digits)} %`;
export const count = (value: number): string => significant(value, 4, false);
export const power = (watts: number): string => stepped(watts, "W", SI);
export const energy = (joules: number): string => stepped(joules, "J", SI);
export const bytes = (value: number): string => stepped(value, "B", SI);
export const gibibytes = (value: number): string => fixed(value / 2 ** 30, 1);
export const bitRate = (bps: number): string => {
  const [scale, prefix] = SI.find(([least]) => bps >= least) ?? [1, ""];
  return `${significant(bps / scale, 4, false)} ${prefix}b/s`;
};
/** At most one decimal. */
export const tidy = (value: number): string => formatted(value, 0, 1);
export const fixed = (value: number, digits: number): string => formatted(value, digits, digits);

const THOUSANDS: [number, string][] = [[1e9, "B"], [1e6, "M"], [1e3, "k"]];

/** Dollars as the reader's language writes them, in thousands, millions and billions from a thousand on. */
export function dollars(usd: number): string {
  const [scale, letter] = THOUSANDS.find(([least]) => Math.abs(usd) >= least) ?? [1, ""];
  const digits = decimalsOf(usd / scale, 3);
  return money(usd / scale, digits, letter);
}
/** Dollars to the last one. */
export const wholeDollars = (usd: number): string => money(usd, 0, "");

/** The letter stands at the number, wherever the currency stands. */
function money(usd: number, digits: number, letter: string): string {
  const options = { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol", minimumFractionDigits: digits, maximumFractionDigits: digits } as const;
  const parts = formatOf(`usd ${digits}`, options).formatToParts(usd);
  const last = parts.findLastIndex((part) => part.type === "integer" || part.type === "fraction");
  return parts.map((part, index) => (index === last ? part.value + letter : part.value)).join("");
}

export function duration(seconds: number): string {
  if (seconds === 0) return "0 s";
  const size = Math.abs(seconds);
  if (size >= 2 * 86400) return `${significant(seconds / 86400)} days`;
  if (size >= 2 * 3600) return `${significant(seconds / 3600)} h`;
  if (size >= 120) return `${significant(seconds / 60)} min`;
  if (size >= 1) return `${significant(seconds, 4)} s`;
  if (size >= 1e-3) return `${significant(seconds * 1e3)} ms`;
  return `${significant(seconds * 1e6)} us`;
}

/** A time on an axis: no trailing zeros. */
export const axisTime = (seconds: number): string => (seconds >= 120 ? duration(seconds) : tick(seconds * 1e6));

export const band = (value: { low: number; typical: number; high: number }, show: (x: number) => string): string =>
  `${show(value.low)} – ${show(value.typical)} – ${show(value.high)}`;

/** Microseconds as a time. */
export const microseconds = (us: number): string => duration(us / 1e6);
export const times = (factor: number): string => `${significant(factor)} x`;
/** An integer in full. */
export const whole = (value: number): string => formatted(Math.round(value), 0, 0);
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
/** "h3->h7" with the arrow that is meant. */
export const arrow = (text: string): string => text.replaceAll("->", "→");
/** Microseconds on an axis: no trailing zeros. */
export function tick(us: number): string {
  if (us === 0) return "0 s";
  const [scale, unit] = us >= 1e6 ? [1e6, "s"] : us >= 1e3 ? [1e3, "ms"] : [1, "us"];
  return `${significant(us / scale, 3, false)} ${unit}`;
}
