"""A table whose text is made of one entry for each name: what the tables of topics and of groups have in common."""

from collections.abc import Awaitable

from rocketeer.broker.table_text import TableReplies, TableText, joining_body, wants_packed
from rocketeer.clock import Clock
from rocketeer.model.data_version import DataVersion
from rocketeer.protocol.bodies.wire import EntriesBody
from rocketeer.protocol.command import Command, reply
from rocketeer.remoting.router import Connection, Handler
from rocketeer.steps import Steps


class EntriesTable:
    """Base of tables with one encoded entry for each name. Subclasses fill `_entries` and call `_note_change` after
    changes."""

    def __init__(self, clock: Clock, body: EntriesBody) -> None:
        self._clock = clock
        self._body = body
        self.version = DataVersion(clock.now_ms(), 0)
        self._entries: dict[str, bytes] = {}
        """What stands for each name in the file and in replies: of many only few change at a time."""
        self._dirty = False

    def _note_change(self) -> None:
        self.version = self.version.next(self._clock.now_ms())
        self._dirty = True

    def _text(self) -> TableText:
        begin, end = self._body.ends(self.version)
        return TableText(begin, list(self._entries.values()), b",", end)

    def encode(self) -> str:
        return self.table_text().whole().decode()

    def table_text(self) -> TableText:
        """The encoded table as pieces that are not joined yet."""
        return self._text()

    def reply_body(self, *, any_size: bool = False) -> Steps[bytes]:
        """The body of a reply, in steps; FrameTooLarge for what no frame can carry, unless it may have `any_size`."""
        return joining_body(self._text(), any_size=any_size)

    def take_dirty(self) -> bool:
        """True when something changed since the last call."""
        dirty, self._dirty = self._dirty, False
        return dirty


def list_handler(table: EntriesTable) -> Handler:
    """Make a handler that answers with the whole table."""
    replies = TableReplies()

    def list_all(command: Command, connection: Connection) -> Command | Awaitable[Command]:
        def steps() -> Steps[Command]:
            return reply(command, body=(yield from table.reply_body(any_size=wants_packed(command))))

        return replies.run(steps(), len(table._entries))

    return list_all
