"""Cutting a member's log, with all that was made from what is cut: safe at every instant of a crash.

    tables that speak of places in the log, the timers' snapshot     gone: made from the log again
    the position of the shared tables                                no further than the cut, and not whole
    the log's end                                                    `store/cutting.py`
    the list of epochs, and that the log was damaged                 the bytes are gone before it says so

Whatever is derived goes first: were it found beside a log that was cut and has grown since, it would be believed.
"""

from typing import Final

from rocketeer.broker.features.group.table_position import Position, position_text, read_position
from rocketeer.broker.features.idempotence.snapshot import FILE_NAME as PRODUCERS_FILE
from rocketeer.broker.followed_tables import COPIED_FILES
from rocketeer.config import StoreConfig
from rocketeer.group.member_file import MemberFile
from rocketeer.model.offsets import LogOffset
from rocketeer.store.cutting import cut_store
from rocketeer.store.kernel import sync_folder
from rocketeer.store.table_file import save_table

LOG_TABLES: Final = (*COPIED_FILES, PRODUCERS_FILE)
"""Made from the log where they are missing.

The consumers' offsets are not among them: what was committed and confirmed may be nowhere else on this member, which
may be elected before its leader told it all tables again. A commit that was cut may stay: its outcome is unknown."""


def cut_member(config: StoreConfig, file: MemberFile, end: LogOffset) -> None:
    """Cut this member's log at `end`; durable on return. Blocks on the disk."""
    timers = config.store_path / "timer" / "pending"
    if timers.exists():
        timers.unlink()
        sync_folder(str(timers.parent))
    path = config.store_path / "config" / Position.file_name
    known = read_position(path)
    if known is not None:  # without one the whole log is looked at
        save_table(path, position_text(min(known, end), whole=False))
    cut_store(config, end, tables=LOG_TABLES)
    file.save_cut(end)
