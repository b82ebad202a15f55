"""Laws of a page: the same lines in the same order, however long it is and whichever way it is sent."""

import gzip

import pytest

from rocketeer.observe import exposition
from rocketeer.observe.exposition import MetricsBody, MetricsPage
from rocketeer.observe.families import LAG_MESSAGES, MESSAGE_SIZE, MESSAGES_IN, TOPIC_NUMBER
from rocketeer.steps import finish


def filled(count: int) -> MetricsBody:
    page = MetricsPage({"cluster": "c"})
    page.declare((TOPIC_NUMBER, MESSAGES_IN, LAG_MESSAGES))
    for number in range(count):
        labels = page.labels(topic=f"T{number}")
        page.add(LAG_MESSAGES, number, labels)
        page.add(MESSAGES_IN, number, labels)
    page.histogram(MESSAGE_SIZE, (1, 2), (1, 0, 2), 9.5, page.labels(topic='a"b'))
    page.add_behind("# the end\n")
    return finish(page.body())


def expected(count: int) -> str:
    lines = []
    for family in (TOPIC_NUMBER, MESSAGES_IN, LAG_MESSAGES, MESSAGE_SIZE):
        lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
        if family in (MESSAGES_IN, LAG_MESSAGES):
            lines += [f'{family.name}{{cluster="c",topic="T{number}"}} {number}' for number in range(count)]
    name, labels = MESSAGE_SIZE.name, r'cluster="c",topic="a\"b"'
    lines += [
        f'{name}_bucket{{{labels},le="{bound}"}} {below}' for bound, below in ((1, 1), (2, 1), ("+Inf", 3))
    ]
    lines += [f"{name}_sum{{{labels}}} 9.5", f"{name}_count{{{labels}}} 3", "# the end", ""]
    return "\n".join(lines)


@pytest.mark.parametrize("plain_bytes_max", [0, 200_000, exposition.PLAIN_BYTES_MAX])
@pytest.mark.parametrize("count", [0, 1, 20_000])
def test_a_page_has_its_lines_family_by_family(
    monkeypatch: pytest.MonkeyPatch, count: int, plain_bytes_max: int
) -> None:
    monkeypatch.setattr(exposition, "PLAIN_BYTES_MAX", plain_bytes_max)
    body = filled(count)
    text = b"".join(body.plain())
    assert text.decode() == expected(count)
    assert body.size == len(text)
    assert gzip.decompress(b"".join(body.packed())) == text
    assert b"".join(body.plain()) == text, "also after it was packed"


def test_a_long_page_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "PLAIN_BYTES_MAX", 100_000)
    body = filled(20_000)
    assert body.size > 1_500_000
    held = sum(len(piece.data) for piece in body._pieces)
    assert held < 100_000 + body.size / 4


def test_no_piece_of_a_page_is_long() -> None:
    assert max(map(len, filled(20_000).plain())) < 2 * exposition.PIECE_CHARS
