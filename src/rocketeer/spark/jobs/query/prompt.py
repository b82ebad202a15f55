"""The prompt of `rocketeer spark query`: lines in, statements out, until `\\q` or the end of input."""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from rocketeer.spark.jobs.query.sql_text import says_something, split_statements
from rocketeer.spark.jobs.running import say
from rocketeer.spark.jobs.signals import Terminated

FIRST: Final = "rocketeer> "
NEXT: Final = "      ...> "
HISTORY_LINES_MAX: Final = 1000
HELP: Final = r"""SQL ends with ;  and may take several lines. A topic is a table;
names that are no words are written `in-backticks`.
\d          tables          \d TOPIC    a table's columns
\?          this            \q          leave (or Ctrl-D)
Ctrl-C cancels the query that runs, or the lines that were typed."""


class Prompt:
    """`execute` runs a statement, `cancel` ends what runs, `commands` are the words that begin with a backslash."""

    def __init__(
        self,
        execute: Callable[[str], None],
        cancel: Callable[[], None],
        commands: Mapping[str, Callable[[str], None]],
    ) -> None:
        self._execute = execute
        self._cancel = cancel
        self._commands = commands

    def run(self) -> None:
        """Until the person leaves. What `execute` raises must be said by itself; Ctrl-C comes back to the prompt."""
        history = _History()
        text = ""
        while True:
            try:
                line = input(NEXT if says_something(text) else FIRST)
            except EOFError:
                print(file=sys.stderr)
                break
            except Terminated:
                raise
            except KeyboardInterrupt:
                print(file=sys.stderr)
                text = ""
                continue
            word = line.strip()
            if not says_something(text) and word.startswith("\\"):
                if word in ("\\q", "\\quit"):
                    break
                self._guarded(lambda word=word: self._command(word))  # type: ignore[misc]
                continue
            text += f"{line}\n"
            done, text = split_statements(text)
            for statement in done:
                history.add(f"{statement};")
                if not self._guarded(lambda statement=statement: self._execute(statement)):  # type: ignore[misc]
                    break
            if not says_something(text):
                text = ""
        history.save()

    def _command(self, word: str) -> None:
        name, _, argument = word.partition(" ")
        if name == "\\?":
            print(HELP)
        elif name in self._commands:
            self._commands[name](argument.strip().rstrip(";").strip("` "))
        else:
            say(f"{name} is unknown; \\? shows what there is")

    def _guarded(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except Terminated:
            raise
        except KeyboardInterrupt:
            self._cancel()
            say("cancelled")
            return False
        return True


class _History:
    """Statements of earlier sessions, for the arrow keys; without readline or a home there is none."""

    def __init__(self) -> None:
        self._path = (
            Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
            / "rocketeer"
            / "sql_history"
        )
        self._readline = None
        if not sys.stdin.isatty():
            return
        with suppress(ImportError, OSError):
            import readline

            self._readline = readline
            readline.set_auto_history(False)
            readline.set_history_length(HISTORY_LINES_MAX)
            readline.read_history_file(self._path)

    def add(self, statement: str) -> None:
        if self._readline is not None:
            self._readline.add_history(" ".join(statement.split()))

    def save(self) -> None:
        if self._readline is not None:
            with suppress(OSError):
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._readline.write_history_file(self._path)
