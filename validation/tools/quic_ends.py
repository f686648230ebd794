"""The two ends of a QUIC transfer by aioquic, run by `quic_lab.py` in namespaces; needs `aioquic`, not Railyard.

quic_ends.py receive BYTES CERTIFICATE KEY     prints `ready`, then the monotonic second of the last byte
quic_ends.py send ADDRESS BYTES                prints the monotonic second at which the data was given to QUIC
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import time

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import StreamDataReceived

WINDOW = 1 << 26
"""Bytes that the receiver lets be under way: no limit here."""


def configuration(*, client: bool) -> QuicConfiguration:
    """CUBIC, and no limit by the receiver."""
    return QuicConfiguration(
        is_client=client,
        congestion_control_algorithm="cubic",
        alpn_protocols=["ry"],
        max_data=WINDOW,
        max_stream_data=WINDOW,
        verify_mode=ssl.CERT_NONE,
        idle_timeout=300.0,
    )


async def receive(size: int, certificate: str, key: str) -> None:
    """Reads so many bytes of one stream."""
    done = asyncio.Event()
    got = 0

    class Sink(QuicConnectionProtocol):
        def quic_event_received(self, event: object) -> None:
            nonlocal got
            if isinstance(event, StreamDataReceived):
                got += len(event.data)
                if got >= size and not done.is_set():
                    print(time.monotonic(), flush=True)
                    done.set()

    settings = configuration(client=False)
    settings.load_cert_chain(certificate, key)
    await serve("0.0.0.0", 5002, configuration=settings, create_protocol=Sink)
    print("ready", flush=True)
    await done.wait()
    await asyncio.sleep(0.5)


async def send(address: str, size: int) -> None:
    """Writes so many bytes once encryption is agreed."""
    async with connect(address, 5002, configuration=configuration(client=True)) as client:
        _, writer = await client.create_stream()
        await client.ping()
        print(time.monotonic(), flush=True)
        writer.write(bytes(size))
        await asyncio.sleep(3600)


if __name__ == "__main__":
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    if sys.argv[1] == "receive":
        asyncio.run(receive(int(sys.argv[2]), *sys.argv[3:]))
    else:
        asyncio.run(send(sys.argv[2], int(sys.argv[3])))
