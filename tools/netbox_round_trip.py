"""A plan into a real NetBox by its own bulk import, and back by its API.

    netbox_round_trip.py PLAN --url URL --out FOLDER

PLAN is a folder of `railyard deploy`. Its tables under `netbox/` are imported in their order through NetBox's forms, as
a person would; what NetBox then says is kept as JSON, of which `railyard audit --netbox` reads cables or interfaces.
NETBOX_USER and NETBOX_PASSWORD say who imports. Made for an empty NetBox of one's own: what is imported stays.
"""

from __future__ import annotations

import argparse
import http.cookiejar
import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from html import unescape
from pathlib import Path

PLACES = {
    "sites": "dcim/sites",
    "manufacturers": "dcim/manufacturers",
    "device-roles": "dcim/device-roles",
    "device-types": "dcim/device-types",
    "racks": "dcim/racks",
    "devices": "dcim/devices",
    "interfaces": "dcim/interfaces",
    "rear-ports": "dcim/rear-ports",
    "front-ports": "dcim/front-ports",
    "cables": "dcim/cables",
    "ip-addresses": "ipam/ip-addresses",
}
"""Where NetBox keeps what each table holds."""

KEPT = ("devices", "cables", "interfaces", "ip-addresses")
"""What is read back."""

ROWS = 500
"""Of an import at a time, and of an answer."""


class NetBox:
    """A session."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))

    def get(self, path: str) -> str:
        """A page."""
        with self.opener.open(f"{self.url}/{path}", timeout=600) as answer:
            return str(answer.read().decode())

    def post(self, path: str, fields: dict[str, str]) -> tuple[str, str]:
        """Where it ended, and the page."""
        self.get(path)
        token = next(cookie.value or "" for cookie in self.jar if cookie.name == "csrftoken")
        data = urllib.parse.urlencode(fields | {"csrfmiddlewaretoken": token}).encode()
        request = urllib.request.Request(f"{self.url}/{path}", data, {"Referer": f"{self.url}/{path}"})
        with self.opener.open(request, timeout=600) as answer:
            return str(answer.url), str(answer.read().decode())

    def login(self, user: str, password: str) -> None:
        """Opens the session."""
        where, _ = self.post("login/", {"username": user, "password": password})
        if "/login" in where:
            sys.exit("NetBox refuses the user or the password")

    def load(self, place: str, text: str) -> None:
        """A table by the form of its bulk import, some rows at a time."""
        head, *rows = text.splitlines()
        for at in range(0, len(rows), ROWS):
            part = "\n".join([head, *rows[at : at + ROWS]])
            fields = {"data": part, "format": "csv", "csv_delimiter": ",", "import_method": "direct"}
            where, page = self.post(f"{place}/import/", fields)
            if where.endswith("/import/"):
                words = re.sub(r"\s+", " ", unescape(re.sub("<[^>]+>", " ", page)))
                sys.exit(f"NetBox refuses {place}: {re.findall(r'Record [0-9]+ .{0,120}', words)[:5]}")

    def all(self, place: str) -> list[dict[str, object]]:
        """Every object of a kind, by the API."""
        found: list[dict[str, object]] = []
        total = 1
        while len(found) < total:
            answer = json.loads(self.get(f"api/{place}/?limit={ROWS}&offset={len(found)}"))
            total = int(answer["count"])
            found += answer["results"]
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("plan", type=Path, help="folder of `railyard deploy`")
    parser.add_argument("--url", required=True, help="of NetBox")
    parser.add_argument("--out", type=Path, required=True, help="folder for what NetBox says")
    asked = parser.parse_args()
    box = NetBox(asked.url)
    box.login(os.environ.get("NETBOX_USER", "admin"), os.environ.get("NETBOX_PASSWORD", ""))
    for table in sorted((asked.plan / "netbox").glob("*.csv")):
        place = PLACES[table.stem.split("-", 1)[1]]
        text = table.read_text()
        sys.stderr.write(f"{place}: {len(text.splitlines()) - 1} rows\n")
        box.load(place, text)
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        (asked.out / f"{name}.json").write_text(json.dumps(box.all(PLACES[name])))


if __name__ == "__main__":
    main()
