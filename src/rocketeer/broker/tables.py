"""Keeps the broker's tables on disk: read once at start, written whenever they changed.

Most tables speak of messages: how far a group has consumed, which transaction has ended. None of these may be on disk
ahead of the log: what it says at one moment is written when the disk has the log of that moment. One that says
nothing of messages is written at once: a topic that was created does not wait for a disk that has much to sync.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from rocketeer.broker.feature import PersistedTable
from rocketeer.broker.table_text import TableText
from rocketeer.errors import RocketeerError, StoreError
from rocketeer.model.offsets import LogOffset
from rocketeer.remoting.slices import in_slices
from rocketeer.steps import Steps
from rocketeer.store.table_file import load_table, save_table
from rocketeer.threads import finish_in_thread

log = logging.getLogger(__name__)


class SavedLog(Protocol):
    """What keeping tables asks of the store."""

    @property
    def max_log_offset(self) -> LogOffset: ...

    def when_durable(self, log_offset: LogOffset, callback: Callable[[bool], None]) -> None: ...


@runtime_checkable
class NotifiedWhenSaved(Protocol):
    """A table that wants to know that what it last encoded is on disk."""

    def saved(self) -> None: ...


@runtime_checkable
class SavableBeforeLog(Protocol):
    """A table that may be on disk before the log is, at least now."""

    def waits_for_log(self) -> bool: ...


@runtime_checkable
class LargeTable(Protocol):
    """A table whose text is made of pieces; what changed is made in steps, so that `encode` only joins them."""

    def refresh(self) -> Steps[None]: ...


@runtime_checkable
class EncodedInPieces(Protocol):
    """A table whose text is put together in steps."""

    def table_text(self) -> TableText: ...


@runtime_checkable
class SavedWithOthers(Protocol):
    """A table that says what is in the others at least: it is made before their texts are, and written when they are
    written, or with the next round."""

    saved_with_others: bool


class TableKeeper:
    """One file a table. Encoding happens on the loop (it is the tables' owner), writing in a thread."""

    def __init__(self, folder: Path, log: SavedLog) -> None:
        self._folder = folder
        self._log = log
        self._tables: list[PersistedTable] = []
        self._writing = asyncio.Lock()
        self._at_disk = asyncio.Lock()
        """Held while a file is written, never while the log is waited for."""
        self._unsaved: set[str] = set()
        """Names of the tables that could not be written to disk."""
        self._broken_off: set[str] = set()
        """What was to be written when something else failed, or was cancelled."""

    def add(self, tables: Iterable[PersistedTable]) -> None:
        """Keep these as well; before `load`."""
        self._tables.extend(tables)
        names = [table.file_name for table in self._tables]
        assert len(set(names)) == len(names), "two tables, one file"

    def load(self) -> None:
        """Read every table that has a file; one that cannot be understood stops the start, and stays as it is."""
        for table in self._tables:
            path = self._folder / table.file_name
            text = load_table(path)
            if text is None:
                continue
            try:
                table.decode(text)
            except RocketeerError as error:
                raise StoreError(f"{path} cannot be understood: {error}; repair it or move it away") from None

    async def saved_text(self, file_name: str) -> str | None:
        """A table as it was last saved; None if it never was."""
        return await asyncio.to_thread(load_table, self._folder / file_name)

    async def save_text(self, file_name: str, text: str) -> None:
        """Write a file of a table that is not kept here: on a slave it is the master's."""
        assert file_name not in [table.file_name for table in self._tables]
        path = self._folder / file_name
        try:
            await finish_in_thread(save_table, path, text)
        except OSError as error:  # a full disk: the master will tell it again
            log.error("table not saved path=%s error=%s", path, error)

    async def save_changed(self) -> None:
        """Write the tables that changed since they were last written; one that cannot be is tried again."""
        failures = await self._save_ahead()
        async with self._writing:
            tables = [each for each in self._tables if self._take_unsaved(each)]
            with self._taken(tables):
                failures += await self._save(tables)
        _raise_first(failures)

    async def save_ahead(self) -> None:
        """Write the changed tables that need not wait for the log."""
        _raise_first(await self._save_ahead())

    async def save_all(self) -> None:
        """Write every table, changed or not: the last thing at a clean stop."""
        async with self._writing:
            with self._taken(self._tables):
                for table in self._tables:
                    table.take_dirty()
                failures = await self._save(self._tables)
        _raise_first(failures)

    async def _save_ahead(self) -> list["_Failure"]:
        failures: list[_Failure] = []
        async with self._at_disk:
            for table in self._tables:
                if not _waits_for_log(table) and self._take_unsaved(table):
                    with self._taken([table]), self._trying(table, failures):
                        await self._write(table, _text(table))
        return failures

    async def _save(self, tables: Sequence[PersistedTable]) -> list["_Failure"]:
        """Save in their order, all after one wait for the log. One that fails keeps no other from being written: it
        may fail for ever, and at a stop there is no other time."""
        if not tables:
            return []
        failures: list[_Failure] = []
        texts: dict[str, str | TableText] = {}
        # First, and in the turn in which the tables were chosen: what changes from here on may be in no text.
        for table in tables:
            if isinstance(table, SavedWithOthers):
                with self._trying(table, failures):
                    texts[table.file_name] = _text(table)
        sound: list[PersistedTable] = []
        for table in tables:
            with self._trying(table, failures):
                if isinstance(table, LargeTable):
                    await in_slices(table.refresh())
                sound.append(table)
        for table in sound:
            if not isinstance(table, SavedWithOthers):
                with self._trying(table, failures):
                    texts[table.file_name] = _text(table)
        end = self._log.max_log_offset
        is_durable = await self._durable(end)
        async with self._at_disk:
            for table in sound:
                if table.file_name in texts:
                    if is_durable:
                        with self._trying(table, failures):
                            await self._write_behind_log(table, texts[table.file_name])
                    else:
                        self._not_saved(table, OSError(f"the disk does not have the log up to {end} yet"))
        return failures

    async def _write_behind_log(self, table: PersistedTable, text: str | TableText) -> None:
        others = (self._unsaved | self._broken_off) - {table.file_name}
        if isinstance(table, SavedWithOthers) and others:
            self._not_saved(table, OSError(f"{', '.join(sorted(others))} could not be saved"))
        else:
            # One that need not wait may have been saved meanwhile, with more in it.
            await self._write(table, text if _waits_for_log(table) else _text(table))

    async def _write(self, table: PersistedTable, text: str | TableText) -> None:
        told = text if isinstance(text, str) else await in_slices(text.joining())
        try:
            await finish_in_thread(save_table, self._folder / table.file_name, told)
        except OSError as error:  # a full disk: the next round may find room
            self._not_saved(table, error)
        else:
            self._saved(table)

    def _take_unsaved(self, table: PersistedTable) -> bool:
        name = table.file_name
        return table.take_dirty() or name in self._unsaved or name in self._broken_off

    @contextmanager
    def _taken(self, tables: Sequence[PersistedTable]) -> Iterator[None]:
        """Context in which these tables are written; on failure they count as changed again."""
        names = {table.file_name for table in tables}
        self._broken_off -= names
        try:
            yield
        except BaseException:
            self._broken_off |= names
            raise

    @contextmanager
    def _trying(self, table: PersistedTable, failures: list["_Failure"]) -> Iterator[None]:
        """Context that collects a table's failure instead of raising it; the next round tries the table again."""
        try:
            yield
        except Exception as error:
            failures.append(_Failure(self._folder / table.file_name, error))
            self._broken_off.add(table.file_name)

    def _not_saved(self, table: PersistedTable, error: OSError) -> None:
        if table.file_name not in self._unsaved:
            path = self._folder / table.file_name
            log.error("table not saved path=%s error=%s: tried again until it is", path, error)
        self._unsaved.add(table.file_name)

    def _saved(self, table: PersistedTable) -> None:
        if isinstance(table, NotifiedWhenSaved):
            table.saved()
        if table.file_name in self._unsaved:
            self._unsaved.discard(table.file_name)
            log.info("table saved at last path=%s", self._folder / table.file_name)

    async def _durable(self, end: LogOffset) -> bool:
        durable: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._log.when_durable(end, lambda ok: None if durable.done() else durable.set_result(ok))
        return await durable


class _Failure(NamedTuple):
    """An unexpected error (a bug, not a full disk) while a table was encoded or written."""

    path: Path
    error: Exception


def _raise_first(failures: Sequence[_Failure]) -> None:
    """Raise the first failure, if there is one, and log the others."""
    for path, error in failures[1:]:
        log.error("table not saved path=%s", path, exc_info=error)
    if failures:
        raise failures[0].error


def _text(table: PersistedTable) -> str | TableText:
    """The table's current text, in pieces if the table provides them."""
    return table.table_text() if isinstance(table, EncodedInPieces) else table.encode()


def _waits_for_log(table: PersistedTable) -> bool:
    return not isinstance(table, SavableBeforeLog) or table.waits_for_log()
