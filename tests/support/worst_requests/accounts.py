"""What strangers, and those with an account, do to a broker that asks for signatures."""

import json
import os
import time

from rocketeer.protocol.command import Command, request
from rocketeer.security.credentials import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE
from rocketeer.security.signature import ACCESS_KEY, NONCE, SIGNATURE, SIGNED_AT, sign, signed_content
from support.hold import HONEST_TOPIC
from support.senders import send_header
from support.worst_requests.catalogue import ACCOUNTS, listed
from support.worst_requests.crowds import crowd
from support.worst_requests.pieces import MB, ask, flood


def signed(code: int, fields: dict[str, str], body: bytes = b"") -> Command:
    """By the account that the environment names."""
    fields = {**fields, ACCESS_KEY: os.environ.get(ACCESS_KEY_VARIABLE, "")}
    fields[SIGNATURE] = sign(signed_content(fields, body), os.environ.get(SECRET_KEY_VARIABLE, ""))
    return request(code, fields, body)


def _with_key(code: int, body: bytes, key: str | None = None) -> Command:
    """An account that there is, and a signature that is wrong."""
    key = os.environ[ACCESS_KEY_VARIABLE] if key is None else key
    return request(code, {**send_header(HONEST_TOPIC, 0, ""), ACCESS_KEY: key, SIGNATURE: "x" * 28}, body)


@listed(ACCOUNTS, "9 requests of 15 MB with wrong signatures", memory_mb=128)
def _(address: str) -> None:
    for code in (310, 320, 34, 17, 41, 25, 45, 310, 320):
        ask(address, _with_key(code, bytes(15 * MB)))


@listed(ACCOUNTS, "4 signed requests of 15 MB", memory_mb=128)
def _(address: str) -> None:
    for code in (310, 34, 320, 17):
        ask(address, signed(code, send_header(HONEST_TOPIC, 0, ""), bytes(15 * MB)))


@listed(ACCOUNTS, "8 connections with 15 MB and a wrong signature each", memory_mb=340)
def _(address: str) -> None:
    crowd(_with_key(310, bytes(15 * MB)), 8)(address)


@listed(ACCOUNTS, "headers with 20,000 fields, signed")
def _(address: str) -> None:
    fields = {f"{number:x}": "" for number in range(18_000)}
    for code in (310, 34, 11, 17):
        ask(address, *[signed(code, send_header(HONEST_TOPIC, 0, "") | fields)] * 5)


@listed(ACCOUNTS, "20,000 keys that nobody has")
def _(address: str) -> None:
    flood(address, [_with_key(310, b"x", f"{number:064}") for number in range(20_000)])


@listed(ACCOUNTS, "15,000 clients of one account", memory_mb=64)
def _(address: str) -> None:
    now = str(int(time.time() * 1000))
    fields = send_header(HONEST_TOPIC, 0, "") | {SIGNED_AT: now}
    flood(address, [signed(310, fields | {NONCE: f"{number:064}.{10**17}"}) for number in range(15_000)])


@listed(
    ACCOUNTS, "signed heartbeats with 20,000 groups, and 64 KB of JSON as fastjson writes it", memory_mb=64
)
def _(address: str) -> None:
    groups = [{"groupName": f"g{number}", "subscriptionDataSet": []} for number in range(20_000)]
    many = json.dumps({"clientID": "c", "consumerDataSet": groups}, separators=(",", ":")).encode()
    loose = b"{clientID:'c',x:[" + b"1," * 32_000 + b"1]}"
    for code, body in ((34, many), (34, loose), (41, loose)):
        ask(address, signed(code, {}, body))
