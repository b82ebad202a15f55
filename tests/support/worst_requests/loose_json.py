"""Bodies as fastjson writes them, which are rewritten before they are read: a token at a time, in plain code."""

from rocketeer.protocol.command import Command, request
from support.worst_requests.catalogue import broker, nameserver
from support.worst_requests.name_server import registration
from support.worst_requests.pieces import ask

BROKER_CODES = (34, 41, 42, 46, 200)


def _loose(size: int) -> list[bytes]:
    ones = b"{clientID:'c',x:[" + b"1," * (size // 2) + b"1]}"
    keys = b"{clientID:'c',x:{" + b",".join(b"%d:1" % number for number in range(size // 8)) + b"}}"
    deep = b"{clientID:'c',x:[" + (b"[" * 60 + b"]" * 60 + b",") * (size // 121) + b"1]}"
    quoted = b"{clientID:'" + b"\\'" * (size // 2) + b"'}"
    return [ones, keys, deep, quoted]


BODIES = [body for size in (64_000, 8_100) for body in _loose(size)]


@broker("64 KB of JSON as fastjson writes it, to every request that reads some")
def _(address: str) -> None:
    for code in BROKER_CODES:
        ask(address, *[request(code, {}, body) for body in BODIES])


def _with_body(body: bytes) -> list[Command]:
    register = registration("loose", [], 1)
    register.body = body
    before = registration("loose", [], 1)
    before.body, before.version = body, 36
    return [register, before, request(322, register.ext, body)]


@nameserver("64 KB of JSON as fastjson writes it, to every request that reads some")
def _(address: str) -> None:
    for body in BODIES:
        ask(address, *_with_body(body))


@nameserver("a registration with 2,000,000 filter servers", memory_mb=64)
def _(address: str) -> None:
    command = registration("filtering", [], 1)
    servers = b",".join([b'"a"'] * 2_000_000)
    command.body = command.body.replace(b'"filterServerList":[]', b'"filterServerList":[' + servers + b"]")
    ask(address, command)
