"""Files with secrets: what is in them is found, who else can read them is said, and nothing of it is shown."""

from pathlib import Path

import pytest

from rocketeer.errors import ConfigError
from rocketeer.security.credentials import find_credentials, read_credentials
from rocketeer.security.peer import read_secrets


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, True), (0o604, True)])
def test_files_that_others_can_read_are_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: bool
) -> None:
    account, secret = tmp_path / "account.yml", tmp_path / "secret"
    account.write_text("accessKey: shopuser1\nsecretKey: hush-hush-hush-hush\n")
    secret.write_text("hush-hush-hush-hush\n")
    for path in (account, secret):
        path.chmod(mode)
    found = read_credentials(account)
    assert read_secrets(secret) == (b"hush-hush-hush-hush",)
    assert [str(path) in caplog.text for path in (account, secret)] == [warned, warned]
    assert "hush" not in caplog.text + repr(found)


@pytest.mark.parametrize("text", ["", "short\n", "a line that is long enough\n" * 3, "\n\n", "x" * 15])
def test_a_secret_file_of_no_use_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "secret"
    path.write_text(text)
    with pytest.raises(ConfigError, match="secret file") as caught:
        read_secrets(path)
    assert str(path) in str(caught.value)
    assert "long enough" not in str(caught.value)


def test_arguments_go_before_the_environment_and_that_before_a_file(tmp_path: Path) -> None:
    path = tmp_path / "account.yml"
    path.write_text("accessKey: of-the-file\nsecretKey: 12345678\n")
    file = {"ROCKETEER_CREDENTIALS": str(path)}
    variables = {**file, "ROCKETEER_ACCESS_KEY": "of-the-environment", "ROCKETEER_SECRET_KEY": "s"}
    for arguments, environment, expected in (
        (("of-the-arguments", "s"), variables, "of-the-arguments"),
        ((), variables, "of-the-environment"),
        ((), file, "of-the-file"),
    ):
        found = find_credentials(*arguments, environment=environment)
        assert found is not None
        assert found.access_key == expected
    assert find_credentials(environment={}) is None
