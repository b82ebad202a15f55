"""A table whose text is made of one entry for each name: what the tables of topics and of groups have in common."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable

from rocketeer.broker.table_text import TableText, Telling, joining_body, wants_packed
from rocketeer.clock import Clock
from rocketeer.model.data_version import DataVersion
from rocketeer.protocol.command import Command, reply
from rocketeer.remoting.router import Connection, Handler
from rocketeer.steps import Steps


class EntriesTable(ABC):
    """Who extends it keeps `_entries`, the text of each name, and calls `_note_change` after every change."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.version = DataVersion(clock.now_ms(), 0)
        self._entries: dict[str, bytes] = {}
        """What stands for each name in the file and in replies: of many only few change at a time."""
        self._dirty = False

    @abstractmethod
    def _ends(self) -> tuple[bytes, bytes]:
        """What stands before and behind the entries."""

    def _note_change(self) -> None:
        self.version = self.version.next(self._clock.now_ms())
        self._dirty = True

    def _text(self) -> TableText:
        begin, end = self._ends()
        return TableText(begin, list(self._entries.values()), b",", end)

    def encode(self) -> str:
        return self.told().whole().decode()

    def told(self) -> TableText:
        """As `encode`, yet to be put together."""
        return self._text()

    def telling(self, *, any_size: bool = False) -> Steps[bytes]:
        """The body of a reply, in steps; FrameTooLarge for what no frame can carry, unless it may have `any_size`."""
        return joining_body(self._text(), any_size=any_size)

    def take_dirty(self) -> bool:
        """True when something changed since the last call."""
        dirty, self._dirty = self._dirty, False
        return dirty


def list_handler(table: EntriesTable) -> Handler:
    """Answers with all of the table."""
    telling = Telling()

    def list_all(command: Command, connection: Connection) -> Command | Awaitable[Command]:
        def steps() -> Steps[Command]:
            return reply(command, body=(yield from table.telling(any_size=wants_packed(command))))

        return telling.run(steps(), len(table._entries))

    return list_all
