"""A congestion control: `packet: {set: {congestion_control: gentle}}` and `--set congestion_control=gentle`."""

from railyard.engine import packet


@packet.controls.register("gentle")
@packet.control
class Gentle:
    """Half the line rate, whatever comes back."""

    def on_open(flow, now_ps, network):
        flow.rate_bps = network.rate_bps / 2
