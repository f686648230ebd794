"""Clients that hold sockets: headings, bodies and readers that do not go on."""

import asyncio
import socket
import threading
import urllib.request
from contextlib import contextmanager

import pytest
import uvicorn

from railyard.face.web import application

from .server import free_port, until


async def app(scope, receive, send):
    """Answers once the body is there: `/much` with more than a socket holds, `/late` after a second."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    if scope["path"] == "/late":
        await asyncio.sleep(1.5)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x" * (64 << 20 if scope["path"] == "/much" else 2)})


@pytest.fixture
def address(monkeypatch):
    monkeypatch.setattr(application, "HEADING_S", 0.6)
    monkeypatch.setattr(application, "STILL_S", 0.6)
    monkeypatch.setattr(application, "_LOOK_S", 0.1)
    monkeypatch.setattr(application, "MOST_CONNECTIONS", 40)
    port = free_port()
    config = uvicorn.Config(app, port=port, http=application.ImpatientProtocol, log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    yield ("127.0.0.1", port)
    server.should_exit = True
    thread.join()


@contextmanager
def sockets(address, count, sent):
    found = [socket.create_connection(address) for _ in range(count)]
    try:
        for one in found:
            one.sendall(sent)
        yield found
    finally:
        for one in found:
            one.close()


def over(one):
    """Whether the server has closed a connection; waits for it."""
    one.settimeout(60)
    try:
        while one.recv(1 << 20):
            pass
    except ConnectionError:
        pass
    return True


def answer(address, path):
    return urllib.request.urlopen(f"http://{address[0]}:{address[1]}{path}", timeout=60).read()


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 999\r\n\r\nx"],
)
def test_slow_clients_are_closed_and_others_answered_meanwhile(address, sent):
    with sockets(address, 300, sent) as slow:
        assert answer(address, "/") == b"xx"
        assert all(over(one) for one in slow)


def test_a_client_that_does_not_read_is_closed(address):
    with sockets(address, 1, b"GET /much HTTP/1.1\r\nhost: x\r\n\r\n") as (one,):
        until(lambda: not one_alive(one))


def one_alive(one):
    """Whether a connection takes what is sent: it does not once the server has reset it."""
    try:
        one.send(b"x")
    except ConnectionError:
        return False
    return True


def test_an_answer_that_takes_long_is_waited_for(address):
    assert answer(address, "/late") == b"xx"
    assert len(answer(address, "/much")) == 64 << 20


def test_a_body_that_goes_on_is_read_to_its_end(address):
    """2 s of it, in which a piece comes every tenth."""
    size = 20 * application.LEAST_BYTES
    heading = f"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {size}\r\n\r\n".encode()
    with sockets(address, 1, heading) as (one,):
        for _ in range(20):
            one.sendall(b"x" * application.LEAST_BYTES)
            threading.Event().wait(0.1)
        one.settimeout(60)
        assert one.recv(1000).startswith(b"HTTP/1.1 200")
