"""`python -m rocketeer` is the same as `rocketeer`; both say which extra to install when one is missing."""

import sys
from importlib import import_module
from typing import NoReturn

from rocketeer.extras import advice


def main() -> NoReturn:
    """The `rocketeer` program."""
    _run("rocketeer", "rocketeer.cli.main")


def mqadmin() -> NoReturn:
    """The `mqadmin` program."""
    _run("mqadmin", "rocketeer.cli.admin.program")


def mqnamesrv() -> NoReturn:
    """The `mqnamesrv` program."""
    _run("mqnamesrv", "rocketeer.cli.mq_programs", "mqnamesrv")


def mqbroker() -> NoReturn:
    """The `mqbroker` program."""
    _run("mqbroker", "rocketeer.cli.mq_programs", "mqbroker")


def mqshutdown() -> NoReturn:
    """The `mqshutdown` program."""
    _run("mqshutdown", "rocketeer.cli.mq_programs", "mqshutdown")


def _run(name: str, module: str, function: str = "main") -> NoReturn:
    try:
        getattr(import_module(module), function)()
    except ModuleNotFoundError as error:  # commands import what they need when they are called
        text = advice(f"the command {_command(name)}", error)
        if text is None:
            raise
        print(f"{name}: {text}", file=sys.stderr)
        sys.exit(1)
    sys.exit(0)


def _command(name: str) -> str:
    words = [word for word in sys.argv[1:2] if not word.startswith("-")]
    return " ".join([name, *words])


if __name__ == "__main__":
    main()
