/** A moment of a step, chosen by a slider under how busy the network was; played window after window. */

import { useEffect, useState } from "preact/hooks";
import { axisTime, duration, percent } from "../format";
import { Plot } from "../plot";
import { linear } from "../scales";
import { at } from "./hall";
import type { OverTime } from "./over_time";

const FRAME_MS = 120;

interface SliderProps {
  over: OverTime;
  window: number | undefined;
  set: (window: number | undefined) => void;
}

export function TimeSlider({ over, window, set }: SliderProps) {
  const [playing, play] = useState(false);
  const last = over.head.windows - 1;
  useEffect(() => {
    if (!playing) return undefined;
    const timer = setTimeout(() => (window !== undefined && window >= last ? play(false) : set(window === undefined ? 0 : window + 1)), FRAME_MS);
    return () => clearTimeout(timer);
  }, [playing, window]);
  const shown = window ?? 0;
  const words = window === undefined
    ? `the step as a whole, ${duration(over.head.end_us / 1e6)}`
    : `${duration(at(over.start, shown) / 1e6)} to ${duration(over.end(shown) / 1e6)}: links in use carry ${percent(at(over.mean, shown))}, the busiest ${percent(at(over.most, shown))}`;
  const line = (values: ArrayLike<number>): [number, number][] => [...Array.from(values, (value, index): [number, number] => [at(over.start, index), value]), [over.head.end_us, values[values.length - 1] ?? 0]];
  return (
    <div class="moment">
      <Plot
        label="Load of the network over the step"
        series={[{ name: "busiest link", color: "var(--hot)", faint: true, points: line(over.most) }, { name: "mean of links in use", color: "var(--accent)", points: line(over.mean) }]}
        x={linear(0, over.head.end_us, 8)}
        y={linear(0, 1, 2)}
        showX={(us) => axisTime(us / 1e6)}
        showY={(share) => percent(share, 0)}
        titleX=""
        titleY="load"
        steps
        named
        height={130}
        at={window === undefined ? undefined : at(over.start, shown)}
      />
      <div class="tools">
        <button aria-pressed={playing} onClick={() => play(!playing)}>{playing ? "Stop" : "Play"}</button>
        <label class="range">
          <span class="spoken">Moment of the step</span>
          <input
            type="range"
            min={0}
            max={last}
            value={shown}
            aria-valuetext={words}
            onInput={(event) => { play(false); set(Number(event.currentTarget.value)); }}
            onKeyDown={(event) => { if (event.key === " ") { event.preventDefault(); play(!playing); } }}
          />
        </label>
        <button aria-pressed={window === undefined} onClick={() => { play(false); set(undefined); }}>The step as a whole</button>
      </div>
      <p class="muted" aria-live={playing ? "off" : "polite"}>{words}</p>
    </div>
  );
}
