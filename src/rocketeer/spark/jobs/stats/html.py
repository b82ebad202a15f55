"""`Stats` in, one HTML page out: plots and tables without network or scripts, for light and dark screens.

Pure. Every text that came from messages goes through `safe`; the page's own policy forbids loading anything.
"""

from collections.abc import Callable, Sequence
from typing import Final

from rocketeer.spark.jobs.stats import svg
from rocketeer.spark.jobs.stats.style import STYLE
from rocketeer.spark.jobs.stats.values import Measures, Skew, Spread, Stats, TopicStats
from rocketeer.spark.jobs.texts import (
    NO_TAG,
    bytes_text,
    count_text,
    ms_text,
    safe,
    second_text,
    shortened,
)

SERIES_MAX: Final = svg.COLOURS
TOPICS_MAX: Final = 50
"""Topics with plots of their own; all others are in the table."""
QUEUES_MAX: Final = 64
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"

_STRIP_KEY: Final = '<p class="key">line: min to max; bar: p50 to p95; tick: p99</p>'

HtmlCell = tuple[str, str]
"""A class and the escaped content."""


def stats_page(stats: Stats, *, title: str, about: Sequence[tuple[str, str]], made_ms: int) -> str:
    """The whole page. `about` are lines under the title: where the messages came from, which time was asked for."""
    shown = [topic for topic in stats.topics if topic.measures.messages][:TOPICS_MAX]
    facts = [*about, ("Made", f"{second_text(made_ms)} UTC by rocketeer spark stats")]
    lines = "".join(f"<dt>{safe(name)}</dt><dd>{safe(value)}</dd>" for name, value in facts)
    body = (
        _overview(stats, shown) + "".join(_topic(topic, stats) for topic in shown)
        if shown
        else '<p class="none">No messages.</p>' + _topic_table(stats.topics, stats.messages)
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{safe(title)}</title><style>{STYLE}</style></head><body>"
        f"<header><h1>{safe(title)}</h1><dl>{lines}</dl></header><main>{body}</main>"
        "<footer>Times are UTC. Sizes are of bodies. The delay is from a message's birth at its producer to its "
        "storing: it holds what a delayed, timed or transactional message was meant to wait, and the difference "
        "of the two clocks. Percentiles are approximate.</footer></body></html>\n"
    )


# --- all topics ---------------------------------------------------------------------------------------


def _overview(stats: Stats, shown: Sequence[TopicStats]) -> str:
    span_s = max((stats.last_ms - stats.first_ms) / 1000, 0.001)
    starts = sorted({window.start_ms for topic in stats.topics for window in topic.windows})
    peak = max(
        (sum(column) for column in zip(*(_counts(t, starts) for t in stats.topics), strict=True)), default=0
    )
    later = sum(topic.measures.born_later for topic in stats.topics)
    tiles = [
        ("Messages", count_text(stats.messages), f"{stats.messages:,}"),
        ("Bodies", bytes_text(stats.bytes), f"{stats.bytes:,} bytes"),
        ("Topics", count_text(len(stats.topics)), ""),
        (
            "Span",
            ms_text(span_s * 1000) if len(starts) > 1 else "-",
            f"{second_text(stats.first_ms)} to {second_text(stats.last_ms)}",
        ),
        (
            "Mean rate",
            f"{count_text(round(stats.messages / span_s, 1))}/s" if span_s > 1 else "-",
            "messages per second",
        ),
        (
            "Peak rate",
            f"{count_text(round(peak / (stats.window_ms / 1000), 1))}/s",
            f"in {ms_text(stats.window_ms)}",
        ),
        ("Worst delay p99", ms_text(max(t.measures.delay_ms.p99 for t in shown)), "of the topics"),
    ]
    boxes = "".join(
        f'<div class="tile" title="{safe(hint)}"><span>{safe(name)}</span><b>{safe(value)}</b></div>'
        for name, value, hint in tiles
    )
    warning = (
        f'<p class="warn">{later:,} messages were born after they were stored: '
        "the clocks of producers and brokers differ.</p>"
        if later
        else ""
    )
    series = _by_topic(stats, starts)
    names = [one.name for one in series]
    sizes = _strips(shown, lambda m: m.size_bytes)
    delays = _strips(shown, lambda m: m.delay_ms)
    return (
        f'<div class="tiles">{boxes}</div>{warning}'
        + _figure(
            f"Messages per {ms_text(stats.window_ms)}",
            svg.legend(names)
            + svg.time_bars(
                starts, stats.window_ms, series, count_text, "messages over time", width=svg.WIDE
            ),
            wide=True,
        )
        + '<div class="pair">'
        + _figure("Body sizes", _STRIP_KEY + svg.strips(sizes, bytes_text, "sizes by topic"))
        + _figure("Delay from born to stored", _STRIP_KEY + svg.strips(delays, ms_text, "delays by topic"))
        + "</div>"
        + f"<section><h2>Topics</h2>{_topic_table(stats.topics, stats.messages)}</section>"
    )


def _by_topic(stats: Stats, starts: Sequence[int]) -> list[svg.Series]:
    """The largest topics one by one, all others as one more colour."""
    full = [topic for topic in stats.topics if topic.measures.messages]
    alone = full if len(full) <= SERIES_MAX else full[: SERIES_MAX - 1]
    series = [svg.Series(topic.topic, _counts(topic, starts)) for topic in alone]
    rest = full[len(alone) :]
    if rest:
        sums = [sum(column) for column in zip(*(_counts(topic, starts) for topic in rest), strict=True)]
        series.append(svg.Series(f"{len(rest)} others", sums))
    return series


