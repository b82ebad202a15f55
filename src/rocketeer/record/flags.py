"""The bits of a message's system flag, set by clients and broker, stored with every record."""

from enum import IntEnum
from typing import Final

COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2
TX_PREPARED: Final = 0x4
TX_COMMIT: Final = 0x8
TX_ROLLBACK: Final = 0xC
TX_MASK: Final = 0xC
BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20
HOSTS_V6: Final = BORN_HOST_V6 | STORE_HOST_V6
COMPRESSION_MASK: Final = 0x700


class Compression(IntEnum):
    """How a body is packed: bits 8-10 of the system flag, beside COMPRESSED. Old senders leave 0: zlib."""

    LZ4 = 0x100
    ZSTD = 0x200
    ZLIB = 0x300

    @property
    def sys_flag(self) -> int:
        """The bits a sender sets."""
        return COMPRESSED | self.value


def tx_state(sys_flag: int) -> int:
    """0, TX_PREPARED, TX_COMMIT or TX_ROLLBACK."""
    return sys_flag & TX_MASK


def with_tx_state(sys_flag: int, state: int) -> int:
    """The flag with its transaction bits replaced."""
    return (sys_flag & ~TX_MASK) | state
