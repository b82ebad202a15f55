"""Stored messages next to each other, as a log or the body of a pull's reply has them."""

from collections.abc import Iterator

from rocketeer.record.compression import decompress
from rocketeer.record.layout import Buffer, StoredMessage, decode_record


def split_records(buf: Buffer, check_crc: bool = True) -> Iterator[StoredMessage]:
    """The records, one behind the other."""
    at = 0
    while at < len(buf):
        message = decode_record(buf, at, check_crc)
        yield message
        at += message.size


def sent_body(message: StoredMessage) -> bytes:
    """As the sender had it: decompressed when its flag says so."""
    return decompress(message.body, message.sys_flag)
