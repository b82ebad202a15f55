"""Message properties as text and bytes, stored and sent alike: name \\x01 value \\x02 name \\x01 value.

A \\x02 at the end may be there (old clients send it) or not. A piece without \\x01, without a name or without
a value is ignored, and of two with one name the last counts: RocketMQ reads them so.
"""

from collections.abc import Mapping
from typing import Final

from rocketeer.model.property_names import ARRIVE_TIME as ARRIVE_TIME
from rocketeer.model.property_names import BUYER_ID as BUYER_ID
from rocketeer.model.property_names import CHECK_IMMUNITY_TIME_IN_SECONDS as CHECK_IMMUNITY_TIME_IN_SECONDS
from rocketeer.model.property_names import CLUSTER as CLUSTER
from rocketeer.model.property_names import CONSUME_START_TIME as CONSUME_START_TIME
from rocketeer.model.property_names import CORRECTION_FLAG as CORRECTION_FLAG
from rocketeer.model.property_names import CORRELATION_ID as CORRELATION_ID
from rocketeer.model.property_names import DELAY as DELAY
from rocketeer.model.property_names import INNER_MULTI_DISPATCH as INNER_MULTI_DISPATCH
from rocketeer.model.property_names import INNER_MULTI_QUEUE_OFFSET as INNER_MULTI_QUEUE_OFFSET
from rocketeer.model.property_names import INSTANCE_ID as INSTANCE_ID
from rocketeer.model.property_names import KEY_SEPARATOR as KEY_SEPARATOR
from rocketeer.model.property_names import KEYS as KEYS
from rocketeer.model.property_names import MAX_OFFSET as MAX_OFFSET
from rocketeer.model.property_names import MAX_RECONSUME_TIMES as MAX_RECONSUME_TIMES
from rocketeer.model.property_names import MIN_OFFSET as MIN_OFFSET
from rocketeer.model.property_names import MQ2_FLAG as MQ2_FLAG
from rocketeer.model.property_names import MSG_REGION as MSG_REGION
from rocketeer.model.property_names import MSG_TYPE as MSG_TYPE
from rocketeer.model.property_names import ORIGIN_MESSAGE_ID as ORIGIN_MESSAGE_ID
from rocketeer.model.property_names import PGROUP as PGROUP
from rocketeer.model.property_names import PUSH_REPLY_TIME as PUSH_REPLY_TIME
from rocketeer.model.property_names import REAL_QID as REAL_QID
from rocketeer.model.property_names import REAL_TOPIC as REAL_TOPIC
from rocketeer.model.property_names import RECONSUME_TIME as RECONSUME_TIME
from rocketeer.model.property_names import REPLY_TO_CLIENT as REPLY_TO_CLIENT
from rocketeer.model.property_names import RESERVED as RESERVED
from rocketeer.model.property_names import RETRY_TOPIC as RETRY_TOPIC
from rocketeer.model.property_names import SHARDING_KEY as SHARDING_KEY
from rocketeer.model.property_names import TAGS as TAGS
from rocketeer.model.property_names import TRACE_ON as TRACE_ON
from rocketeer.model.property_names import TRAN_MSG as TRAN_MSG
from rocketeer.model.property_names import TRAN_PREPARED_QUEUE_OFFSET as TRAN_PREPARED_QUEUE_OFFSET
from rocketeer.model.property_names import TRANSACTION_CHECK_TIMES as TRANSACTION_CHECK_TIMES
from rocketeer.model.property_names import TRANSFER_FLAG as TRANSFER_FLAG
from rocketeer.model.property_names import TTL as TTL
from rocketeer.model.property_names import UNIQ_KEY as UNIQ_KEY
from rocketeer.model.property_names import WAIT as WAIT

NAME_END: Final = b"\x01"
PROPERTY_END: Final = b"\x02"
PROPERTIES_BYTES_MAX: Final = 32767  # the length is stored as i16


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The bytes, without a \\x02 at the end.

    >>> encode_properties({"TAGS": "a", "KEYS": "k1 k2"})
    b'TAGS\\x01a\\x02KEYS\\x01k1 k2'
    """
    text = "\x02".join([f"{name}\x01{value}" for name, value in properties.items()])
    if text.count("\x01") != len(properties) or text.count("\x02") != max(len(properties) - 1, 0):
        for pair in properties.items():
            if any(separator in part for part in pair for separator in "\x01\x02"):
                raise ValueError(f"property {pair[0]!r} holds \\x01 or \\x02, which separate properties")
    return text.encode("utf-8", "replace")


def decode_properties(raw: bytes) -> dict[str, str]:
    """Every well-formed property; never fails, whatever the bytes."""
    found = {}
    for piece in raw.decode("utf-8", "replace").split("\x02"):
        name, _, value = piece.partition("\x01")
        if name and value:
            found[name] = value
    return found


def find_property(raw: bytes, name: bytes) -> bytes | None:
    """One value without decoding the others: what `decode_properties` would give, as bytes."""
    needle = b"\x02" + name + b"\x01"
    end = len(raw)
    while (at := raw.rfind(needle, 0, end)) >= 0:
        value_at = at + len(needle)
        value_end = raw.find(b"\x02", value_at)
        value = raw[value_at : value_end if value_end >= 0 else len(raw)]
        if value:
            return value
        end = at + 1  # an empty value counts as absent; the \x02 at `at` may end an earlier one
    if raw.startswith(needle[1:]):
        value_end = raw.find(b"\x02")
        return raw[len(needle) - 1 : value_end if value_end >= 0 else len(raw)] or None
    return None
