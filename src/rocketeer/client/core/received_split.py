"""Cuts the body of a pull reply into messages, compiled or plain."""

from typing import TYPE_CHECKING

from rocketeer.client.core.received_split_plain import HEAD_START, split
from rocketeer.compiled import COMPILED

__all__ = ["HEAD_START", "split"]

if COMPILED and not TYPE_CHECKING:
    from rocketeer.client.core._received_split import split
