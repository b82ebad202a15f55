"""Runs a command of `mqadmin` in this process, as the program does: `from support.mqadmin import Mqadmin`."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from rocketeer.cli.admin.program import run


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def rows(self) -> list[list[str]]:
        """The words of each line."""
        return [line.split() for line in self.lines]


class Mqadmin:
    """At one name server."""

    def __init__(self, nameserver: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._nameserver = nameserver
        self._capsys = capsys

    def run(self, *words: object) -> Ran:
        """Any end."""
        self._capsys.readouterr()
        code = run([*map(str, words), "-n", self._nameserver], "mqadmin")
        printed = self._capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    def __call__(self, *words: object) -> Ran:
        """It must succeed."""
        ran = self.run(*words)
        assert ran.code == 0, ran.err
        assert ran.err == ""
        return ran

    def json(self, *words: object) -> Any:
        """Its --json; it must succeed."""
        return json.loads(self(*words, "--json").out)