def _counts(topic: TopicStats, starts: Sequence[int]) -> list[int]:
    found = {window.start_ms: window.measures.messages for window in topic.windows}
    return [found.get(start, 0) for start in starts]


def _strips(topics: Sequence[TopicStats], of: Callable[[Measures], Spread]) -> list[svg.Strip]:
    return [_strip(topic.topic, of(topic.measures)) for topic in topics[:20]]


def _strip(name: str, spread: Spread) -> svg.Strip:
    return svg.Strip(name, spread.min, spread.p50, spread.p95, spread.p99, spread.max)


def _topic_table(topics: Sequence[TopicStats], messages: int) -> str:
    rows = [
        [
            (
                "",
                f'<a href="#t{at}">{safe(shortened(topic.topic, 60))}</a>'
                if _plotted(at, topic)
                else safe(topic.topic),
            ),
            ("", _share(topic.measures.messages, messages)),
            *_measure_cells(topic.measures),
            ("r", safe(_skew_text(topic.skew))),
        ]
        for at, topic in enumerate(topics)
    ]
    return _table(["Topic", "", *_MEASURE_HEADS, "Skew"], rows)


def _plotted(at: int, topic: TopicStats) -> bool:
    return at < TOPICS_MAX and topic.measures.messages > 0


def _skew_text(skew: Skew) -> str:
    return f"{skew.max_over_mean:.2f}x" + (f", {skew.empty} of {skew.queues} empty" if skew.empty else "")


# --- one topic ----------------------------------------------------------------------------------------


def _topic(topic: TopicStats, stats: Stats) -> str:
    number = stats.topics.index(topic)
    starts = [window.start_ms for window in topic.windows]
    each = [window.measures for window in topic.windows]
    sizes = [svg.Series("bytes", [m.bytes for m in each])]
    delays = [
        svg.Series(name, [float(getattr(m.delay_ms, name)) for m in each]) for name in ("p50", "p95", "p99")
    ]
    step = ms_text(stats.window_ms)
    queues = topic.queues[:QUEUES_MAX]
    mean = topic.measures.messages / max(len(topic.queues), 1)
    skew = topic.skew
    more = f", the first {QUEUES_MAX} of {len(topic.queues)}" if len(topic.queues) > QUEUES_MAX else ""
    return (
        f'<section id="t{number}"><h2>{safe(topic.topic)}</h2><div class="pair">'
        + _figure(
            f"Bytes per {step}", svg.time_bars(starts, stats.window_ms, sizes, bytes_text, "bytes over time")
        )
        + _figure(
            "Delay from born to stored",
            svg.legend(["p50", "p95", "p99"])
            + svg.time_lines(starts, stats.window_ms, delays, ms_text, "delays over time"),
        )
        + _figure(
            f"Queues{more}: the fullest has {skew.max_over_mean:.2f}x the mean, variation {skew.variation:.2f}"
            + (f", {skew.empty} empty" if skew.empty else ""),
            svg.bars([_bar(q.name, q.measures) for q in queues], count_text, "messages by queue", mean=mean),
        )
        + _figure(
            f"Producer hosts{_of(len(topic.hosts), topic.hosts_total)}",
            svg.bars([_bar(h.name or "?", h.measures) for h in topic.hosts], count_text, "messages by host"),
        )
        + "</div>"
        + f"<h3>Tags{_of(len(topic.tags), topic.tags_total)}</h3>"
        + _table(
            ["Tag", "", *_MEASURE_HEADS],
            [
                [
                    ("", safe(shortened(tag.name if tag.name is not None else NO_TAG, 60))),
                    ("", _share(tag.measures.messages, topic.measures.messages)),
                    *_measure_cells(tag.measures),
                ]
                for tag in topic.tags
            ],
        )
        + "</section>"
    )


def _bar(name: str, measures: Measures) -> svg.Bar:
    hint = (
        f"{measures.messages:,} messages, {bytes_text(measures.bytes)}\n"
        f"size p50 {bytes_text(measures.size_bytes.p50)}, p99 {bytes_text(measures.size_bytes.p99)}\n"
        f"delay p50 {ms_text(measures.delay_ms.p50)}, p99 {ms_text(measures.delay_ms.p99)}"
    )
    return svg.Bar(name, measures.messages, hint)


def _of(shown: int, total: int) -> str:
    return f", the largest {shown} of {total:,}" if shown < total else ""


# --- pieces -------------------------------------------------------------------------------------------

_MEASURE_HEADS: Final = (
    "Messages", "Bytes", "Size p50", "p95", "p99", "max", "Delay p50", "p95", "p99", "max",
)  # fmt: skip


def _measure_cells(m: Measures) -> list[HtmlCell]:
    sizes = [bytes_text(v) for v in (m.size_bytes.p50, m.size_bytes.p95, m.size_bytes.p99, m.size_bytes.max)]
    delays = [ms_text(v) for v in (m.delay_ms.p50, m.delay_ms.p95, m.delay_ms.p99, m.delay_ms.max)]
    spreads = sizes + delays if m.messages else ["-"] * 8
    return [("r", safe(text)) for text in (f"{m.messages:,}", bytes_text(m.bytes), *spreads)]


def _share(part: int, whole: int) -> str:
    percent = 100 * part / max(whole, 1)
    return f'<span class="share" title="{percent:.1f} %"><i style="width:{percent:.1f}%"></i></span>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[HtmlCell]]) -> str:
    head = "".join(f'<th class="{"" if not at else "r"}">{safe(name)}</th>' for at, name in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(f'<td class="{kind}">{content}</td>' for kind, content in row) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _figure(caption: str, content: str, *, wide: bool = False) -> str:
    return (
        f'<figure class="{"wide" if wide else ""}"><figcaption>{safe(caption)}</figcaption>{content}</figure>'
    )
