"""The report page: whole and well-formed whatever messages are called, asks for nothing, and its plots say the truth."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from rocketeer.spark.jobs.stats import svg
from rocketeer.spark.jobs.stats.html import QUEUES_MAX, TOPICS_MAX, stats_page
from rocketeer.spark.jobs.stats.values import (
    Measures,
    Part,
    QueueMeasures,
    Spread,
    Stats,
    TopicStats,
    WindowPart,
    skew_of,
    window_for,
)
from rocketeer.spark.jobs.texts import count_text, plain

HOSTILE = "<script>alert('1')</script>\"&\x00\x1b[31m\ud800"
VOID = {"meta"}


def topic(name: str, counts: list[int], *, windows: int = 3, tag: str | None = "t") -> TopicStats:
    total = sum(counts)
    spread = Spread(0, 1, 2, 3, 4, 5)
    of = Measures(total, total * 10, 0, 5000, spread, spread)
    parts = (Part(tag, of),)
    queues = tuple(
        QueueMeasures("broker-a", at, Measures(count, count, 0, 1, spread, spread))
        for at, count in enumerate(counts)
    )
    each = tuple(WindowPart(at * 1000, of) for at in range(windows))
    return TopicStats(name, of, skew_of(counts), queues, parts, 1, parts, 1, each)


def page(*topics: TopicStats) -> str:
    return stats_page(Stats(topics, 1000), title=HOSTILE, about=[("From", HOSTILE)], made_ms=0)


class Elements(HTMLParser):
    """Every element that opens is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def elements(text: str) -> list[tuple[str, dict[str, str | None]]]:
    found = Elements()
    found.feed(text)
    found.close()
    assert found.open == []
    return found.seen


def test_names_of_foreigners_stay_text() -> None:
    text = page(topic(HOSTILE, [1, 2], tag=HOSTILE), topic("plain", [1], tag=None))
    seen = elements(text)
    assert "script" not in {tag for tag, _ in seen}
    assert not [name for _, attributes in seen for name in attributes if name.startswith("on")]
    assert "\x1b" not in text
    assert "\x00" not in text
    text.encode()
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ET.fromstring(drawing)


def test_the_page_asks_for_nothing() -> None:
    text = page(topic("Orders", [5, 5]))
    for tag, attributes in elements(text):
        assert tag not in ("script", "link", "img", "iframe", "object")
        assert "src" not in attributes
        if "href" in attributes:
            assert str(attributes["href"]).startswith("#")
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text


@pytest.mark.parametrize(
    "topics",
    [[], [topic("empty", [0, 0], windows=0)], [topic("one", [1], windows=1)]],
    ids=["none", "empty", "one message"],
)
def test_little_makes_a_page_too(topics: list[TopicStats]) -> None:
    elements(page(*topics))


def test_much_is_cut_and_said() -> None:
    many = [topic(f"T{number:03}", [1] * (QUEUES_MAX + 9), windows=90) for number in range(TOPICS_MAX + 5)]
    text = page(*many)
    elements(text)
    assert text.count("<section id=") == TOPICS_MAX
    assert f"T{TOPICS_MAX + 4:03}" in text, "in the table all of them stand"
    assert f"the first {QUEUES_MAX} of {QUEUES_MAX + 9}" in text
    assert "others" in text


@pytest.mark.parametrize(
    "values", [[0.0], [1.0, 5000.0], [-3.0, 10.0], [0.0, 0.4], [5.0] * 3, [0.0, 1e12], [1e-6]], ids=str
)
def test_an_axis_holds_its_values(values: list[float]) -> None:
    ticks = svg.axis_ticks(values)
    assert list(ticks.values) == sorted(set(ticks.values))
    assert ticks.values[-1] >= max(values)
    assert 2 <= len(ticks.values) <= 9
    places = [ticks.place(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(0 <= place <= 1 for place in places)


def test_bars_are_as_long_as_their_values() -> None:
    drawing = svg.bars([svg.Bar("a", 50), svg.Bar("b", 100), svg.Bar("c", 0)], count_text, "x", mean=50)
    lengths = [float(text) for text in re.findall(r'width="([0-9.]+)" height="16" rx', drawing)]
    assert lengths[1] == pytest.approx(2 * lengths[0])
    assert lengths[2] == 0


def test_a_line_breaks_where_there_is_nothing() -> None:
    values = [1.0, 2.0, None, 3.0, 4.0]
    drawing = svg.time_lines([0, 1000, 2000, 3000, 4000], 1000, [svg.Series("a", values)], count_text, "x")
    assert drawing.count("<polyline") == 2
    away = svg.time_lines([0, 1000, 9000], 1000, [svg.Series("a", [1.0, 2.0, 3.0])], count_text, "x")
    assert (away.count("<polyline"), away.count("<circle")) == (1, 1)


@pytest.mark.parametrize("span_ms", [0, 999, 60_000, 3_600_000, 86_400_000, 400 * 86_400_000, 10**13])
def test_windows_cut_any_span_into_few(span_ms: int) -> None:
    step = window_for(1_700_000_000_000, 1_700_000_000_000 + span_ms)
    assert step >= 1000
    assert span_ms / step <= 90


def test_nothing_reaches_the_terminal_but_text() -> None:
    assert plain("a\x1b[2Jb\nc\td") == "a\ufffd[2Jb\ufffdc d"
