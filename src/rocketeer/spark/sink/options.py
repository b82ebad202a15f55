"""The sink's options, typed: texts from Spark in, a checked value out. A wrong or unknown one is named."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketeer.errors import ConfigError
from rocketeer.model.topic import may_not_be_sent_to
from rocketeer.record.flags import Compression
from rocketeer.spark.option_fields import option, parse_texts
from rocketeer.spark.option_texts import (
    count_from,
    duration_ms,
    flag,
    group_of,
    nameservers_of,
    one_of,
    size_bytes,
    text_of,
    time_limit_ms,
    topic_of,
)
from rocketeer.spark.protection import Protection, with_environment

AT_LEAST_ONCE: Final = "at-least-once"
EFFECTIVELY_ONCE: Final = "effectively-once"
WRITE_ID_CHARS_MAX: Final = 100

# What Spark itself hands to a sink beside the user's options.
_OF_SPARK: Final = frozenset({"path", "checkpointlocation", "queryname", "outputmode", "truncate", "numrows"})


def _topic(name: str, text: str) -> str:
    topic = topic_of(name, text)
    if may_not_be_sent_to(topic):
        raise ConfigError(f"option {name!r} is {topic!r}, which belongs to the system")
    return topic


def _packing(name: str, text: str) -> Compression | None:
    word = one_of("none", "zlib", "lz4", "zstd")(name, text)
    return None if word == "none" else Compression[word.upper()]


def _write_id(name: str, text: str) -> str:
    word = text_of(name, text)
    if len(word) > WRITE_ID_CHARS_MAX or not word.isprintable() or " " in word:
        raise ConfigError(
            f"option {name!r} is {text[:40]!r}: write up to {WRITE_ID_CHARS_MAX} characters without spaces"
        )
    return word


@dataclass(frozen=True)
class SinkOptions(Protection):
    """Where to write, and how. `docs/spark-sink.md` explains each."""

    nameserver: str = option("nameserver", nameservers_of, "")
    topic: str | None = option("topic", _topic)
    create_queues: int | None = option("createTopic", count_from(1))
    producer_group: str = option("producerGroup", group_of, "SPARK_SINK")
    delivery: str = option("delivery", one_of(AT_LEAST_ONCE, EFFECTIVELY_ONCE), AT_LEAST_ONCE)
    write_id: str | None = option("writeId", _write_id)
    id_column: str | None = option("idColumn", text_of)
    check_first: bool | None = option("checkFirst", flag)
    spool_bytes: int = option("spoolBytes", size_bytes, 64 << 20)
    batch_bytes: int = option("batchBytes", size_bytes, 1 << 20)
    batch_rows: int = option("batchRows", count_from(1), 1000)
    rows_per_s_max: int | None = option("maxRowsPerSecond", count_from(1))
    message_bytes_max: int = option("maxMessageBytes", size_bytes, 4 << 20)
    in_flight_bytes: int = option("inFlightBytes", size_bytes, 16 << 20)
    send_timeout_ms: int = option("sendTimeout", time_limit_ms, 10_000)
    delivery_timeout_ms: int = option("deliveryTimeout", duration_ms, 120_000)
    compression: Compression | None = option("compression", _packing)  # noqa: RUF009 as all the others
    compress_over_bytes: int = option("compressOver", size_bytes, 4096)
    reserved_properties: str = option("reservedProperties", one_of("fail", "drop"), "fail")

    @property
    def effectively_once(self) -> bool:
        return self.delivery == EFFECTIVELY_ONCE

    @property
    def delivery_timeout_s(self) -> float:
        """How long a request is tried again for; 0: the first failure is the last."""
        return self.delivery_timeout_ms / 1000

    @property
    def checks_first(self) -> bool:
        """Whether a task sends nothing before it has seen and checked all its rows."""
        return self.effectively_once if self.check_first is None else self.check_first


def parse_sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Checked options; ConfigError names the first that is unknown, unreadable or does not fit the others."""
    if "sendretries" in {name.lower() for name in given}:
        raise ConfigError(
            "option 'sendRetries' is gone: deliveryTimeout says how long a broker that does not answer is waited for"
        )
    values = parse_texts(SinkOptions, given, "sink", ignored=_OF_SPARK)
    options = with_environment(SinkOptions(**values))
    if not options.nameserver:
        raise ConfigError("option 'nameserver' is needed: write host:9876, several with ;")
    if options.batch_bytes > options.message_bytes_max:
        raise ConfigError(
            f"option 'batchBytes' ({options.batch_bytes}) is above 'maxMessageBytes' "
            f"({options.message_bytes_max}): a broker counts a batch as one message"
        )
    if not options.effectively_once:
        for name, value in (("writeId", options.write_id), ("idColumn", options.id_column)):
            if value is not None:
                raise ConfigError(f"option {name!r} has no effect unless delivery is {EFFECTIVELY_ONCE}")
    elif streaming and options.write_id is not None:
        raise ConfigError("option 'writeId' is for batch writes: a stream has its query id and batch number")
    return options
