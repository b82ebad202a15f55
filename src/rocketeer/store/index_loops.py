"""The inner loops of the index, compiled or plain: keys of messages, new entries, the slots that lead to them."""

from typing import TYPE_CHECKING

from rocketeer.compiled import COMPILED
from rocketeer.store.index_loops_plain import (
    PAGE_BYTES,
    fill_slots,
    key_columns,
    link_entries,
    newest_in_slots,
)

__all__ = ["PAGE_BYTES", "fill_slots", "key_columns", "link_entries", "newest_in_slots"]

if COMPILED and not TYPE_CHECKING:
    from rocketeer.store._index_loops import fill_slots, key_columns, link_entries, newest_in_slots
