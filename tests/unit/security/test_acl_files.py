"""The files of accounts: read as RocketMQ's, watched, changed atomically; a broken one leaves the rules as they were."""

import logging
import os
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rocketeer.errors import ConfigError, RocketeerError
from rocketeer.security.accounts import Permission, parse_accounts
from rocketeer.security.acl_files import AclFiles

RECORDED = Path(__file__).parents[2] / "golden" / "data" / "wire" / "conf" / "plain_acl_before.yml.txt"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "plain_acl.yml"
    shutil.copy(RECORDED, path)
    path.chmod(0o600)
    return tmp_path


def files(conf: Path) -> AclFiles:
    return AclFiles(conf, lambda: 1_700_000_000_000)


def test_the_recorded_file_is_understood(conf: Path) -> None:
    accounts = files(conf).load()
    user, admin = accounts.by_key["RocketMQ"], accounts.by_key["rocketmq2"]
    assert admin.admin
    assert not user.admin
    assert user.secrets == ("12345678",), "YAML reads it as a number"
    assert user.may_topic("topicB", Permission.PUB)
    assert not user.may_topic("topicA", Permission.SUB)
    assert not user.may_topic("unknown", Permission.PUB)
    assert user.may_group("unknown", Permission.SUB)
    assert not user.may_group("groupA", Permission.SUB)
    assert accounts.is_white("192.168.0.9")
    assert not accounts.is_white("192.168.1.9")
    assert "12345678" not in repr(accounts)


def test_changes_are_noticed_and_a_broken_file_is_named_with_its_line(
    conf: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watched = files(conf)
    watched.load()
    assert watched.refresh() is None
    path = conf / "plain_acl.yml"
    good = path.read_text()
    path.write_text(good.replace("topicB=PUB|SUB", "topicB=SUB"))
    accounts = watched.refresh()
    assert accounts is not None
    assert not accounts.by_key["RocketMQ"].may_topic("topicB", Permission.PUB)
    path.write_text("accounts:\n  - accessKey: RocketMQ\n    secretKey: [topsecret1\n")
    with caplog.at_level(logging.ERROR):
        assert watched.refresh() is None
        assert watched.refresh() is None
    assert len(caplog.records) == 1, "said once"
    assert f"{path}:4" in caplog.text
    assert "topsecret1" not in caplog.text
    path.write_text(good)
    accounts = watched.refresh()
    assert accounts is not None
    assert accounts.by_key["RocketMQ"].may_topic("topicB", Permission.PUB)


def test_every_yml_below_acl_counts_and_a_key_belongs_to_one_file(conf: Path) -> None:
    more = conf / "acl" / "team"
    more.mkdir(parents=True)
    (more / "a.yaml").write_text("accounts:\n  - {accessKey: teamuser1, secretKey: secret123, admin: true}\n")
    (conf / "acl" / "notes.txt").write_text("no accounts")
    watched = files(conf)
    assert set(watched.load().by_key) == {"RocketMQ", "rocketmq2", "teamuser1"}
    (more / "b.yml").write_text("accounts:\n  - {accessKey: RocketMQ, secretKey: stolen123, admin: true}\n")
    assert watched.refresh() is None, "the account belongs to the other file"
    (more / "a.yaml").unlink()
    accounts = watched.refresh()
    assert accounts is not None
    assert "teamuser1" not in accounts.by_key


def test_admins_changes_are_written_to_the_file_that_holds_the_account(conf: Path) -> None:
    folder = conf / "acl"
    folder.mkdir()
    theirs = folder / "team.yml"
    theirs.write_text("accounts:\n  - {accessKey: teamuser1, secretKey: secret123}\n")
    theirs.chmod(0o640)
    watched = files(conf)
    watched.load()
    accounts = watched.put_account({"accessKey": "teamuser1", "topicPerms": ["T=PUB"]})
    assert accounts.by_key["teamuser1"].may_topic("T", Permission.PUB)
    content = yaml.safe_load(theirs.read_text())
    assert content["accounts"][0]["secretKey"] == "secret123", "what was not named stays"
    assert content["dataVersion"][0]["counter"] == 1
    assert os.stat(theirs).st_mode & 0o777 == 0o640
    watched.put_account({"accessKey": "newuser12", "secretKey": "12345678"})
    assert any(
        entry["accessKey"] == "newuser12"
        for entry in yaml.safe_load((conf / "plain_acl.yml").read_text())["accounts"]
    )
    with pytest.raises(ConfigError, match="7 characters"):
        watched.put_account({"accessKey": "bad", "secretKey": "1"})
    assert watched.delete_account("nobody12") is None
    deleted = watched.delete_account("newuser12")
    assert deleted is not None
    assert "newuser12" not in deleted.by_key
    assert watched.put_white_list(["10.1.1.1"]).is_white("10.1.1.1")
    with pytest.raises(ConfigError):
        watched.put_white_list(["10.1.1.1"], Path("/etc/passwd"))
    assert watched.refresh() is None, "its own changes are known"


def test_without_any_file_the_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"plain_acl\.yml"):
        files(tmp_path).load()


def test_a_file_that_others_can_read_is_warned_about(conf: Path, caplog: pytest.LogCaptureFixture) -> None:
    (conf / "plain_acl.yml").chmod(0o644)
    files(conf).load()
    assert "chmod 600" in caplog.text


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=12)
    | st.sampled_from(["RocketMQ", "PUB", "T=PUB|SUB", "10.0.0.*"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "accounts",
                    "accessKey",
                    "secretKey",
                    "topicPerms",
                    "groupPerms",
                    "admin",
                    "whiteRemoteAddress",
                    "defaultTopicPerm",
                    "globalWhiteRemoteAddresses",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(values)
def test_any_content_is_accounts_or_a_config_error(content: object) -> None:
    try:
        accounts = parse_accounts(content)
    except ConfigError:
        return
    assert all(len(key) > 6 for key in accounts.by_key)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_in_a_file_are_accounts_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("acl")
    (folder / "plain_acl.yml").write_bytes(data)
    try:
        files(folder).load()
    except RocketeerError:
        return
