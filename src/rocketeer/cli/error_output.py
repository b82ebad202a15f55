"""How an error reaches the person who typed a command: one line on stderr, exit code 1."""

import sys
from collections.abc import Callable
from typing import Any, NoReturn

from rocketeer.errors import RocketeerError


def say(text: str, program: str = "rocketeer") -> None:
    """A line for the person at the terminal."""
    print(f"{program}: {text}", file=sys.stderr, flush=True)


def exit_code(work: Callable[[], int], program: str) -> int:
    """Do the work and return its exit code; whatever the user got wrong is one line, and exit code 1."""
    try:
        return work()
    except RocketeerError as error:
        say(str(error), program)
    except OSError as error:
        say(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""), program)
    except KeyboardInterrupt:
        say("interrupted", program)
    return 1


def run_program(work: Callable[[], Any], program: str) -> NoReturn:
    """Run a typer program to its end; it exits by itself unless its user got something wrong."""
    sys.exit(exit_code(work, program) or 1)
