"""The HTTP API of Prometheus: instant queries and alerts."""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from railyard.errors import InputError

MOST_BYTES = 64 << 20
SECONDS = 20.0


@dataclass(frozen=True)
class Sample:
    """A value of a series.

    Attributes:
        labels: Without the name.
        value: As it was counted.
    """

    labels: dict[str, str]
    value: float


@dataclass(frozen=True)
class Prometheus:
    """A server.

    Attributes:
        url: Such as `http://localhost:9090`.
    """

    url: str

    def __post_init__(self) -> None:
        """Refuses what is no address."""
        if urllib.parse.urlsplit(self.url).scheme not in ("http", "https"):
            raise InputError(
                "expected the address of a Prometheus", key="--prometheus", found=self.url, allowed="http://HOST:9090"
            )

    def query(self, expression: str) -> list[Sample]:
        """Instant values; those that are no finite numbers are left out.

        Raises:
            InputError: The server does not answer, or refuses the expression.
        """
        data = self._get("query", {"query": expression})
        found = data.get("result") if isinstance(data, dict) else None
        samples = []
        for one in found if isinstance(found, list) else ():
            value = float(one["value"][1])
            if math.isfinite(value):
                samples.append(Sample({k: v for k, v in one["metric"].items() if k != "__name__"}, value))
        return samples

    def alerts(self) -> list[dict[str, Any]]:
        """Alerts that are pending or firing: `labels`, `annotations`, `state`, `activeAt`.

        Raises:
            InputError: The server does not answer.
        """
        found = self._get("alerts", {})
        listed = found.get("alerts") if isinstance(found, dict) else None
        return list(listed) if isinstance(listed, list) else []

    def _get(self, what: str, arguments: dict[str, str]) -> Any:
        address = f"{self.url.rstrip('/')}/api/v1/{what}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(address, timeout=SECONDS) as answer:
                body = json.loads(answer.read(MOST_BYTES))
        except urllib.error.HTTPError as error:
            raise InputError(f"Prometheus answered {error.code} to `{what}`", found=self.url) from None
        except (OSError, ValueError) as error:
            raise InputError(f"Prometheus does not answer: {error}", key="--prometheus", found=self.url) from None
        if not isinstance(body, dict) or body.get("status") != "success":
            raise InputError(f"Prometheus refused `{what}`", found=str(body)[:200])
        return body.get("data")
