"""Every option is typed, and what is wrong with one is said by name."""

import pytest

from rocketeer.errors import ConfigError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.option_fields import option_names
from rocketeer.spark.source.options import SourceOptions, parse_options

GIVEN = {"nameserver": "127.0.0.1:9876", "subscribe": "Orders"}


def test_options_are_typed_and_their_case_does_not_matter() -> None:
    options = parse_options(
        {
            **GIVEN,
            "STARTINGOFFSETS": '{"Orders": {"broker-a": {"0": 7, "1": -2}}}',
            "maxTriggerDelay": "10s",
            "maxBytesPerTrigger": "64mb",
            "failondataloss": "false",
        },
        streaming=True,
    )
    assert options.starting_offsets == {
        MessageQueue("Orders", "broker-a", 0): 7,
        MessageQueue("Orders", "broker-a", 1): -2,
    }
    assert options.max_trigger_delay_ms == 10_000
    assert options.max_bytes_per_trigger == 64 << 20
    assert not options.fail_on_data_loss


@pytest.mark.parametrize(
    ("given", "streaming", "said"),
    [
        ({"topik": "x"}, False, "option 'topik' is unknown"),
        ({"subscribePattern": "a"}, False, "exactly one of"),
        ({"storePath": "/x"}, False, "both are there"),
        ({"tags": "a", "sql": "b = 1"}, False, "exclude each other"),
        ({"tags": "||"}, False, "'tags'"),
        ({"startingOffsets": "soon"}, True, "'startingOffsets' is 'soon'"),
        ({"startingOffsets": "latest"}, False, "cannot be latest"),
        ({"startingOffsets": '{"Orders": {"broker-a": {"0": -1}}}'}, False, "cannot be latest"),
        ({"startingOffsets": '{"Orders": {"0": 5}}'}, True, "broker '0' is 5, not a JSON object"),
        ({"startingOffsets": "{nonsense"}, True, "is not JSON"),
        ({"startingOffsets": '{"Orders": {"broker-a": {"x": 5}}}'}, True, "queue id 'x'"),
        ({"startingOffsets": '{"Orders": {"broker-a": {"0": "5"}}}'}, True, "'5' for queue 0"),
        ({"endingOffsets": "earliest"}, False, "'endingOffsets' cannot be 'earliest'"),
        ({"endingOffsets": '{"Orders": {"broker-a": {"0": -2}}}'}, False, "-2 for queue 0"),
        ({"endingOffsets": "latest"}, True, "'endingOffsets' is for batches"),
        ({"maxOffsetsPerTrigger": "10"}, False, "'maxOffsetsPerTrigger' is for streams"),
        ({"group": "G"}, False, "'group' is for streams"),
        ({"prefetchRecords": "5"}, False, "'prefetchRecords' is for streams"),
        ({"maxOffsetsPerTrigger": "0"}, True, "'maxOffsetsPerTrigger' is '0'"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, True, "is above 'maxOffsetsPerTrigger'"),
        ({"maxTriggerDelay": "soon"}, True, "'maxTriggerDelay' is 'soon'"),
        ({"maxBytesPerTrigger": "1x"}, True, "'maxBytesPerTrigger' is '1x'"),
        ({"minPartitions": "-1"}, False, "'minPartitions' is '-1'"),
        ({"failOnDataLoss": "maybe"}, False, "'failOnDataLoss' is 'maybe'"),
        ({"startingTimestamp": "yesterday"}, False, "'startingTimestamp' is 'yesterday'"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, False, "write error or latest"),
        ({"fetchTimeout": ""}, False, "'fetchTimeout'"),
        ({"fetchRetries": "3"}, False, "fetchTimeout says how long"),
        (
            {"startingoffset": "earliest"},
            False,
            "unknown to the source (did you mean startingOffsets?); it knows",
        ),
        (
            {"kafka.bootstrap.servers": "x"},
            False,
            "'kafka.bootstrap.servers' is unknown to the source; it knows",
        ),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], streaming: bool, said: str) -> None:
    with pytest.raises(ConfigError) as failure:
        parse_options({**GIVEN, **given}, streaming=streaming)
    assert said in str(failure.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": "A"}, "nameserver"),
        ({"nameserver": "x:1"}, "none is there"),
        ({"nameserver": "x:1", "subscribe": " , "}, "names no topic"),
        ({"nameserver": "x:1", "subscribePattern": "("}, "no regular expression"),
        ({"nameserver": "x:1", "assign": '{"A": {"b": 1}}'}, "list of queue ids"),
        ({"nameserver": "x:1", "assign": "{}"}, "names no queue"),
        ({"storePath": "/x", "subscribe": "A", "sql": "a = 1"}, "'sql' is evaluated by the broker"),
        ({"storePath": "/x", "subscribe": "A", "readFrom": "slave"}, "'readFrom' chooses among brokers"),
    ],
)
def test_options_must_fit_each_other(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as failure:
        parse_options(given, streaming=False)
    assert said in str(failure.value)


UNREADABLE = {
    "accessKey": [""],
    "secretKey": [" "],
    "tls": ["", "yes"],
    "tlsTrust": [""],
    "tlsCert": [""],
    "tlsKey": [""],
    "tlsKeyPassword": [""],
    "tlsVerify": ["", "no"],
    "tlsCheckHostname": ["", "1"],
    "nameserver": ["", " ; ", "localhost", "host:port", "::1:9876", "host:70000"],
    "storePath": [" "],
    "brokerName": [""],
    "assign": ["Orders", "[]", '{"Orders": [0]}', '{"Orders": {"broker-a": [-1]}}', '{"Orders": {"broker-a": [true]}}'],
    "subscribe": ["", ",", "Or ders", "a" * 200],
    "subscribePattern": ["", "[a-", "*"],
    "tags": ["", "||"],
    "sql": ["", "  ", "number >", "a = = 3"],
    "startingOffsets": ["", "first", "17", "[]", '{"Orders": 3}', '{"Orders": {"broker-a": {"0": -3}}}'],
    "endingOffsets": ["", "earliest", "17", '{"Orders": {"broker-a": {"0": -2}}}', '{"Orders": {}}'],
    "startingTimestamp": ["", "-1", "yesterday", "1.5"],
    "endingTimestamp": ["", "-1", "2024-01-01"],
    "startingOffsetsByTimestamp": ["", "1700000000000", '{"Orders": {"broker-a": {"0": -1}}}'],
    "endingOffsetsByTimestamp": ["", "latest", '{"Orders": {"broker-a": {"0": "now"}}}'],
    "startingOffsetsByTimestampStrategy": ["", "earliest"],
    "maxOffsetsPerTrigger": ["", "0", "-1", "many", "1e3"],
    "minOffsetsPerTrigger": ["", "0", "-1", "few"],
    "maxTriggerDelay": ["", "-1s", "soon", "1 week"],
    "maxBytesPerTrigger": ["", "0", "-1", "1t", "much"],
    "minPartitions": ["", "0", "2.5"],
    "maxRecordsPerPartition": ["", "0", "all"],
    "failOnDataLoss": ["", "yes", "1"],
    "group": ["", "my group", "g" * 256],
    "readFrom": ["", "both"],
    "requestTimeout": ["", "0", "0s", "-5s", "long"],
    "fetchTimeout": ["", "-5s", "long"],
    "fetchRetryInterval": ["", "0", "-1", "1 fortnight"],
    "fetchBytes": ["", "0", "4 mb/s"],
    "discoveryInterval": ["", "-1s", "never"],
    "pollInterval": ["", "-1s", "5 ticks"],
    "prefetchRecords": ["", "-1", "some"],
}  # fmt: skip


def test_every_option_that_cannot_be_read_is_named() -> None:
    assert set(UNREADABLE) == set(option_names(SourceOptions))
    for name, texts in UNREADABLE.items():
        for text in texts:
            with pytest.raises(ConfigError) as failure:
                parse_options({**GIVEN, name: text}, streaming=True)
            assert f"option {name!r}" in str(failure.value), (name, text)


@pytest.mark.parametrize(
    ("choice", "wanted", "unwanted"),
    [
        ({"subscribe": "A,B"}, ["A", "B"], ["AB", "C"]),
        ({"subscribePattern": "A.*"}, ["A", "AB"], ["BA", "%RETRY%A", "%DLQ%A"]),
        ({"subscribePattern": ".*"}, ["A"], ["%RETRY%A", "%DLQ%A", "SCHEDULE_TOPIC_XXXX"]),
        ({"subscribe": "%DLQ%A"}, ["%DLQ%A"], ["A"]),
        ({"assign": '{"A": {"broker-a": [0]}}'}, ["A"], ["B"]),
    ],
)
def test_topics_are_chosen_by_name(choice: dict[str, str], wanted: list[str], unwanted: list[str]) -> None:
    options = parse_options({"nameserver": "127.0.0.1:9876", **choice}, streaming=True)
    assert [topic for topic in [*wanted, *unwanted] if options.wants(topic)] == wanted
