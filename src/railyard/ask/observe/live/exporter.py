"""An exporter of what the model expects: a page of OpenMetrics that Prometheus scrapes.

Only the address of this machine is listened to unless another is asked for; the page is made before it is asked for, so
that whoever asks cannot make it do anything.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from railyard.ask.observe.live import metrics
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.ask.observe.drift import Drift

LOOPBACK = "127.0.0.1"
CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Key = tuple[str, ...]


def labels_of(key: Key) -> dict[str, str]:
    """Labels by name; an empty one is left out, as Prometheus reads it."""
    return {name: text for name, text in zip(metrics.KEYS, key, strict=True) if text}


def page(expected: Mapping[Key, float], calibrated: Mapping[Key, float], drift: Drift) -> str:
    """The page: expected values, those with constants learned from the cluster, and their errors.

    Args:
        expected: GB/s by `metrics.KEYS`.
        calibrated: The same with the constants that are applied.
        drift: Constants and errors.
    """
    lines = []
    for name, rates, words in (
        (metrics.EXPECTED, expected, "Bus bandwidth that the model expects, GB/s."),
        (metrics.CALIBRATED, calibrated, "The same with constants learned from this cluster, GB/s."),
    ):
        lines += [f"# TYPE {name} gauge", f"# HELP {name} {words}"]
        lines += [metrics.line(name, labels_of(key), rate) for key, rate in sorted(rates.items())]
    lines += [f"# TYPE {metrics.FACTOR} gauge", f"# HELP {metrics.FACTOR} Learned time over the model's, by class."]
    lines += [metrics.line(metrics.FACTOR, {"class": name}, one.factor) for name, one in sorted(drift.classes.items())]
    lines += [f"# TYPE {metrics.MAPE} gauge", f"# HELP {metrics.MAPE} Mean absolute error of predictions in an hour."]
    for hour, which in ((hour, which) for hour in drift.hours[-1:] for which in ("model", "calibrated")):
        said = hour.plain()
        lines.append(metrics.line(metrics.MAPE, {"of": which}, said["mape_model" if which == "model" else "mape"]))
    return "\n".join([*lines, "# EOF"]) + "\n"


@dataclass
class Exporter:
    """A server of one page.

    Attributes:
        port: To listen at; 0: any that is free.
        address: Of this machine.
    """

    port: int
    address: str = LOOPBACK
    _text: bytes = b"# EOF\n"
    _server: ThreadingHTTPServer = field(init=False)

    def __post_init__(self) -> None:
        """Begins to listen.

        Raises:
            InputError: It cannot listen there.
        """
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10.0

            def do_GET(self) -> None:
                found = self.path.split("?")[0] == "/metrics"
                body = exporter._text if found else b"the page is /metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", CONTENT_TYPE if found else "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *_: Any) -> None:
                """Who asks is nobody's business."""

        try:
            self._server = ThreadingHTTPServer((self.address, self.port), Handler)
        except (OSError, OverflowError) as error:
            raise InputError(f"cannot listen: {error}", key="--export", found=f"{self.address}:{self.port}") from None
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where its page is."""
        return f"http://{self.address}:{self.port}/metrics"

    def show(self, text: str) -> None:
        """What it serves from now on."""
        self._text = text.encode()

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()
