"""What a member remembers of its group: <store>/group/member.json, on disk before anybody acts on it.

The store's id is made with the store: a folder that was emptied or replaced is another incarnation. Under ASYNC_FLUSH
the kernel's boot belongs to it as well: what a machine had in memory only is gone when it comes back.
"""

import logging
import secrets
from pathlib import Path
from threading import RLock
from typing import Final

import msgspec

from rocketeer.config import FlushMode
from rocketeer.errors import GroupError
from rocketeer.group.epochs import within
from rocketeer.group.state import GroupState, MemberIdentity
from rocketeer.model.offsets import LogOffset
from rocketeer.store.table_file import load_table, save_table

log = logging.getLogger(__name__)

FOLDER: Final = "group"
FILE_NAME: Final = "member.json"
CONFIRMED_NAME: Final = "confirmed"
NOWHERE: Final = LogOffset(1 << 62)
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class MemberState(msgspec.Struct, frozen=True):
    store: str
    """The store's id."""
    group: str = ""
    """Id of the group, of its record in etcd; "" before the first."""
    epoch: int = 0
    """The highest seen: nobody of a lower one is obeyed."""
    version: int = 0
    epochs: list[tuple[int, LogOffset]] = []
    damaged_from: LogOffset = NOWHERE
    """From here on the log may not be what its leaders wrote: it is cut there before the next one is followed."""


class MemberFile:
    """Every method that changes something returns when the disk has it; blocks, some milliseconds.

    Threads may call it: what came first is on disk first.
    """

    def __init__(self, store_path: Path) -> None:
        self._lock = RLock()
        self._folder = store_path / FOLDER
        self._path = self._folder / FILE_NAME
        text = load_table(self._path)
        if text is None:
            if self._path.exists():
                raise GroupError(
                    f"{self._path} cannot be read: start this member with an empty store, or restore the file"
                )
            self.now = MemberState(store=secrets.token_hex(8))
            self._save(self.now)
        else:
            try:
                self.now = msgspec.json.decode(text, type=MemberState)
            except msgspec.MsgspecError as error:
                raise GroupError(f"{self._path} cannot be understood: {error}") from None

    def incarnation(self, mode: FlushMode) -> str:
        """Who we are as long as nothing that we acknowledged can have been lost here."""
        if mode is FlushMode.SYNC_FLUSH:
            return self.now.store
        return f"{self.now.store}/{BOOT_ID.read_text().strip()}"

    def check(self, state: GroupState) -> None:
        """GroupError when the record cannot be the one we have followed so far."""
        now = self.now
        if now.group and state.group != now.group:
            raise GroupError(
                f"etcd has the group {state.group}, and this store belongs to the group {now.group}: "
                "etcd was emptied, or is another one. Restore etcd, or start this member with an empty store"
            )
        if (state.epoch, state.version) < (now.epoch, now.version):
            raise GroupError(
                f"etcd's record is of epoch {state.epoch}, version {state.version}, and this member has seen epoch "
                f"{now.epoch}, version {now.version}: etcd was set back. Restore its newest state"
            )

    def save_record(self, state: GroupState) -> None:
        """Make the record's epoch and version durable, if they are news."""
        with self._lock:
            self.check(state)
            now = self.now
            if (state.group, state.epoch, state.version) != (now.group, now.epoch, now.version):
                self._replace(group=state.group, epoch=state.epoch, version=state.version)

    def set_epochs(self, epochs: list[tuple[int, LogOffset]]) -> None:
        """Save the epochs of our log: the leader's that we follow, or our own as the leader."""
        if epochs != self.now.epochs or self.now.damaged_from != NOWHERE:
            self._replace(epochs=epochs, damaged_from=NOWHERE)

    def save_cut(self, end: LogOffset) -> None:
        """Save that the log was cut at `end`, after it was cut on disk."""
        sound = NOWHERE if end <= self.now.damaged_from else self.now.damaged_from
        self._replace(epochs=within(self.now.epochs, end), damaged_from=sound)
        self.lower_confirmed(end)

    def renew_store_id(self) -> None:
        """Take a new store id: this disk failed or lost data, so the member returns as a new one."""
        self._replace(store=secrets.token_hex(8))

    def save_damage(self, offset: LogOffset) -> None:
        """The log has lost what stood there: another incarnation, and nobody's copy from there on."""
        with self._lock:
            if offset < self.now.damaged_from:
                self._replace(store=secrets.token_hex(8), damaged_from=offset)

    def _replace(self, **changes: object) -> None:
        with self._lock:
            now = msgspec.structs.replace(self.now, **changes)
            self._save(now)
            self.now = now

    def _save(self, now: MemberState) -> None:
        save_table(self._path, msgspec.json.encode(now).decode())

    # --- how far all was confirmed -----------------------------------------------------------

    def load_confirmed(self) -> LogOffset:
        """What is known to have been confirmed at the least; 0 when nothing is."""
        try:
            return LogOffset(int((self._folder / CONFIRMED_NAME).read_text()))
        except (OSError, ValueError):
            return LogOffset(0)

    def save_confirmed(self, confirmed: LogOffset) -> None:
        """Save the confirmed offset, without sync: an older value after a crash is harmless."""
        temporary = self._folder / f"{CONFIRMED_NAME}.tmp"
        temporary.write_text(str(confirmed))
        temporary.replace(self._folder / CONFIRMED_NAME)

    def lower_confirmed(self, log_end: LogOffset) -> None:
        """What the log lost (a person accepted that) is not confirmed when others stand in its place."""
        if self.load_confirmed() > log_end:
            self.save_confirmed(log_end)


class OwnIdentity:
    """Who this member is now. Belongs to the loop thread."""

    def __init__(self, file: MemberFile, member_id: int, flush_mode: FlushMode) -> None:
        self._file = file
        self._member_id = member_id
        self._flush_mode = flush_mode
        self.now = self._made()

    def _made(self) -> MemberIdentity:
        incarnation = self._file.incarnation(self._flush_mode)
        return MemberIdentity(self._member_id, incarnation, secrets.token_hex(8))

    @property
    def is_outdated(self) -> bool:
        """Whether the store has become another one since."""
        return self._file.incarnation(self._flush_mode) != self.now.incarnation

    def renew(self) -> bool:
        """Whether the log was found damaged as the store opened. Then this member has a new incarnation: it is no
        longer the one that the record calls in sync, or leader."""
        if not self.is_outdated:
            return False
        log.critical("another incarnation: the log has lost something, and is copied again")
        self.now = self._made()
        return True
