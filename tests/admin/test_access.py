"""The commands about accounts, at a broker that has some: they work for an admin and for nobody else."""

import io
from collections.abc import Iterator

import pytest

from rocketeer import Admin
from rocketeer.errors import RocketeerError
from rocketeer.testing import Cluster, cluster
from support.mqadmin import Mqadmin

ACCOUNTS = """
accounts:
- accessKey: operator1
  secretKey: a-long-secret
  admin: true
- accessKey: shopuser1
  secretKey: a-long-secret
  admin: false
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("home")
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    (home / "conf" / "plain_acl.yml").chmod(0o600)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ROCKETMQ_HOME", str(home))
        with cluster(broker={"acl_enable": True}) as running:
            yield running


@pytest.fixture(autouse=True)
def _operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETEER_ACCESS_KEY", "operator1")
    monkeypatch.setenv("ROCKETEER_SECRET_KEY", "a-long-secret")


def test_an_admin_makes_changes_and_deletes_an_account(
    guarded: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    mqadmin = Mqadmin(guarded.nameserver, capsys)
    made = mqadmin(
        "updateAclConfig", "-b", guarded.broker, "-a", "newuser12", "-s", "12345678", "-t", "T=PUB", "-g", "G=SUB",
        "-i", "DENY", "-u", "SUB",
    )  # fmt: skip
    assert made.lines == [f"create or update plain access config to {guarded.broker} success."]
    (row,) = mqadmin.json("clusterAclConfigVersion", "-c", "DefaultCluster")
    assert (row["broker"], row["address"]) == ("broker-a", guarded.broker)
    assert row["file"].endswith("plain_acl.yml")
    assert mqadmin("updateGlobalWhiteAddr", "-b", guarded.broker, "-g", "192.0.2.*").lines == [
        f"update global white remote addresses to {guarded.broker} success."
    ]
    assert mqadmin("deleteAclConfig", "-c", "DefaultCluster", "-a", "newuser12", "--yes").lines == [
        f"delete plain access config account from {guarded.broker} success.",
        "account's accesskey is:newuser12",
    ]
    assert mqadmin.run("deleteAclConfig", "-b", guarded.broker, "-a", "newuser12", "--yes").code == 1


def test_a_secret_can_come_by_standard_input(
    guarded: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mqadmin = Mqadmin(guarded.nameserver, capsys)
    monkeypatch.setattr("sys.stdin", io.StringIO("from-standard-input\n"))
    mqadmin("updateAclConfig", "-b", guarded.broker, "-a", "quietuser", "-s", "-", "-m", "true")
    with Admin(guarded.nameserver, access_key="quietuser", secret_key="from-standard-input") as admin:
        admin.broker_runtime(guarded.broker)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert mqadmin.run("updateAclConfig", "-b", guarded.broker, "-a", "quietuser", "-s", "-").code == 1


def test_who_is_no_admin_is_refused_in_one_sentence(guarded: Cluster) -> None:
    with (
        Admin(guarded.nameserver, access_key="shopuser1", secret_key="a-long-secret") as admin,
        pytest.raises(RocketeerError, match="shopuser1"),
    ):
        admin.broker_runtime(guarded.broker)
