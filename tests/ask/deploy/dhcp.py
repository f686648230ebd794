"""A relay that speaks DHCP on the wire: `python dhcp.py 4|6 SERVER RELAY QUESTION.json` prints what the server answers.

Run in a network namespace; what a question holds: `mac`, `link` (address of the relay towards the client), `options` by
code as hex, `circuit`.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
from pathlib import Path

COOKIE = bytes.fromhex("63825363")


def options4(pairs):
    return b"".join(struct.pack("!BB", code, len(data)) + data for code, data in pairs) + b"\xff"


def packet4(kind, asked, extra=()):
    mac = bytes.fromhex(asked["mac"].replace(":", ""))
    relay = socket.inet_aton(asked["link"])
    head = struct.pack("!BBBBIHH4s4s4s4s16s64s128s", 1, 1, 6, 1, 0x5EED, 0, 0, *([bytes(4)] * 3), relay, mac, b"", b"")
    pairs = [(53, bytes([kind])), (55, bytes([1, 3, 12, 43, 51, 66, 67, 239])), *extra]
    pairs += [(int(code), bytes.fromhex(data)) for code, data in asked.get("options", {}).items()]
    if asked.get("circuit"):
        pairs.append((82, struct.pack("!BB", 1, len(asked["circuit"])) + asked["circuit"].encode()))
    return head + COOKIE + options4(pairs)


def answer4(data):
    found, at = {}, 240
    while data[at] != 255:
        code, size = data[at], data[at + 1]
        found[code] = found.get(code, b"") + data[at + 2 : at + 2 + size]
        at += 2 + size
    return socket.inet_ntoa(data[16:20]), found


def ask4(server, _, asked):
    plug = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    plug.bind(("", 67))  # answers go to the address towards the client
    plug.settimeout(3)
    try:
        plug.sendto(packet4(1, asked), (server, 67))
        offered, given = answer4(plug.recv(4096))
        extra = [(50, socket.inet_aton(offered)), (54, given[54])]
        plug.sendto(packet4(3, asked, extra), (server, 67))
        address, given = answer4(plug.recv(4096))
    except TimeoutError:
        return None
    return {"address": address, "kind": given[53][0], "options": {code: data.hex() for code, data in given.items()}}


def option6(code, data):
    return struct.pack("!HH", code, len(data)) + data


def message6(kind, asked, extra=b""):
    mac = bytes.fromhex(asked["mac"].replace(":", ""))
    identity = option6(1, struct.pack("!HH", 3, 1) + mac)
    body = (
        identity + option6(3, struct.pack("!III", 1, 0, 0)) + option6(6, struct.pack("!H", 59)) + option6(8, bytes(2))
    )
    body += b"".join(option6(int(code), bytes.fromhex(data)) for code, data in asked.get("options", {}).items())
    inner = bytes([kind]) + b"\x00\x5e\xed" + body + extra
    link, peer = (socket.inet_pton(socket.AF_INET6, text) for text in (asked["link"], "fe80::1"))
    return bytes([12, 0]) + link + peer + option6(79, b"\x00\x01" + mac) + option6(9, inner)


def parsed6(data):
    found, at = {}, 0
    while at < len(data):
        code, size = struct.unpack("!HH", data[at : at + 4])
        found[code] = data[at + 4 : at + 4 + size]
        at += 4 + size
    return found


def ask6(_, relay, asked):
    plug = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    plug.bind((relay, 547))
    plug.settimeout(3)
    port = socket.if_nametoindex("dh1")
    plug.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, port)
    server = ("ff02::1:2", 547, 0, port)
    try:
        plug.sendto(message6(1, asked), server)
        found = parsed6(parsed6(plug.recv(4096)[34:])[9][4:])
        plug.sendto(message6(3, asked, option6(2, found[2])), server)
        inner = parsed6(plug.recv(4096)[34:])[9]
    except TimeoutError:
        return None
    found = parsed6(inner[4:])
    address = parsed6(found[3][12:]).get(5)
    text = socket.inet_ntop(socket.AF_INET6, address[:16]) if address else ""
    return {"address": text, "kind": inner[0], "options": {code: data.hex() for code, data in found.items()}}


if __name__ == "__main__":
    family, server, relay, file = sys.argv[1:]
    questions = json.loads(Path(file).read_text())
    sys.stdout.write(json.dumps([(ask4 if family == "4" else ask6)(server, relay, one) for one in questions]))
