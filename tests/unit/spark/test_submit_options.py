"""Options for a session's JVM stand before the user's, for as long as it starts."""

import os

import pytest

from rocketeer.spark.submit_options import SUBMIT_OPTIONS, options_text, submit_options


@pytest.mark.parametrize("users", [None, "-Dmine=1"])
def test_options_are_there_in_the_block_only_and_the_users_stand_last(
    monkeypatch: pytest.MonkeyPatch, users: str | None
) -> None:
    if users is None:
        monkeypatch.delenv(SUBMIT_OPTIONS, raising=False)
    else:
        monkeypatch.setenv(SUBMIT_OPTIONS, users)
    after = [] if users is None else [users]
    with submit_options("-Da=1"), submit_options("-Db=2", "-Dc=3"):
        assert os.environ[SUBMIT_OPTIONS].split() == ["-Db=2", "-Dc=3", "-Da=1", *after]
    assert os.environ.get(SUBMIT_OPTIONS) == users


def _fail() -> None:
    with submit_options("-Da=1"):
        raise ZeroDivisionError


def test_a_session_that_does_not_start_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUBMIT_OPTIONS, raising=False)
    with pytest.raises(ZeroDivisionError):
        _fail()
    assert SUBMIT_OPTIONS not in os.environ


def test_what_the_launcher_would_split_is_quoted() -> None:
    assert options_text("-Da=b", "-Dc=d e", 'x"y', "a\\b") == '-Da=b "-Dc=d e" "x\\"y" "a\\\\b"'
