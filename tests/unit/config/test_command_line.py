"""Settings on the command line go before the file's; old names of keys still count."""

from pathlib import Path

import pytest

from rocketeer.config import ServerRole, read_config
from rocketeer.config.command_line import parse_words
from rocketeer.config.keys import BROKER_CLASSES, OLD_SPELLINGS, find_key
from rocketeer.errors import ConfigError


def test_both_ways_to_write_a_setting_give_the_same() -> None:
    for words in (["listenPort=9999"], ["--listenPort", "9999"], ["--listenPort=9999"]):
        assert read_config(None, command_line=parse_words(words)).server.listen_port == 9999


def test_the_command_line_goes_before_the_file_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("brokerName=a\nlistenPort=10\n")
    settings = read_config(path, command_line=parse_words(["brokerName=b"]))
    assert (settings.broker.broker_name, settings.server.listen_port, settings.warnings) == ("b", 10, ())


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["autoCreateTopic"], "'autoCreateTopic' is no setting; write key=value"),
        (["--listenPort"], "--listenPort has no value"),
        (["--listenPort", "--brokerName"], "--listenPort has no value"),
        (["=1"], "'=1' is no setting"),
        (["-x"], "'-x' is no setting"),
        (["listenPort=many"], "command line: listenPort=many: expected a whole number"),
        (["listenPort=1"], "command line: listenPort=1: expected a whole number from 3"),
        (["listenPrt=1"], "command line: unknown key listenPrt; did you mean listenPort?"),
        (["kvConfigPath=x"], "kvConfigPath is a key of a name server"),
        (["namesrvAddr=here"], "command line: namesrvAddr: 'here' is not host:port"),
    ],
)
def test_a_word_that_cannot_be_used_is_an_error_that_says_why(words: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_config(None, command_line=parse_words(words))
    assert complaint in str(error.value)


def test_an_old_name_counts_and_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("mapedFileSizeCommitLog=4096\nmapedFileSizeConsumeQueue=400\n")
    settings = read_config(path)
    assert (settings.store.segment_bytes, settings.store.consume_queue_bytes) == (4096, 400)
    assert settings.warnings[0].endswith(
        "line 1: mapedFileSizeCommitLog is an old name of mappedFileSizeCommitLog, and counts as that"
    )
    assert len(settings.warnings) == 2
    assert settings.effective_properties()["mappedFileSizeCommitLog"] == "4096"


def test_every_old_name_leads_to_a_key_of_4_9() -> None:
    for old, new in OLD_SPELLINGS.items():
        key = find_key(new, BROKER_CLASSES)
        assert key is not None
        assert key.is_of_4_9
        assert find_key(old, BROKER_CLASSES) is None


@pytest.mark.parametrize("role", ServerRole)
def test_rocketmq_home_says_where_access_rules_are(
    role: ServerRole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETMQ_HOME", "/opt/rocketmq")
    settings = read_config(None, role)
    assert settings.server.acl_path == Path("/opt/rocketmq/conf")
    assert settings.effective_properties()["rocketmqHome"] == "/opt/rocketmq"
    moved = read_config(None, role, command_line=parse_words(["rocketmqHome=/srv/mq"]))
    assert moved.server.acl_path == moved.namesrv.server.acl_path == Path("/srv/mq/conf")
    monkeypatch.delenv("ROCKETMQ_HOME")
    assert read_config(None, role).server.acl_path == Path.home() / "conf"
