"""How servers of one installation know each other: a shared secret that both sides prove, neither tells.

    caller -> listener     MAGIC 8 | caller's nonce 32
    listener -> caller     listener's nonce 32
    caller -> listener     HMAC-SHA256(secret, "caller" | purpose | both nonces) 32
    listener -> caller     HMAC-SHA256(secret, "listener" | purpose | both nonces) 32

Bytes in, bytes out; `peer_socket.py` does the IO. The caller proves itself first: whoever only knocks hears nothing
that a secret could be guessed from. `purpose` keeps what is proved on one kind of stream from being used on another.
This says who is there when the connection begins; that nobody changes it afterwards is what TLS is for.
"""

import hashlib
import hmac
import logging
import secrets as random
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Final

from rocketeer.errors import ConfigError, PeerRefused

log = logging.getLogger(__name__)

MAGIC: Final = b"RKTPEER1"
NONCE_BYTES: Final = 32
PROOF_BYTES: Final = hashlib.sha256().digest_size
SECRET_CHARS_MIN: Final = 16
SECRETS_MAX: Final = 2

Handshake = Generator[bytes | int, bytes, None]
"""Yields bytes to send, or how many bytes it has to be sent; raises PeerRefused."""
NewNonce = Callable[[], bytes]


def read_secrets(path: Path) -> tuple[bytes, ...]:
    """The lines of a secret file: the first is used, a second one is taken from others while it is changed."""
    try:
        text = path.read_text()
        mode = path.stat().st_mode & 0o777
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the secret file {path} cannot be read: {error}") from None
    if mode & 0o077:
        log.warning("secret file can be read by others path=%s mode=%o: chmod 600", path, mode)
    found = [line.strip() for line in text.splitlines() if line.strip()]
    if not 1 <= len(found) <= SECRETS_MAX or any(len(line) < SECRET_CHARS_MIN for line in found):
        raise ConfigError(
            f"the secret file {path} must have one or two lines of {SECRET_CHARS_MIN} characters or more"
        )
    return tuple(line.encode() for line in found)


def calling(
    secret: bytes, purpose: str, nonce: NewNonce = lambda: random.token_bytes(NONCE_BYTES)
) -> Handshake:
    """The sign-in steps of the side that connected."""
    own = nonce()
    yield MAGIC + own
    theirs = yield NONCE_BYTES
    yield _proof(secret, b"caller", purpose, own, theirs)
    proof = yield PROOF_BYTES
    if not hmac.compare_digest(proof, _proof(secret, b"listener", purpose, own, theirs)):
        raise PeerRefused("the other side does not know our secret")


def listening(
    secrets: Sequence[bytes], purpose: str, nonce: NewNonce = lambda: random.token_bytes(NONCE_BYTES)
) -> Handshake:
    """The sign-in steps of the side that was connected to; MAGIC has been seen, and is still to be read."""
    start = yield len(MAGIC) + NONCE_BYTES
    if start[: len(MAGIC)] != MAGIC:
        raise PeerRefused("it does not sign in")
    theirs, own = start[len(MAGIC) :], nonce()
    yield own
    proof = yield PROOF_BYTES
    # All of them: how long it takes says nothing.
    known = [
        secret
        for secret in secrets
        if hmac.compare_digest(proof, _proof(secret, b"caller", purpose, theirs, own))
    ]
    if not known:
        raise PeerRefused("it does not know the secret")
    yield _proof(known[0], b"listener", purpose, theirs, own)


def _proof(secret: bytes, side: bytes, purpose: str, caller: bytes, listener: bytes) -> bytes:
    content = b"\0".join((side, purpose.encode(), caller + listener))
    return hmac.digest(secret, content, "sha256")
