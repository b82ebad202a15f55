"""What is stored of a sent message's properties, whether a feature looks at them or none does."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rocketeer.broker.plain_properties import PlainParser
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.record.properties import rejoin_properties
from support.broker import broker_at
from support.clock import ManualClock

PARSER = PlainParser("C", ("DELAY",))
NAMES = st.sampled_from(["KEYS", "TAGS", "u", "größe", "", "WAIT"])
VALUES = st.sampled_from(["v", "k1 k2", "true", "FALSE", "", "a\x01b", "ü"])


@given(st.dictionaries(NAMES, VALUES))
def test_both_ways_store_the_same_but_for_wait(sent: dict[str, str]) -> None:
    """RocketMQ stores WAIT with messages that it changes before it stores them, and with no others."""
    text = "\x02".join(f"{name}\x01{value}" for name, value in sent.items())
    plain = PARSER.parse(text)
    assert plain is not None
    stored, waits = plain
    properties, decoded_waits = PARSER.decode(text)
    assert waits == decoded_waits
    properties.pop("WAIT", None)
    assert stored.rstrip(b"\x02") == rejoin_properties(properties).rstrip(b"\x02")


def test_what_a_feature_claims_is_decoded_with_wait() -> None:
    text = "KEYS\x01k\x02WAIT\x01false\x02DELAY\x012"
    assert PARSER.parse(text) is None
    assert PARSER.decode(text) == ({"KEYS": "k", "WAIT": "false", "DELAY": "2", "CLUSTER": "C"}, False)


async def test_a_value_with_a_separator_of_names_waits_and_goes_back_as_it_is(tmp_path: Path) -> None:
    """RocketMQ reads no more than the first as a separator: such a message could neither be delayed nor go back."""
    said = "u\x01a\x01b"
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        assert (
            await broker.send("T", b"later", properties=f"{said}\x02DELAY\x011")
        ).code == ResponseCode.SUCCESS
        assert (await broker.send("T", b"fails", properties=said)).code == ResponseCode.SUCCESS
        (failed,) = await broker.messages("T", 0)
        assert failed.properties_dict()["u"] == "a\x01b"
        header = {
            "offset": failed.log_offset, "group": "G", "delayLevel": 0, "originMsgId": "x", "originTopic": "T",
            "unitMode": "false", "maxReconsumeTimes": 16,
        }  # fmt: skip
        answer = await broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
