"""An etcd that lets in only whom it knows: by certificate, or by user and password over TLS.

Not both: once users are enabled, etcd's gateway refuses clients whose certificate has a common name.
"""

import asyncio
import json
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketeer.bench.groups import MemberProcess, ProcessHost
from rocketeer.bench.processes import ServerProcess
from rocketeer.config.ports import free_ports
from rocketeer.errors import GroupError
from rocketeer.group.etcd import Access, Etcd
from rocketeer.group.etcd_program import find_etcd
from support.cluster import TEST_CONF

USER, PASSWORD = "root", "only the members know it"
HOST = "127.0.0.1"


class SecuredEtcd:
    """Certificates by `rocketeer certs`; with a password one user, who may do everything, else certificates of clients."""

    def __init__(self, folder: Path, *, password: str | None) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("etcd", "member"):
            subprocess.run(
                [sys.executable, "-m", "rocketeer", "certs", str(folder), "--name", name],
                check=True, capture_output=True, timeout=60,
            )  # fmt: skip
        self.password_file = folder / "password"
        self.password_file.write_text(f"{password}\n")
        port, peer_port = free_ports()
        self.endpoint, peer = f"https://{HOST}:{port}", f"http://{HOST}:{peer_port}"
        clients = [] if password else ["--trusted-ca-file", str(folder / "ca.pem"), "--client-cert-auth"]
        self.process = ServerProcess(
            [
                str(find_etcd()), "--data-dir", str(folder / "data"),
                "--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint,
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", f"default={peer}",
                "--cert-file", str(folder / "etcd.pem"), "--key-file", str(folder / "etcd-key.pem"), *clients,
            ],
            log=folder / "etcd.out",
        )  # fmt: skip
        self._context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        if not password:
            self._context.load_cert_chain(folder / "member.pem", folder / "member-key.pem")
        self.process.wait_until(self._answers, timeout_s=60, what="etcd")
        if password:
            self._ask("auth/user/add", {"name": USER, "password": password})
            self._ask("auth/role/add", {"name": "root"})
            self._ask("auth/user/grant", {"user": USER, "role": "root"})
            self._ask("auth/enable", {})

    def _ask(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            f"{self.endpoint}/v3/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10, context=self._context) as answer:
            return json.loads(answer.read())

    def _answers(self) -> bool:
        try:
            return "header" in self._ask("kv/range", {"key": "AA=="})
        except OSError:
            return False


@pytest.fixture
def by_certificate(tmp_path: Path) -> Iterator[SecuredEtcd]:
    etcd = SecuredEtcd(tmp_path / "etcd", password=None)
    yield etcd
    etcd.process.kill()


@pytest.fixture
def by_password(tmp_path: Path) -> Iterator[SecuredEtcd]:
    etcd = SecuredEtcd(tmp_path / "etcd", password=PASSWORD)
    yield etcd
    etcd.process.kill()


async def try_all(endpoint: str, access: Access) -> None:
    etcd = Etcd([endpoint], access, timeout_s=10)
    try:
        lease = await etcd.grant(10)
        await etcd.put("/test/a", b"1", lease)
        assert await etcd.put_if("/test/b", b"2", 0)
        assert not await etcd.put_if("/test/b", b"3", 0)
        found = await etcd.range("/test/")
        assert {key: each.value for key, each in found.values.items()} == {"/test/a": b"1", "/test/b": b"2"}
        assert await etcd.keep_alive(lease)
        await etcd.revoke(lease)
        assert not await etcd.keep_alive(lease)
        await etcd.delete("/test/b")
        assert not (await etcd.range("/test/")).values
    finally:
        await etcd.close()


def test_by_certificate_members_come_in_and_nobody_else_does(by_certificate: SecuredEtcd) -> None:
    etcd, folder = by_certificate, by_certificate.folder
    pair = {"certificate": folder / "member.pem", "key": folder / "member-key.pem"}
    asyncio.run(try_all(etcd.endpoint, Access(ca=folder / "ca.pem", **pair)))
    with pytest.raises(GroupError, match="does not answer"):
        asyncio.run(try_all(etcd.endpoint, Access(ca=folder / "ca.pem")))
    with pytest.raises(GroupError, match="does not answer"):
        asyncio.run(try_all(etcd.endpoint, Access(**pair)))


def test_by_password_members_come_in_and_nobody_else_does(by_password: SecuredEtcd, tmp_path: Path) -> None:
    etcd, ca = by_password, by_password.folder / "ca.pem"
    asyncio.run(try_all(etcd.endpoint, Access(USER, etcd.password_file, ca=ca)))
    wrong = tmp_path / "wrong"
    wrong.write_text("guessed")
    with pytest.raises(GroupError, match="does not let root in"):
        asyncio.run(try_all(etcd.endpoint, Access(USER, wrong, ca=ca)))
    with pytest.raises(GroupError, match="refuses"):
        asyncio.run(try_all(etcd.endpoint, Access(ca=ca)))

    conf = {
        **TEST_CONF, "groupEtcd": etcd.endpoint, "groupMembers": 1, "groupEtcdUser": USER,
        "groupEtcdPasswordFile": etcd.password_file, "groupEtcdCa": ca,
    }  # fmt: skip
    member = MemberProcess(1, tmp_path / "m1", conf, ProcessHost(HOST))
    member.start()
    try:
        assert member.process is not None
        member.process.wait_until(lambda: "leads epoch=1" in member.last_lines(), timeout_s=60, what="it")
        told = subprocess.run(
            [sys.executable, "-m", "rocketeer", "group", "status", "-c", str(member.folder / "broker.conf")],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert told.returncode == 0, told.stderr
        assert "leader 1" in told.stdout
        assert PASSWORD not in member.process.log.read_text()
    finally:
        member.kill()
