from typing import Protocol

from rocketeer.store.known_ids import KnownIds

class StoredIds(Protocol):
    ids: KnownIds
    changed: bool

class SendIds:
    batch_messages_max: int
    def __init__(self, stored: StoredIds, batch_messages_max: int) -> None: ...
