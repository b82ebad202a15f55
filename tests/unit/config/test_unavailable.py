"""What the engine does not do is said at start, with its reason; docs/keys.md says it of every key of RocketMQ 4.9.8."""

import dataclasses
import re
from pathlib import Path

import pytest

import rocketeer
from rocketeer.config import BrokerConfig, NamesrvConfig, ServerConfig, ServerRole, StoreConfig, read_config
from rocketeer.config.command_line import parse_words
from rocketeer.config.keys import ConfigKey, find_key, known_keys
from rocketeer.config.reading import KEYS_WE_READ
from rocketeer.config.unavailable import NO_EFFECT, REFUSED, refuse_unavailable, without_effect
from rocketeer.errors import ConfigError

PAGE = Path(__file__).parents[3] / "docs" / "keys.md"
OF_4_9 = [key for key in known_keys().values() if key.is_of_4_9]


def stated() -> dict[tuple[str, str], str]:
    """What the page says of each key, by class and name."""
    owner, states = "", {}
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            owner = line.rpartition("(")[2].removesuffix(")")
        elif found := re.fullmatch(r"\| `([\w.]+)` \| (.*?) \| (.*) \|", line):
            states[owner, found[1]] = found[3]
    return states


def another_value(key: ConfigKey) -> str:
    """One that is allowed, and not the default."""
    if key.kind == "boolean":
        return "true" if key.default == "false" else "false"
    return "a;b" if key.kind == "String" else str(int(key.default or 0) + 1)


@pytest.mark.parametrize("key", OF_4_9, ids=lambda key: f"{key.owner}.{key.name}")
def test_the_page_tells_what_becomes_of_each_key(key: ConfigKey) -> None:
    said = stated()[key.owner, key.name]
    role = ServerRole.NAMESRV if key.owner == "NamesrvConfig" else ServerRole.BROKER
    if said.startswith("works"):
        assert key.name in KEYS_WE_READ
        assert key.name not in NO_EFFECT
        assert key.name not in REFUSED
        return
    assert key.name not in KEYS_WE_READ
    settings = read_config(None, role, command_line=parse_words([f"{key.name}={another_value(key)}"]))
    assert find_key(key.name, role.classes)
    if said.startswith("refused"):
        with pytest.raises(ConfigError) as error:
            refuse_unavailable(settings)
        assert str(error.value).removeprefix(f"{key.name}={another_value(key)}: ") in said
    else:
        refuse_unavailable(settings)
        assert said == f"no effect: {without_effect(settings)[key.name]}"


def test_no_reason_is_given_for_a_key_that_does_not_exist() -> None:
    names = {key.name for key in OF_4_9}
    assert {*NO_EFFECT, *REFUSED} <= names


def test_defaults_are_neither_named_nor_refused() -> None:
    for role in ServerRole:
        words = [
            f"{key.name}={key.default}"
            for key in OF_4_9
            if key.owner in role.classes and key.default is not None and not key.default.startswith("$")
        ]
        settings = read_config(None, role, command_line=parse_words(words), environment={})
        refuse_unavailable(settings)
        assert without_effect(settings) == {}


def test_a_log_in_several_folders_is_refused() -> None:
    settings = read_config(None, command_line=parse_words(["storePathCommitLog=/a,/b"]))
    with pytest.raises(ConfigError, match="storePathCommitLog=/a,/b: a log in several folders"):
        refuse_unavailable(settings)


def test_every_field_is_read_by_some_part() -> None:
    """By the text of the sources: a field that everybody ceases to read is noticed here."""
    fields = {
        item.name
        for kind in (BrokerConfig, StoreConfig, ServerConfig, NamesrvConfig)
        for item in dataclasses.fields(kind)
    }
    engine = Path(rocketeer.__file__).parent
    sources = [path.read_text() for path in engine.rglob("*.py")]
    read = {name for text in sources for name in re.findall(r"\.(\w+)", text)}
    assert fields - read == set()
