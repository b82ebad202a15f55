"""`rocketeer admin COMMAND` and `mqadmin COMMAND`: finds the command, asks before it destroys, shows what came.

Exit code 0: all was done and answered. 1: one sentence on stderr says what was not.
"""

import difflib
import os
import sys
import time
from collections.abc import Sequence
from typing import Final, NoReturn, TextIO

from rocketeer.admin.blocking import Admin
from rocketeer.admin.results import NotAnswered
from rocketeer.cli.admin import commands
from rocketeer.cli.admin.arguments import Parsed, common_options, parse
from rocketeer.cli.admin.declare import ALIASES, COMMANDS, AdminCommand, Subject
from rocketeer.cli.admin.output import Output, json_pieces, plain_lines
from rocketeer.cli.error_output import exit_code
from rocketeer.client.discovery import VARIABLE, find_source
from rocketeer.errors import ConfigError, NoNameServer, RocketeerError

YES_VARIABLE: Final = "MQADMIN_YES"
"""Set to 1 where scripts written for RocketMQ's tool run unchanged: nobody is asked."""


def main() -> NoReturn:
    """The `mqadmin` program."""
    sys.exit(run(sys.argv[1:], "mqadmin"))


def run(words: Sequence[str], program: str) -> int:
    """Run one command; its exit code."""

    def work() -> int:
        try:
            return _run(list(words), program)
        except BrokenPipeError:
            # Whoever read our output has enough; Python would complain once more when it closes it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1

    return exit_code(work, program)


def _run(words: list[str], program: str) -> int:
    commands.load()
    if not words or words in (["help"], ["-h"], ["--help"]):
        print(overview(program))
        return 0
    name = words.pop(0)
    if name == "help":
        print(usage(find(words[0]), program))
        return 0
    command = find(name)
    parsed = parse(command, words)
    if parsed.help:
        print(usage(command, program))
        return 0
    with Admin(_nameserver(parsed), timeout_s=parsed.timeout_s) as admin:
        if command.danger is not None and not _agreed(command, parsed, admin, program):
            print(f"{program}: nothing was changed", file=sys.stderr)
            return 1
        if command.watch is not None and parsed.interval_s is not None:
            return _watch(command, parsed, admin, program)
        return _show(command.run(admin, **parsed.values), parsed, program)


def _nameserver(parsed: Parsed) -> str:
    """As every client finds it; the refusal names our option."""
    try:
        return find_source(parsed.nameserver)
    except NoNameServer:
        if parsed.nameserver:
            raise
        raise ConfigError(f"which cluster? add -n HOST:9876, or set {VARIABLE}") from None


def find(name: str) -> AdminCommand:
    """The command by its name or alias, in capitals or not; a mistyped one is told the nearest."""
    names = {each.lower(): each for each in (*COMMANDS, *ALIASES)}
    exact = names.get(name.lower())
    if exact is not None:
        return COMMANDS[ALIASES.get(exact, exact)]
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    raise ConfigError(
        f"no command {name!r}" + (f"; did you mean {names[near[0]]}?" if near else "; mqadmin lists them all")
    )


# --- showing ------------------------------------------------------------------------------------


def _show(output: Output, parsed: Parsed, program: str) -> int:
    if parsed.json:
        for piece in json_pieces(output):
            sys.stdout.write(piece)
        sys.stdout.write("\n")
    elif sys.stdout.isatty() and not parsed.plain:
        from rich.console import Console

        from rocketeer.cli.admin.terminal import show

        show(Console(), output)
        return 1 if output.failures else 0
    else:
        _print_lines(output)
    sys.stdout.flush()
    return _say_failures(output, program)


def _print_lines(output: Output, *, heading: bool = True) -> None:
    for line in plain_lines(output, heading=heading):
        sys.stdout.write(line + "\n")


def _say_failures(output: Output, program: str) -> int:
    for failure in dict.fromkeys(map(str, output.failures)):
        print(f"{program}: {failure}", file=sys.stderr)
    return 1 if output.failures else 0


