import { List } from "../parts";
import type { PacketVariant } from "../packet";
import { Background } from "./background";
import { Completion } from "./completion";
import { Counters } from "./counters";
import { Queues } from "./queues";
import { Senders } from "./senders";
import { PauseStorm } from "./storm";

/** Everything that only a packet-level run can tell; `said` is what the report says it leaves out anyway. */
export function Packets({ variant, all, said }: { variant: PacketVariant; all: PacketVariant[]; said: string[] }) {
  const { packet } = variant;
  const unsaid = packet.left_out.filter((text) => !said.includes(text));
  return (
    <>
      <Completion variant={variant} all={all} />
      <Background all={all} />
      {packet.queues && packet.queues.rows.length > 0 && <Queues queues={packet.queues} />}
      {packet.storm && <PauseStorm storm={packet.storm} />}
      {packet.flows && packet.flows.rows.length > 0 && <Senders flows={packet.flows} />}
      <Counters packet={packet}>
        <List title="What the packet engine leaves out" items={unsaid} />
      </Counters>
    </>
  );
}
