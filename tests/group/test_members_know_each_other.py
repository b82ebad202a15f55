"""Nobody gets the group's log who neither knows its secret nor shows a certificate, and nobody follows such a leader."""

import contextlib
import datetime
from pathlib import Path

import pytest

from rocketeer import Admin
from rocketeer.bench.groups import GroupCluster, MemberProcess
from rocketeer.config.properties import properties_text
from rocketeer.security.certificates import Authority
from support.cluster import TEST_CONF
from support.senders import wait_for

pytestmark = pytest.mark.timeout(300)


def secret_file(folder: Path, name: str, secret: str) -> Path:
    path = folder / name
    path.write_text(secret)
    path.chmod(0o600)
    return path


def certificates(folder: Path) -> Path:
    """A tls.properties for members that show each other who they are."""
    authority = Authority(folder / "ca", days=2, now=datetime.datetime.now(datetime.UTC))
    issued = authority.issue("member", ["127.0.0.1"])
    files = {
        "tls.server.certPath": issued.cert,
        "tls.server.keyPath": issued.key,
        "tls.server.trustCertPath": authority.cert,
        "tls.server.need.client.auth": "optional",
        "tls.enable": "true",
        "tls.client.certPath": issued.cert,
        "tls.client.keyPath": issued.key,
        "tls.client.trustCertPath": authority.cert,
    }
    path = folder / "tls.properties"
    path.write_text(properties_text({key: str(value) for key, value in files.items()}))
    return path


def in_sync(admin: Admin) -> list[int]:
    return [
        each.member for group in admin.replica_groups().groups for each in group.members if each.is_in_sync
    ]


def said(member: MemberProcess) -> str:
    return (member.folder / "broker.out").read_text(errors="replace")


def test_a_member_needs_the_secret_or_a_certificate(tmp_path: Path) -> None:
    known = secret_file(tmp_path, "known", "the secret of this group")
    guessed = secret_file(tmp_path, "guessed", "what a stranger takes for it")
    tls = certificates(tmp_path)
    shows = {"tls.config.file": tls, "peerSecretFile": known}
    group = GroupCluster(
        tmp_path / "group",
        # A busy machine is no reason to elect anew.
        conf={**TEST_CONF, "peerSecretFile": known, "groupLeaseSeconds": 6, "groupLagMs": 6000},
        namesrv_conf={"tls.config.file": tls},  # who has certificates asks name servers with TLS, too
    )
    with contextlib.ExitStack() as stack:
        stack.callback(group.kill)
        group.etcd.start()
        group.start_namesrv()
        first, second, third = group.members
        first.conf |= shows
        first.start()
        group.wait_for_leader()
        second.start()
        admin = stack.enter_context(Admin(group.namesrv))
        wait_for(lambda: in_sync(admin) == [1, 2], what="two that know the secret")
        for wrong, refusal in (
            ({"peerSecretFile": guessed}, "does not know the secret"),
            ({}, "it does not sign in"),
        ):
            third.conf = {key: value for key, value in third.conf.items() if key != "peerSecretFile"} | wrong
            third.start()
            wait_for(
                lambda refusal=refusal: refusal in said(first) + said(second),
                what="the refusal",
                state=said(first)[-2000:],
            )
            assert 3 not in in_sync(admin)
            third.kill()
        third.conf |= {"tls.config.file": tls}
        third.start()
        wait_for(
            lambda: in_sync(admin) == [1, 2, 3], what="the one with a certificate", state=said(third)[-2000:]
        )
