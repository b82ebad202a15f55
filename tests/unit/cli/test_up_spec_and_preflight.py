"""What `up` decides before it opens anything."""

import socket
from pathlib import Path

import pytest

from rocketeer.cli.banner import show_banner
from rocketeer.cli.preflight import Port, check_folder, check_ports, numeric_host
from rocketeer.cli.up_spec import BrokerSpec, UpSpec, up_spec
from rocketeer.errors import ConfigError


def spec(brokers: int, store: Path = Path("/data/store"), namesrv_port: int = 9876) -> UpSpec:
    return up_spec(
        brokers=brokers,
        store_path=store,
        bind_host="127.0.0.1",
        host="127.0.0.1",
        port=10911,
        namesrv_port=namesrv_port,
    )


def test_ports_are_spaced_by_ten_and_every_broker_has_its_second_port() -> None:
    assert [port.number for port in spec(3).ports] == [
        9876, 10911, 10909, 10912, 10921, 10919, 10922, 10931, 10929, 10932,
    ]  # fmt: skip
    assert [broker.store_config.ha_port for broker in spec(3).brokers] == [10912, 10922, 10932]


def test_the_first_brokers_store_stays_where_it_is_when_more_brokers_come() -> None:
    assert spec(1).brokers[0].store_path == spec(2).brokers[0].store_path == Path("/data/store")
    assert spec(2).brokers[1].store_path == Path("/data/store/broker-b")


def test_every_broker_registers_with_the_name_server() -> None:
    for broker in spec(2).brokers:
        assert broker.broker_config.namesrv_addresses == ("127.0.0.1:9876",)
    assert [broker.broker_config.broker_name for broker in spec(2).brokers] == ["broker-a", "broker-b"]


def test_the_name_servers_files_stay_inside_the_store_folder() -> None:
    assert spec(1).namesrv.kv_config_path == Path("/data/store/namesrv/kvConfig.json")


def test_a_plan_reaches_the_child_process_unchanged() -> None:
    broker = spec(2).brokers[1]
    assert BrokerSpec.from_json(broker.to_json()) == broker


def test_two_servers_on_one_port_are_found_before_they_start() -> None:
    port = Port("127.0.0.1", unused_port(), "one")
    check_ports([port])
    with pytest.raises(ConfigError, match=rf"port {port.number} on 127.0.0.1 \(two\) is already in use"):
        check_ports([port, port._replace(purpose="two")])


def test_a_port_in_use_is_named_with_its_purpose() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = other.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"port {number} .*\(broker-a, --port\) is already in use"):
            check_ports([Port("127.0.0.1", number, "broker-a, --port")])
    check_ports([Port("127.0.0.1", number, "free again")])


@pytest.mark.parametrize("number", [0, -1, 65536])
def test_a_number_that_is_no_port_is_refused(number: int) -> None:
    with pytest.raises(ConfigError, match="is not between 1 and 65535"):
        check_ports([Port("127.0.0.1", number, "x")])


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    with pytest.raises(ConfigError, match="this machine does not have that address"):
        check_ports([Port("192.0.2.77", unused_port(), "x")])


def test_a_host_name_becomes_an_address() -> None:
    assert numeric_host("127.0.0.1") == "127.0.0.1"
    assert numeric_host("localhost").startswith("127.")
    assert numeric_host("[::1]") == numeric_host("::1") == "::1"
    with pytest.raises(ConfigError, match=r"host no-such-host\.invalid has no address"):
        numeric_host("no-such-host.invalid")


def test_a_folder_is_usable_if_it_can_be_written_or_made(tmp_path: Path) -> None:
    check_folder(tmp_path)
    check_folder(tmp_path / "not" / "yet")
    assert list(tmp_path.iterdir()) == [], "checking makes nothing"
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is not a folder"):
        check_folder(tmp_path / "file" / "store")


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("0.0.0.0", True), ("::", True)])
def test_the_banner_warns_when_networks_reach_what_nobody_has_to_sign_in_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], host: str, warned: bool
) -> None:
    spec = up_spec(
        brokers=1, bind_host=host, host="127.0.0.1", port=10911, namesrv_port=9876, store_path=tmp_path
    )
    show_banner(spec, "bench")
    assert ("nobody has to sign in" in capsys.readouterr().out) is warned
