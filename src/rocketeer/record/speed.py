"""The inner steps of sending: compiled where a C compiler was at hand when this was installed, else plain Python.

`rocketeer.compiled` says which it is.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rocketeer.compiled import COMPILED
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.speed_plain import PlainProperties as PlainProperties
from rocketeer.record.speed_plain import (
    QueueTail,
    find_marks,
    gather_records,
    plain_properties,
    run_bounds,
    split_batch,
    write_run,
)
from rocketeer.record.speed_plain import Row as Row

if TYPE_CHECKING:
    from rocketeer.record import _run

__all__ = [
    "Lane",
    "QueueTail",
    "SendRuns",
    "find_marks",
    "gather_records",
    "key_columns",
    "lay_out",
    "plain_properties",
    "read_send",
    "reply_frames",
    "run_bounds",
    "split_batch",
    "split_frames",
    "write_run",
]

key_columns: Callable[[list[DispatchEntry]], tuple[bytes, bytes, bytes]] | None = None
"""Only compiled: its plain twin, for the store alone, stands in `store.index_slice`."""

SendFields = tuple[int, int, str, int, int, int, int, int, PlainProperties]
read_send: Callable[[bytes, frozenset[str], str], SendFields | None] | None = None
"""Only compiled: its twin is the typed decoder of `broker.fast_path`."""

reply_frames: Callable[[tuple[bytes, ...], list[tuple[int, int, int, int]]], bytes] | None = None
"""Only compiled: its twin is `protocol.reply_template`."""

split_frames: Callable[[bytes, int], tuple[list[tuple[int, bytes, bytes]], int]] | None = None
"""Only compiled: its twin is the loop of `protocol.frame`."""

Layout = tuple[list[Any], list[bytes], list[int], list[int], dict[Any, int], int]
lay_out: Callable[[list[Row], dict[tuple[str, int], Any], int], Layout | None] | None = None
"""Only compiled: its twin is the loop of `store.append`."""

Lane: "type[_run.Lane] | None" = None
SendRuns: "type[_run.SendRuns[Any]] | None" = None
"""Only compiled: does for a whole run what `broker.fast_path` and `store.append` do message by message."""

if COMPILED and not TYPE_CHECKING:
    from rocketeer.record._run import Lane, QueueTail, SendRuns
    from rocketeer.record._speed import (
        find_marks,
        gather_records,
        key_columns,
        lay_out,
        plain_properties,
        read_send,
        reply_frames,
        run_bounds,
        split_batch,
        split_frames,
        write_run,
    )