def _watch(command: AdminCommand, parsed: Parsed, admin: Admin, program: str) -> int:
    """Run the command again and again until it is interrupted, which is how a watch ends and no failure."""
    assert parsed.interval_s is not None
    try:
        if sys.stdout.isatty() and not (parsed.json or parsed.plain):
            return _watch_on_screen(command, parsed, admin)
        code = 0
        for number in _rounds(parsed):
            output = _round(command, parsed, admin, number)
            if parsed.json:
                code = _show(output, parsed, program)
            else:
                _print_lines(output, heading=number == 0)
                sys.stdout.flush()
                code = _say_failures(output, program)
        return code
    except KeyboardInterrupt:
        return 0


def _round(command: AdminCommand, parsed: Parsed, admin: Admin, number: int) -> Output:
    """Run the command once for a watch: an error in the first round ends it, a later one is shown."""
    try:
        return command.run(admin, **parsed.values)
    except RocketeerError as error:
        if number == 0:
            raise
        return Output([], [], (NotAnswered(command.name, error),))


def _watch_on_screen(command: AdminCommand, parsed: Parsed, admin: Admin) -> int:
    from rich.console import Console

    from rocketeer.cli.admin.terminal import Screen

    code = 0
    with Screen(Console(), command.name) as screen:
        for number in _rounds(parsed):
            output = _round(command, parsed, admin, number)
            screen.draw(
                output, time.strftime("%H:%M:%S") + f"  every {parsed.interval_s:g} s, Ctrl-C ends it"
            )
            code = 1 if output.failures else 0
    return code


def _rounds(parsed: Parsed) -> "_Rounds":
    return _Rounds(parsed.interval_s or 0.0, parsed.rounds)


class _Rounds:
    """Counts from 0, with a pause before each but the first."""

    def __init__(self, every_s: float, most: int | None) -> None:
        self._every_s = every_s
        self._most = most
        self._number = -1

    def __iter__(self) -> "_Rounds":
        return self

    def __next__(self) -> int:
        self._number += 1
        if self._most is not None and self._number >= self._most:
            raise StopIteration
        if self._number:
            time.sleep(self._every_s)
        return self._number


# --- asking -------------------------------------------------------------------------------------


def _agreed(command: AdminCommand, parsed: Parsed, admin: Admin, program: str) -> bool:
    """Show what will happen, and ask for a yes on a terminal; scripts say --yes."""
    assert command.danger is not None
    if parsed.yes or os.environ.get(YES_VARIABLE) == "1":
        return True
    for line in command.danger(admin, **parsed.values):
        print(line, file=sys.stderr)
    if not sys.stdin.isatty():
        raise ConfigError(
            f"{command.name} destroys something and nobody can be asked here: add --yes (or set {YES_VARIABLE}=1)"
        )
    return _asked(sys.stdin, sys.stderr)


def _asked(source: TextIO, target: TextIO) -> bool:
    print("Go on? [y/N] ", end="", file=target, flush=True)
    return source.readline().strip().lower() in ("y", "yes")


# --- help ---------------------------------------------------------------------------------------


def overview(program: str) -> str:
    """Every command by subject, one line each."""
    lines = [f"usage: {program} COMMAND [options]", ""]
    width = max(map(len, COMMANDS)) + 2
    for subject in Subject:
        lines.append(f"{subject.value}:")
        lines += [
            f"  {each.name:<{width}}{each.summary}" for each in COMMANDS.values() if each.subject is subject
        ]
        lines.append("")
    lines.append(f"{program} help COMMAND shows its options. The name server: -n, or NAMESRV_ADDR.")
    return "\n".join(lines)


def usage(command: AdminCommand, program: str) -> str:
    """A command's options."""
    lines = [f"usage: {program} {command.name} [options]", "", command.summary, ""]
    for parameter in command.parameters:
        must = " (required)" if parameter.required else ""
        lines.append(_option_line(parameter.option) + must)
    lines += [_option_line(option) for option in common_options(command)]
    for group in command.one_of:
        options = [f"-{each.option.short}" for each in command.parameters if each.name in group]
        lines += ["", f"One of {' and '.join(options)} is needed."]
    if command.danger is not None:
        lines += ["", "Shows what it will do and asks first."]
    return "\n".join(lines)


def _option_line(option: object) -> str:
    from rocketeer.cli.admin.declare import Option

    assert isinstance(option, Option)
    names = (f"-{option.short}, " if option.short else "    ") + f"--{option.long}"
    names += "" if option.flag else " VALUE"
    return f"  {names:<40}{option.help}"
