"""Sends that share a request, compiled or plain: each has a place in flight, a batch to join, its own outcome."""

from typing import TYPE_CHECKING

from rocketeer.client.aio.shared_send_plain import (
    Batch,
    JoinRule,
    SharedSend,
    SharedSends,
    Waiter,
    any_done,
    finish,
)
from rocketeer.compiled import COMPILED

__all__ = ["Batch", "JoinRule", "SharedSend", "SharedSends", "Waiter", "any_done", "finish"]

if COMPILED and not TYPE_CHECKING:
    from rocketeer.client.aio._shared_send import (
        Batch,
        JoinRule,
        SharedSend,
        SharedSends,
        any_done,
        finish,
    )
