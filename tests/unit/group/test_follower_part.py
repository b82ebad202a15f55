"""What a follower answers without its leader: only what is confirmed is kept for sure."""

from pathlib import Path

import pytest

from rocketeer.broker.features.group.follower import FollowerReplication
from rocketeer.broker.features.idempotence.resends import Idempotence, IdempotenceLimits
from rocketeer.broker.writer import Writer, WriteResult
from rocketeer.errors import OUTCOME_UNKNOWN, StoreRefused
from rocketeer.observe.counters import Counters
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.layout import PendingMessage
from rocketeer.record.properties import encode_properties
from support.stores import make_bounded_store, message


def numbered(number: int) -> PendingMessage:
    sent = message(b"%d" % number)
    sent.properties = encode_properties({"PRODUCER_ID": "p", "PRODUCER_SEQ": str(number)})
    return sent


@pytest.mark.parametrize(
    ("confirmed", "code"),
    [(0, ResponseCode.SYSTEM_ERROR), (1, ResponseCode.SUCCESS)],
    ids=["tail", "confirmed"],
)
def test_a_resend_of_what_may_be_cut_has_an_unknown_outcome(
    tmp_path: Path, confirmed: int, code: int
) -> None:
    """A fallen leader that came back answered with the place of a message that it cut a second later."""
    store, bound = make_bounded_store(tmp_path)
    store.open()
    table = Idempotence(IdempotenceLimits(), store, salt=bytes(16))
    writer = Writer(
        store,
        message_bytes_max=store.config.message_bytes_max,
        counters=Counters(),
        resends=[table.examining],
    )
    outcome: list[WriteResult] = []
    writer.put(numbered(0), outcome.append)  # as a leader, which fell before it was confirmed
    assert outcome[0].code == ResponseCode.SUCCESS
    end = outcome[0].appended[0].end
    part = FollowerReplication(store, bound, confirmed=end if confirmed else 0)
    writer = Writer(
        store,
        message_bytes_max=store.config.message_bytes_max,
        counters=Counters(),
        resends=[table.examining],
        durability=part.feature().durability,
    )
    store.refuse("group", StoreRefused(StoreRefused.NOT_WRITABLE, "it follows"))
    writer.put(numbered(0), outcome.append)
    assert outcome[1].code == code
    assert outcome[1].remark == (None if code == ResponseCode.SUCCESS else OUTCOME_UNKNOWN)
    writer.put(numbered(1), outcome.append)
    assert outcome[2].code == ResponseCode.SERVICE_NOT_AVAILABLE
    store.close()
