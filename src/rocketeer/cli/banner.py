"""The first thing a newcomer sees: where the servers are, where the messages lie, what to try next."""

import shutil
import sys
from ipaddress import ip_address
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from rocketeer import __version__
from rocketeer.cli.up_spec import UpSpec


def show_banner(spec: UpSpec, next_arguments: str, console: str = "off") -> None:
    """Coloured on a terminal, plain lines everywhere else."""
    rows = [("name server", spec.namesrv_address)]
    if spec.etcd is not None:
        rows.append(("etcd", spec.etcd.endpoint))
    rows += [(broker.label, broker.address) for broker in spec.brokers]
    if console != "off":
        rows.append(("console", console))
    store = spec.brokers[0].store_path if spec.etcd is None else spec.etcd.folder.parent
    rows.append(("store", str(store.absolute())))
    lines = [
        f"[bold green]Rocketeer {__version__} is up[/]",
        *(f"  [dim]{name:<12}[/] [bold]{escape(value)}[/]" for name, value in rows),
        f"  [dim]{'try next':<12}[/] [cyan]{escape(f'{_program()} {next_arguments}')}[/]",
        "  [dim]Ctrl-C stops it and keeps every message[/]",
    ]
    if not ip_address(spec.brokers[0].bind_host).is_loopback:
        lines.append(
            "  [bold yellow]warning[/]      nobody has to sign in, and all networks reach it: see docs/security.md"
        )
    # Never wrapped: a path that is cut in two cannot be copied.
    Console(highlight=False, soft_wrap=True).print("\n".join(lines))
    sys.stdout.flush()


def _program() -> str:
    """How this program is called from here: a newcomer's shell does not know .venv/bin."""
    if shutil.which("rocketeer"):
        return "rocketeer"
    path = Path(sys.argv[0]).absolute()
    if path.name != "rocketeer":
        return "python -m rocketeer"
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
