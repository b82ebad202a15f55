"""`rocketeer certs`: the files it makes, what they are good for, and that it takes nothing away from anybody."""

import asyncio
import datetime
import ipaddress
import os
import shutil
import ssl
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from rocketeer.config.properties import load_properties
from rocketeer.errors import ConnectFailed
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import request
from rocketeer.remoting.client import RemotingClient
from rocketeer.security.tls import TlsConfig, client_context
from support.broker import broker_at
from support.shell import Shell

DAYS = 30
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the command filled. Tests that change something take a copy."""
    home = tmp_path_factory.mktemp("certs")
    folder = home / "tls"
    hosts = [word for host in ("mq.example", "127.0.0.1", "::1") for word in ("--host", host)]
    done = Shell(home).run("certs", folder, *hosts, "--days", DAYS)
    assert done.returncode == 0, done.stderr
    said = dict(line.split(maxsplit=1) for line in done.stdout.splitlines()[:3])
    assert said == {
        "authority": str(folder / "ca.pem"),
        "certificate": str(folder / "server.pem"),
        "settings": str(folder / "tls.properties"),
    }
    return folder


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_keys_are_readable_by_their_owner_only(made: Path) -> None:
    assert set(contents(made)) == {"ca.pem", "ca-key.pem", "server.pem", "server-key.pem", "tls.properties"}
    assert mode(made / "ca-key.pem") == mode(made / "server-key.pem") == 0o600
    named = {entry.key: entry.value for entry in load_properties(made / "tls.properties")}
    assert named == {
        "tls.server.certPath": str(made / "server.pem"),
        "tls.server.keyPath": str(made / "server-key.pem"),
        "tls.client.trustCertPath": str(made / "ca.pem"),
    }


def test_the_authority_signed_it_for_these_hosts_and_these_days(made: Path) -> None:
    authority, issued = certificate(made / "ca.pem"), certificate(made / "server.pem")
    issued.verify_directly_issued_by(authority)
    (name,) = issued.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert name.value == "server"
    hosts = issued.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert hosts.get_values_for_type(x509.DNSName) == ["mq.example"]
    assert hosts.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_address("::1"),
    ]
    left = issued.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=DAYS - 1) < left <= datetime.timedelta(days=DAYS)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not issued.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


@needs_openssl
def test_openssl_finds_nothing_to_object_to(made: Path) -> None:
    done = subprocess.run(
        ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", made / "ca.pem", made / "server.pem"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_certificate_that_is_there_is_made_anew_only_when_asked_to(
    made: Path, shell: Shell, tmp_path: Path
) -> None:
    folder = tmp_path / "tls"
    shutil.copytree(made, folder)
    before = contents(folder)
    again = shell.run("certs", folder)
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == (
        f"rocketeer: {folder}/server.pem is there already: give another --name, or --replace to make it anew\n"
    )
    assert contents(folder) == before

    other = shell.run("certs", folder, "--name", "broker-b", "--days", 3650)
    assert other.returncode == 0, other.stderr
    assert contents(folder).items() >= before.items(), "what was there is as it was"
    assert set(contents(folder)) - set(before) == {"broker-b.pem", "broker-b-key.pem", "broker-b.properties"}
    second, authority = certificate(folder / "broker-b.pem"), certificate(folder / "ca.pem")
    second.verify_directly_issued_by(authority)
    assert second.not_valid_after_utc == authority.not_valid_after_utc, "no longer than who signed it"

    (folder / "server-key.pem").chmod(0o644)
    assert shell.run("certs", folder, "--replace").returncode == 0
    assert mode(folder / "server-key.pem") == 0o600
    after = contents(folder)
    assert after["server.pem"] != before["server.pem"]
    assert after["ca.pem"] == before["ca.pem"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["here", "--name", "ca"], "--name ca: letters, digits"),
        (["here", "--name", "../ca"], "--name ../ca: letters, digits"),
        (["here", "--host", "two words"], "'two words' is no host"),
        (["file/tls"], "Not a directory: "),
        (["stranger"], "the authority stranger/ca.pem or its key cannot be read"),
        (["lost"], "lost/ca-key.pem is there without its certificate"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(shell: Shell, words: list[str], complaint: str) -> None:
    (shell.home / "file").touch()
    for name, files in (("stranger", ("ca.pem", "ca-key.pem")), ("lost", ("ca-key.pem",))):
        (shell.home / name).mkdir()
        for file in files:
            (shell.home / name / file).write_text("no certificate")
    done = shell.run("certs", *words)
    assert done.returncode == 1
    assert done.stderr.startswith(f"rocketeer: {complaint}")
    assert done.stderr.count("\n") == 1
    assert (shell.home / "lost" / "ca-key.pem").read_text() == "no certificate"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_named(shell: Shell) -> None:
    folder = shell.home / "closed"
    folder.mkdir(mode=0o500)
    done = shell.run("certs", folder)
    assert (done.returncode, done.stderr) == (1, f"rocketeer: Permission denied: {folder}/ca-key.pem\n")


async def test_a_server_with_them_is_trusted_by_who_trusts_the_authority_and_by_nobody_else(
    made: Path, tmp_path: Path
) -> None:
    secure = {"tls_mode": "enforcing", "tls_file": made / "tls.properties"}
    async with broker_at(tmp_path / "store", server=secure) as broker:
        ask = request(RequestCode.GET_ALL_TOPIC_CONFIG)
        async with RemotingClient(tls=client_context(TlsConfig(trust=made / "ca.pem"))) as client:
            assert (await client.invoke(broker.address, ask, 20)).code == ResponseCode.SUCCESS
        async with RemotingClient(tls=ssl.create_default_context()) as stranger:
            with pytest.raises(ConnectFailed):
                await stranger.invoke(broker.address, ask, 20)


@needs_openssl
@pytest.mark.parametrize(
    ("expected", "accepted"),
    [
        (["-verify_ip", "127.0.0.1"], True),
        (["-verify_ip", "::1"], True),
        (["-verify_hostname", "mq.example"], True),
        (["-verify_hostname", "other.example"], False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
async def test_openssl_s_client_accepts_it_under_its_names_only(
    made: Path, tmp_path: Path, expected: list[str], accepted: bool
) -> None:
    secure = {"tls_mode": "enforcing", "tls_file": made / "tls.properties"}
    async with broker_at(tmp_path / "store", server=secure) as broker:
        process = await asyncio.create_subprocess_exec(
            "openssl", "s_client", "-connect", broker.address, "-CAfile", made / "ca.pem", "-verify_return_error",
            *expected,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await asyncio.wait_for(process.communicate(), 60)
        assert (process.returncode == 0) is accepted, said.decode()
        assert (b"Verify return code: 0 (ok)" in said) is accepted
