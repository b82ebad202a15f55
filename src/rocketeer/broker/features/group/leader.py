"""A leader's part: sends wait for every in-sync member; what could not be kept is refused before the append."""

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from typing import Final

from rocketeer.broker.feature import Feature, Periodic, Replay
from rocketeer.errors import RequestRefused, StoreRefused
from rocketeer.group.in_sync import ConfirmOutcome
from rocketeer.group.leadership import TICK_S, Leadership
from rocketeer.model.offsets import LogOffset
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.record.skip import SkipFilter
from rocketeer.remoting.router import Connection, Handler
from rocketeer.store.confirmed import ConfirmedBound
from rocketeer.store.message_store import MessageStore

AGAIN_S: Final = 0.1
NOT_YET: Final = StoreRefused(StoreRefused.NOT_WRITABLE, "this member does not lead its group yet")

_CODES: Final = {
    ConfirmOutcome.CONFIRMED: ResponseCode.SUCCESS,
    ConfirmOutcome.UNKNOWN: ResponseCode.SYSTEM_ERROR,
}


class LeaderReplication:
    """Connects the store with the group's leadership: refuses sends before it begins, confirms them while it
    lasts."""

    def __init__(
        self, store: MessageStore, bound: ConfirmedBound, *, flushes: bool, confirmed: LogOffset
    ) -> None:
        self._store = store
        self._bound = bound
        self._flushes = flushes
        self._known_confirmed = confirmed
        self._leadership: Leadership | None = None
        store.refuse("group", NOT_YET)
        store.on_grown.append(self._log_grew)

    def feature(self) -> Feature:
        return Feature(
            "leader of a group",
            durability=(self.when_confirmed,),
            replays=(
                Replay(lambda: self._store.max_log_offset, lambda entry: None, self._bind, SkipFilter()),
            ),
            services=(Periodic("group", TICK_S, self._tick),),
        )

    def lead(self, leadership: Leadership) -> None:
        """From now on sends may be taken, if enough members are in sync."""
        self._leadership = leadership
        leadership.count.on_advanced.append(self._bound.advance)
        leadership.on_enough.append(self._admit)
        self._bound.advance(leadership.count.confirmed)
        self._log_grew()
        self._admit()

    @property
    def confirmed(self) -> LogOffset:
        return self._known_confirmed if self._leadership is None else self._leadership.count.confirmed

    @property
    def is_current(self) -> bool:
        """Whether nobody else can lead: also while we are about to begin."""
        return self._leadership is None or self._leadership.is_valid

    def stop_sends(self) -> None:
        """Refuse every append from now on: this member no longer leads."""
        self._store.refuse(
            "group", StoreRefused(StoreRefused.NOT_WRITABLE, "this member leads its group no longer")
        )

    def resume_sends(self) -> None:
        """Accept sends again: the hand-over to another leader did not happen."""
        self._admit()

    def confirmed_answer(self, handler: Handler) -> Handler:
        """For answers that speak of the log's end: given when all that is there is confirmed, and cannot be cut."""

        async def told(command: Command, connection: Connection) -> Command | None:
            found = handler(command, connection)
            answer = await found if isawaitable(found) else found
            if self._leadership is None or not self._leadership.count.is_enough:
                raise RequestRefused(ResponseCode.SERVICE_NOT_AVAILABLE, "too few members are in sync")
            waited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            self.when_confirmed(
                self._store.max_log_offset, lambda code: None if waited.done() else waited.set_result(code)
            )
            if await waited != ResponseCode.SUCCESS:
                raise RequestRefused(ResponseCode.SERVICE_NOT_AVAILABLE, "this member leads no longer")
            return answer

        return told

    # --- inside ------------------------------------------------------------------------------

    def _bind(self) -> None:
        """Limit reads to what was confirmed before the start; the rest becomes readable when it is confirmed."""
        self._bound.limit = min(self._known_confirmed, self._store.max_log_offset)

    def _admit(self) -> None:
        leadership = self._leadership
        assert leadership is not None
        refusal = None
        if leadership.loss is not None:
            refusal = StoreRefused(
                StoreRefused.NOT_WRITABLE, f"this member leads no longer: {leadership.loss}"
            )
        elif not leadership.count.is_enough:
            refusal = StoreRefused(
                StoreRefused.NOT_WRITABLE,
                f"too few members are in sync: {leadership.count.smallest}, and groupMinInSync is "
                f"{leadership.count.min_in_sync}",
            )
        self._store.refuse("group", refusal)

    def _tick(self) -> None:
        leadership = self._leadership
        if leadership is None:
            return
        leadership.tick()
        if leadership.loss is not None:
            self._admit()

    def _log_grew(self) -> None:
        leadership = self._leadership
        if leadership is None:
            return
        leadership.log_grew()
        end = self._store.max_log_offset
        if self._flushes:
            self._store.when_durable(end, lambda durable: self._flushed(end, durable))
        else:
            leadership.note_progress(end)

    def _flushed(self, end: LogOffset, durable: bool) -> None:
        if durable and self._leadership is not None:
            self._leadership.note_progress(end)
        elif self._store.failure is None:  # slow: it is asked again until the disk has it or has failed
            asyncio.get_running_loop().call_later(AGAIN_S, self._log_grew)

    def when_confirmed(self, end: LogOffset, done: Callable[[int], None]) -> None:
        leadership = self._leadership
        if leadership is None:
            done(ResponseCode.SYSTEM_ERROR)
            return
        leadership.count.wait(end, lambda outcome: done(_CODES[outcome]))
