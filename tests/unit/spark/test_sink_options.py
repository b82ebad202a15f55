"""Every option of the sink is typed, and what is wrong with one is said by name."""

import pytest

from rocketeer.errors import ConfigError
from rocketeer.record.flags import Compression
from rocketeer.spark.option_fields import option_names
from rocketeer.spark.sink.options import SinkOptions, parse_sink_options

GIVEN = {"nameserver": "127.0.0.1:9876", "topic": "Orders"}
ONCE = {**GIVEN, "delivery": "effectively-once"}

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
    "nameserver": ["", ";", "localhost", "host:port"],
    "topic": ["", "Or ders", "a" * 200, "SCHEDULE_TOPIC_XXXX"],
    "createTopic": ["", "0", "-1", "true"],
    "producerGroup": ["", "my group", "g" * 256],
    "delivery": ["", "exactly-once"],
    "writeId": ["", "a b", "w" * 101, "a\nb"],
    "idColumn": ["", " "],
    "checkFirst": ["", "yes"],
    "spoolBytes": ["", "0", "-1", "much"],
    "batchBytes": ["", "0", "1x"],
    "batchRows": ["", "0", "-1", "all"],
    "maxRowsPerSecond": ["", "0", "fast"],
    "maxMessageBytes": ["", "0", "large"],
    "inFlightBytes": ["", "0", "some"],
    "sendTimeout": ["", "0s", "-1s", "long"],
    "deliveryTimeout": ["", "-1s", "often"],
    "compression": ["", "snappy"],
    "compressOver": ["", "0", "4 pages"],
    "reservedProperties": ["", "keep"],
}


def test_every_option_that_cannot_be_read_is_named() -> None:
    assert set(UNREADABLE) == set(option_names(SinkOptions))
    for name, texts in UNREADABLE.items():
        for text in texts:
            with pytest.raises(ConfigError) as failure:
                parse_sink_options({**ONCE, name: text}, streaming=False)
            assert f"option {name!r}" in str(failure.value), (name, text)


def test_options_are_typed_and_their_case_does_not_matter() -> None:
    options = parse_sink_options(
        {
            **ONCE, "SENDTIMEOUT": "3s", "batchbytes": "512k", "Compression": "ZSTD", "checkFirst": "False",
            "nameserver": "http://addresses:8080/rocketmq/nsaddr",
        },
        streaming=False,
    )  # fmt: skip
    assert (options.send_timeout_ms, options.batch_bytes) == (3000, 512 << 10)
    assert options.compression is Compression.ZSTD
    assert options.effectively_once
    assert not options.checks_first
