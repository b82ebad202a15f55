"""Signatures of requests, as RocketMQ's clients make them and its brokers check them.

    Signature = base64(HmacSHA1(secret, values of the header's fields in the order of their names, then the body))

AccessKey is one of the fields. Our own clients add the time and a number that is used once, signed with the rest: a
request that somebody recorded is not taken a second time (`replay.py`).
"""

import base64
import hmac
import itertools
import os
import secrets
from collections.abc import Callable, Mapping
from typing import Final

from rocketeer.steps import Steps

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SIGNED_AT: Final = "SignedAt"
"""When it was signed, in ms; a field of ours."""
NONCE: Final = "Nonce"
"""`<session>.<number>`, which no other request of the account has; a field of ours."""
_UNSIGNED: Final = frozenset(
    {SIGNATURE, "_UNIQUE_KEY_QUERY"}
)  # the second is set between hook and sending in Java
STEP_BYTES: Final = 128 << 10
"""How much of a body is hashed in one step: a fraction of a millisecond."""


def signed_content(fields: Mapping[str, str], body: bytes) -> bytes:
    """The bytes that are signed."""
    return signed_fields(fields) + body


def signed_fields(fields: Mapping[str, str]) -> bytes:
    """The signed bytes before the body."""
    return "".join([fields[name] for name in sorted(fields) if name not in _UNSIGNED]).encode()


def sign(content: bytes, secret: str) -> str:
    return base64.b64encode(hmac.digest(secret.encode(), content, "sha1")).decode()


def checking_signature(content: bytes, secret: str, signature: str, body: bytes = b"") -> Steps[bool]:
    """Whether the content, and a body behind it, are signed; in steps, for the body may be large.

    Compares in constant time: how long it takes says nothing about how much of it is right.
    """
    if body:
        made = hmac.new(secret.encode(), content, "sha1")
        rest = memoryview(body)  # not put together with the content first
        while len(rest) > STEP_BYTES:
            made.update(rest[:STEP_BYTES])
            rest = rest[STEP_BYTES:]
            yield
        made.update(rest)
        own = base64.b64encode(made.digest())
    else:
        own = sign(content, secret).encode()
    return hmac.compare_digest(own, signature.encode())


class Signer:
    """Signs the requests of one client."""

    def __init__(self, access_key: str, secret: str, now_ms: Callable[[], int]) -> None:
        self.access_key = access_key
        self._secret = secret
        self._now_ms = now_ms
        self._begin()

    def __repr__(self) -> str:
        return f"Signer({self.access_key!r})"  # never the secret

    def _begin(self) -> None:
        self._process = os.getpid()
        self._session = secrets.token_hex(8)
        self._numbers = itertools.count()

    def signed(self, fields: Mapping[str, str], body: bytes) -> dict[str, str]:
        """The header's fields with key, time, nonce and signature; every call gives another nonce."""
        if os.getpid() != self._process:
            self._begin()  # a forked child would use its parent's numbers
        signed = {
            **fields,
            ACCESS_KEY: self.access_key,
            SIGNED_AT: str(self._now_ms()),
            NONCE: f"{self._session}.{next(self._numbers)}",
        }
        signed[SIGNATURE] = sign(signed_content(signed, body), self._secret)
        return signed
