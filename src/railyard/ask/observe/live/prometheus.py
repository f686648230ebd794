"""The HTTP API of Prometheus: instant queries and alerts."""

from __future__ import annotations

import http.client
import json
import math
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from railyard.kit.errors import InputError

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
        try:
            said = urllib.parse.urlsplit(self.url)
            known = said.scheme in ("http", "https") and bool(said.hostname) and self.url.isprintable()
        except ValueError:
            known = False
        if not known:
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
            try:
                value, labels = float(one["value"][1]), {str(k): str(v) for k, v in one["metric"].items()}
            except (KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError):
                raise InputError(
                    "the answer is not as Prometheus writes it", key="--prometheus", found=str(one)[:200]
                ) from None
            labels.pop("__name__", None)
            if math.isfinite(value):
                samples.append(Sample(labels, value))
        return samples

    def alerts(self) -> list[dict[str, Any]]:
        """Alerts that are pending or firing: `labels`, `annotations`, `state`, `activeAt`.

        Raises:
            InputError: The server does not answer.
        """
        found = self._get("alerts", {})
        listed = found.get("alerts") if isinstance(found, dict) else None
        return [one for one in listed if _is_alert(one)] if isinstance(listed, list) else []

    def _get(self, what: str, arguments: dict[str, str]) -> Any:
        address = f"{self.url.rstrip('/')}/api/v1/{what}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(address, timeout=SECONDS) as answer:
                body = json.loads(answer.read(MOST_BYTES))
        except urllib.error.HTTPError as error:
            raise InputError(f"Prometheus answered {error.code} to `{what}`", found=self.url) from None
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
            raise InputError(f"Prometheus does not answer: {error}", key="--prometheus", found=self.url) from None
        if not isinstance(body, dict) or body.get("status") != "success":
            raise InputError(f"Prometheus refused `{what}`", found=str(body)[:200])
        return body.get("data")


def _is_alert(one: Any) -> bool:
    return isinstance(one, dict) and all(isinstance(one.get(key, {}), dict) for key in ("labels", "annotations"))
