"""`Stats` as tables on the terminal."""

from collections.abc import Callable, Iterable

from rich.table import Table
from rich.text import Text

from rocketeer.spark.jobs.stats.values import Measures, Stats, TopicStats
from rocketeer.spark.jobs.terminal import console
from rocketeer.spark.jobs.texts import (
    NO_TAG,
    bytes_text,
    ms_text,
    plain,
    second_text,
    shortened,
)

NAME_CHARS = 48
WINDOWS_MAX = 40
QUEUES_MAX = 64


def print_stats(stats: Stats) -> None:
    """All tables, on the terminal."""
    show = console()
    show.print(_summary(stats))
    show.print(_topics(stats))
    for topic in stats.topics:
        if topic.measures.messages:
            for table in _topic_tables(topic, stats.window_ms):
                show.print(table)


def _summary(stats: Stats) -> Text:
    if not stats.messages:
        return Text("no messages")
    later = sum(topic.measures.born_later for topic in stats.topics)
    note = f"\n{later:,} were born after they were stored: clocks differ" if later else ""
    return Text(
        f"{stats.messages:,} messages, {bytes_text(stats.bytes)}, stored {second_text(stats.first_ms)} "
        f"to {second_text(stats.last_ms)} UTC{note}"
    )


def _topics(stats: Stats) -> Table:
    table = _table("Topics", "topic", "skew", "queues")
    for topic in stats.topics:
        skew = topic.skew
        empty = f" ({skew.empty} empty)" if skew.empty else ""
        table.add_row(
            _name(topic.topic), *_cells(topic.measures), f"{skew.max_over_mean:.2f}", f"{skew.queues}{empty}"
        )
    return table


def _topic_tables(topic: TopicStats, window_ms: int) -> Iterable[Table]:
    name = shortened(plain(topic.topic), NAME_CHARS)
    tags = _table(f"{name}: tags{_more(len(topic.tags), topic.tags_total)}", "tag")
    for tag in topic.tags:
        tags.add_row(_name(NO_TAG if tag.name is None else tag.name), *_cells(tag.measures))
    yield tags
    queues = _table(f"{name}: queues{_more(min(QUEUES_MAX, len(topic.queues)), len(topic.queues))}", "queue")
    for queue in topic.queues[:QUEUES_MAX]:
        queues.add_row(_name(queue.name), *_cells(queue.measures))
    yield queues
    hosts = _table(f"{name}: producer hosts{_more(len(topic.hosts), topic.hosts_total)}", "host")
    for host in topic.hosts:
        hosts.add_row(_name(host.name or "?"), *_cells(host.measures))
    yield hosts
    shown = topic.windows[-WINDOWS_MAX:]
    more = f", the last {len(shown)} of {len(topic.windows)}" if len(shown) < len(topic.windows) else ""
    windows = _table(f"{name}: per {ms_text(window_ms)}{more}", "from (UTC)")
    for window in shown:
        windows.add_row(second_text(window.start_ms), *_cells(window.measures))
    yield windows


def _table(title: str, first: str, *last: str) -> Table:
    table = Table(title=Text(title), title_justify="left", header_style="bold")
    table.add_column(first, overflow="fold")
    heads = ("messages", "bytes", "size p50", "p95", "p99", "max", "delay p50", "p95", "p99", "max")
    for head in (*heads, *last):
        table.add_column(head, justify="right", no_wrap=True)
    return table


def _cells(m: Measures) -> list[str]:
    def spread(text: Callable[[float], str], *values: int) -> list[str]:
        return [text(value) if m.messages else "-" for value in values]

    size, delay = m.size_bytes, m.delay_ms
    return [
        f"{m.messages:,}",
        bytes_text(m.bytes),
        *spread(bytes_text, size.p50, size.p95, size.p99, size.max),
        *spread(ms_text, delay.p50, delay.p95, delay.p99, delay.max),
    ]


def _name(text: str) -> Text:
    """As it is: what looks like markup of the terminal is none."""
    return Text(shortened(plain(text), NAME_CHARS))


def _more(shown: int, total: int) -> str:
    return f", the largest {shown} of {total:,}" if shown < total else ""
