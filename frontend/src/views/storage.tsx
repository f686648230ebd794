import { bitRate, bytes, count, duration, percent } from "../format";
import { Figure, Section } from "../parts";
import type { Stepped } from "../result";

/** How samples reach the accelerators, and how their state is saved. */
export function Storage({ variant }: { variant: Stepped }) {
  const data = variant.storage.data;
  const saved = variant.storage.checkpoint;
  if (data === null && saved === null) return null;
  return (
    <Section title="Storage" note="Reads and writes are flows on the network of the storage system, beside everything else that crosses it.">
      {data !== null && <Data data={data} step={variant.step.seconds} />}
      {saved !== null && <Checkpoint saved={saved} step={variant.step.seconds} />}
    </Section>
  );
}

type Stored = NonNullable<Stepped["storage"]>;

function Data({ data, step }: { data: NonNullable<Stored["data"]>; step: number }) {
  const limit = { storage: "storage is the slower part", workers: "the workers are the slower part", cores: "the host's cores are the slower part" }[data.limit] ?? "";
  return (
    <>
      <h3>Samples</h3>
      <div class="figures">
        <Figure name="Idle for data" value={percent(data.wait_s / step)} under={`${duration(data.wait_s)} a step${data.variation_s > 0 ? `, ${duration(data.variation_s)} of it as sizes vary` : ""}`} />
        <Figure name="Read from storage" value={bytes(data.bytes_per_step)} under={`a step, by ${count(data.readers)} ranks`} />
        <Figure name="Rate" value={bitRate(data.reached_bps)} under={`${bitRate(data.wanted_bps)} would keep up`} />
        <Figure name="On their way" value={duration(data.read_s)} under="bytes of one rank" />
        <Figure name="Workers busy besides" value={duration(data.worker_s)} under={`${data.workers === 1 ? "one worker" : `shared by ${count(data.workers)}`}; ${limit}`} />
        {data.hit_rate > 0 && <Figure name="Cache hits" value={percent(data.hit_rate)} />}
      </div>
    </>
  );
}

function Checkpoint({ saved, step }: { saved: NonNullable<Stored["checkpoint"]>; step: number }) {
  const goodput = saved.best_goodput === null || saved.best_interval_steps === null ? undefined : `best every ${count(saved.best_interval_steps)} steps: ${percent(saved.best_goodput, 2)}`;
  return (
    <>
      <h3>Checkpoints</h3>
      <div class="figures">
        <Figure name="Size" value={bytes(saved.bytes)} under={saved.writers === 1 ? "written by one rank" : `by ${count(saved.writers)} ranks`} />
        <Figure name="Stall" value={duration(saved.stall_s)} under={`every ${count(saved.interval_steps)} steps, ${duration(saved.interval_steps * step)}`} />
        <Figure name="Written in" value={duration(saved.write_s)} under="with storage to itself" />
        <Figure name="Read back in" value={duration(saved.read_s)} under="at a restart" />
        <Figure name="Goodput" value={percent(saved.goodput, 2)} under={goodput} />
        <Figure name="A failure every" value={duration(saved.mtbf_h * 3600)} />
      </div>
    </>
  );
}
