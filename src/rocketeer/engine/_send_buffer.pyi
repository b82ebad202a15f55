from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from rocketeer.engine._access import SendAccess
from rocketeer.engine._properties import PropertyRules
from rocketeer.engine._replies import Later, ReplyFormat
from rocketeer.engine._send_ids import SendIds
from rocketeer.model.offsets import LogOffset
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.dispatch import Dispatch

class SendPeer(Protocol):
    remote_host: bytes

class Limits(Protocol):
    @property
    def message_bytes_max(self) -> int: ...
    @property
    def batch_messages_max(self) -> int: ...
    @property
    def batch_keys_max(self) -> int: ...

P = TypeVar("P", bound=SendPeer)

class SendBuffer(Generic[P]):
    def __init__(
        self,
        *,
        queues_of: Callable[[str], int | None],
        log: CommitLog,
        dispatch: Dispatch,
        rules: PropertyRules,
        replies: ReplyFormat,
        store_host: bytes,
        limits: Limits,
        header_bytes_max: int,
        on_first: Callable[[], object],
        on_full: Callable[[], object],
        access: SendAccess | None = None,
        ids: SendIds | None = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    def enable(self, enabled: bool) -> None: ...
    def forget_queues(self) -> None: ...
    def read(self, data: bytes, peer: P) -> int: ...
    def append(
        self, now_ms: int, waits: bool
    ) -> tuple[LogOffset, list[tuple[P, bytes | None, list[Later] | None]]]: ...
    def discard(self) -> list[tuple[P, bytes]]: ...
