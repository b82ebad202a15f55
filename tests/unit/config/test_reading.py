"""From a file to settings: what is taken, what is warned about, what is refused."""

from pathlib import Path

import pytest

from rocketeer.config import (
    BrokerRole,
    FlushMode,
    ServerRole,
    Settings,
    StoreConfig,
    parse_addresses,
    read_config,
)
from rocketeer.config.keys import BROKER_CLASSES, known_keys
from rocketeer.errors import ConfigError

WIRE = Path(__file__).parents[2] / "golden" / "data" / "wire"


@pytest.fixture
def read(tmp_path: Path):
    def from_text(text: str, role: ServerRole = ServerRole.BROKER, **environment: str) -> Settings:
        path = tmp_path / "test.conf"
        path.write_text(text)
        return read_config(path, role, environment=environment)

    return from_text


def recorded_table(name: str) -> dict[str, str]:
    """The `key = value` lines that mqadmin printed for the real server."""
    lines = (WIRE / name).read_text().splitlines()[2:]
    return {line[:50].strip(): line[51:].strip() for line in lines if line[50:51] == "="}


def test_the_effective_settings_are_those_the_real_broker_reported() -> None:
    theirs = recorded_table("admin_getBrokerConfig.txt")
    ours = read_config(WIRE / "conf" / "brokerA.conf.txt", environment={}).effective_properties()
    # The one is an environment variable, the other is computed from the bloom filter while it runs.
    for elsewhere in ("rocketmqHome", "bitMapLengthConsumeQueueExt"):
        theirs.pop(elsewhere)
        ours.pop(elsewhere, None)
    assert len(theirs) > 150
    assert {key: ours.get(key) for key in theirs} == theirs
    of_5 = {"bindAddress", "diskSpaceCleanForciblyRatio", "diskSpaceWarningLevelRatio", "recallMessageEnable"}
    of_5 |= {"metricsExporterType", "metricsPromExporterHost", "metricsPromExporterPort"}
    of_5 |= {"timerFlushIntervalMs", "timerMaxDelaySec", "timerPrecisionMs", "timerWheelEnable"}
    our_own = {
        key.name
        for key in known_keys().values()
        if key.since == "ours" and key.owner in BROKER_CLASSES and key.default is not None
    }
    assert set(ours) - set(theirs) == of_5 | our_own


def test_the_effective_settings_are_those_the_real_name_server_reported() -> None:
    theirs = recorded_table("admin_getNamesrvConfig.txt")
    ours = read_config(None, ServerRole.NAMESRV, environment={}).effective_properties()
    for home in ("rocketmqHome", "kvConfigPath", "configStorePath"):
        theirs.pop(home)
        ours.pop(home, None)
    assert {key: ours.get(key) for key in theirs} == theirs


@pytest.mark.parametrize("name", ["brokerA", "brokerB", "brokerM", "brokerS"])
def test_the_files_the_real_broker_ran_with_are_read_without_a_warning(name: str) -> None:
    assert read_config(WIRE / "conf" / f"{name}.conf.txt", environment={}).warnings == ()


def test_the_values_reach_their_fields(read) -> None:
    settings = read(
        "brokerName=broker-x\nlistenPort=20911\nflushDiskType=SYNC_FLUSH\nbrokerRole=SLAVE\nbrokerId=2\n"
        "storePathRootDir=/data/s\nmappedFileSizeCommitLog=1048576\nnamesrvAddr=a:1;b:2\naclEnable=TRUE\n"
        "haMasterAddress=10.0.0.1:10912\nsendMessageThreadPoolNums=4\n"
    )
    assert settings.broker.broker_name == "broker-x"
    assert settings.broker.namesrv_addresses == ("a:1", "b:2")
    assert settings.broker.acl_enable is True
    assert settings.broker.broker_id == 2
    assert settings.server.listen_port == 20911
    assert settings.server.fast_port == 20909
    assert settings.store.ha_port == 20912, "it follows the port unless it is set"
    assert settings.store.flush_mode is FlushMode.SYNC_FLUSH
    assert settings.store.broker_role is BrokerRole.SLAVE
    assert settings.store.ha_master_address == "10.0.0.1:10912"
    assert settings.store.store_path == Path("/data/s")
    assert settings.store.commit_log_path == Path("/data/s/commitlog")
    assert settings.store.segment_bytes == 1048576
    assert settings.extras == {"sendMessageThreadPoolNums": "4"}
    assert settings.warnings == ()


def test_the_log_may_live_in_a_folder_of_its_own(read) -> None:
    assert read("storePathCommitLog=/fast/log").store.commit_log_path == Path("/fast/log")
    assert StoreConfig(store_path=Path("/x")).commit_log_path == Path("/x/commitlog")


