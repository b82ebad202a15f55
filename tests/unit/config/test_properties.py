"""Java's .properties format, against what java.util.Properties itself read (java_properties.jsonl)."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketeer.config import PropertyEntry, load_properties, parse_properties
from rocketeer.errors import ConfigError

RECORDED = Path(__file__).parent / "java_properties.jsonl"


def test_every_recorded_text_reads_as_java_read_it() -> None:
    for line in RECORDED.read_text("ascii").splitlines():
        case = json.loads(line)
        if case["entries"] is None:
            with pytest.raises(ConfigError, match="four hexadecimal digits"):
                parse_properties(case["text"])
            continue
        entries = [[entry.key, entry.value] for entry in parse_properties(case["text"])]
        assert entries == case["entries"], case["text"]


def test_comments_and_blank_lines_are_skipped_and_lines_counted() -> None:
    text = "# first\n\n! second\n  brokerName = a \n\tlistenPort:10911\r\nkeyOnly\n"
    assert parse_properties(text) == [
        PropertyEntry("brokerName", "a ", 4),
        PropertyEntry("listenPort", "10911", 5),
        PropertyEntry("keyOnly", "", 6),
    ]


def test_a_backslash_at_the_end_joins_the_next_line() -> None:
    text = "namesrvAddr=10.0.0.1:9876;\\\n    10.0.0.2:9876\nnext=1\\\\\nlast=2"
    assert parse_properties(text) == [
        PropertyEntry("namesrvAddr", "10.0.0.1:9876;10.0.0.2:9876", 1),
        PropertyEntry("next", "1\\", 3),
        PropertyEntry("last", "2", 4),
    ]


def test_a_pair_of_unicode_escapes_is_one_character() -> None:
    assert parse_properties("k=\\ud83d\\ude80\\u00e9") == [PropertyEntry("k", "\U0001f680\u00e9", 1)]


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_escaped_comes_back(table: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

    text = "\n".join(f"{escaped(key)}={escaped(value)}" for key, value in table.items())
    assert {entry.key: entry.value for entry in parse_properties(text)} == table


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_a_file_may_be_utf8_or_latin1(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes("brokerName=caf\u00e9\n".encode(encoding))
    assert load_properties(path) == [PropertyEntry("brokerName", "caf\u00e9", 1)]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*missing\.conf: No such file"):
        load_properties(tmp_path / "missing.conf")
    with pytest.raises(ConfigError, match=r"cannot read .*: Is a directory"):
        load_properties(tmp_path)
    binary = tmp_path / "binary.conf"
    binary.write_bytes(b"a=b\0\xff")
    with pytest.raises(ConfigError, match="not a text file"):
        load_properties(binary)


def test_a_bad_escape_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("a=1\nb=\\u12\n")
    with pytest.raises(ConfigError, match=r"broker\.conf, line 2: .*four hexadecimal digits"):
        load_properties(path)