def test_without_a_file_the_defaults_are_rocketmqs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    settings = read_config(None, environment={})
    assert settings.store.store_path == Path("/home/me/store")
    assert settings.server.listen_port == 10911
    assert settings.store.disk_max_used_percent == 75
    assert settings.broker.property_filter_enable is True, "the one default that is not RocketMQ's"
    assert read_config(None, ServerRole.NAMESRV, environment={}).namesrv.server.listen_port == 9876


def test_the_name_servers_port_and_files_come_from_its_file(read, tmp_path: Path) -> None:
    namesrv = read("listenPort=19876\nkvConfigPath=/data/kv.json\n", ServerRole.NAMESRV).namesrv
    assert namesrv.server.listen_port == 19876
    assert namesrv.kv_config_path == Path("/data/kv.json")
    assert namesrv.config_path == tmp_path / "test.conf", "changes go back to the file they came from"


def test_the_file_wins_over_the_environment(read) -> None:
    assert read("", NAMESRV_ADDR="e:9").broker.namesrv_addresses == ("e:9",)
    assert read("namesrvAddr=f:9", NAMESRV_ADDR="e:9").broker.namesrv_addresses == ("f:9",)
    assert read("").broker.namesrv_addresses == ()
    with pytest.raises(ConfigError, match="NAMESRV_ADDR: 'e' is not host:port"):
        read("", NAMESRV_ADDR="e")


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("brokerNme=a", "line 1: unknown key brokerNme is ignored; did you mean brokerName?"),
        ("zzz=a", "line 1: unknown key zzz is ignored"),
        ("kvConfigPath=a", "line 1: kvConfigPath is a key of a name server; it has no effect on a broker"),
        ("timerWarmEnable=true", "line 1: timerWarmEnable is a key of RocketMQ 5 and has no effect here"),
        ("brokerId=3", "line 1: brokerId=3 becomes 0: brokerRole is ASYNC_MASTER"),
        ("brokerName=a\nbrokerName=b", "line 2: brokerName stands on line 1 too; this one counts"),
        (
            "storePathRootDir=${user.home}/s",
            "line 1: storePathRootDir=${user.home}/s is taken as it stands: nothing in it is expanded",
        ),
    ],
)
def test_what_is_odd_but_usable_is_a_warning(read, tmp_path: Path, line: str, warning: str) -> None:
    assert read(line).warnings == (f"{tmp_path / 'test.conf'}, {warning}",)


def test_unknown_keys_are_kept_and_reported_back(read) -> None:
    assert read("myOwnKey=1").effective_properties()["myOwnKey"] == "1"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("listenPort=abc", "listenPort=abc: expected a whole number of 32 bits"),
        ("listenPort=70000", "listenPort=70000: expected a whole number from 3 to 65535"),
        ("maxMessageSize=0", "maxMessageSize=0: expected a whole number, at least 1"),
        ("mappedFileSizeCommitLog=1G", "mappedFileSizeCommitLog=1G: expected a whole number of 32 bits"),
        ("autoCreateTopicEnable=yes", "autoCreateTopicEnable=yes: expected true or false"),
        ("flushDiskType=SYNC", "flushDiskType=SYNC: expected ASYNC_FLUSH or SYNC_FLUSH"),
        ("brokerRole=BOSS", "brokerRole=BOSS: expected ASYNC_MASTER or SYNC_MASTER or SLAVE"),
        ("messageDelayLevel=1s 5x", 'messageDelayLevel=1s 5x: expected levels such as "1s 5s 10s 1m 2h"'),
        ("deleteWhen=25", 'deleteWhen=25: expected hours of the day such as "04" or "02;16"'),
        ("brokerName=", "brokerName=: expected a name"),
        ("storePathRootDir=", "storePathRootDir=: expected a path"),
        ("sendMessageThreadPoolNums=x", "sendMessageThreadPoolNums=x: expected a whole number of 32 bits"),
        ("namesrvAddr=a:1,b:2", "namesrvAddr: 'a:1,b:2' is not host:port"),
        ("brokerRole=SLAVE", "brokerId=0 with brokerRole=SLAVE: expected a number above 0"),
    ],
)
def test_a_bad_value_is_an_error_that_names_file_line_key_and_what_was_expected(
    read, tmp_path: Path, line: str, error: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(f"# comment\n{line}\n")
    text = str(caught.value)
    assert text.startswith(str(tmp_path / "test.conf"))
    assert error in text
    assert "line 2" in text or "brokerRole=SLAVE" in text
    assert "\n" not in text


def test_white_space_behind_a_value_does_not_count(read) -> None:
    settings = read("brokerRole=SYNC_MASTER  \nlistenPort=20911\t\n")
    assert settings.store.broker_role is BrokerRole.SYNC_MASTER
    assert settings.server.listen_port == 20911


def test_addresses_are_separated_by_semicolons() -> None:
    assert parse_addresses("10.0.0.1:9876; host-b:9877;") == ("10.0.0.1:9876", "host-b:9877")
    for text in ("", ";", "host", "host:", ":1", "host:0", "host:65536", "a:1,b:2"):
        with pytest.raises(ConfigError):
            parse_addresses(text)
