"""`rocketeer backup STORE TO` and `rocketeer restore BACKUP STORE`: see `rocketeer.backup`."""

import contextlib
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

SHOW_S = 0.5


class Progress:
    """What is being copied, on one line of the terminal; nothing where there is none."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet or not sys.stderr.isatty()
        self._began_s = self._said_s = time.monotonic()
        self._bytes = 0

    def __call__(self, name: str, done: int) -> None:
        self._bytes += done
        now_s = time.monotonic()
        if not self._quiet and now_s - self._said_s >= SHOW_S:
            self._said_s = now_s
            text = f"{_size(self._bytes)}  {now_s - self._began_s:.0f} s  {name}"
            print(f"\r{text[:100]:<100}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._said_s > self._began_s:
            with contextlib.suppress(OSError):
                print("\r" + " " * 100, end="\r", file=sys.stderr, flush=True)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began_s


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


def backup(
    store: Annotated[
        Path, typer.Argument(help="A broker's store folder (storePathRootDir), running or not.")
    ],
    to: Annotated[Path, typer.Argument(help="The backup: a new folder, or the one of the last time.")],
    commitlog: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The folder of the log, if it is not STORE/commitlog."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Copy a store, running or not, into a backup; what the backup has already is not copied again."""
    from rocketeer.backup.saving import save
    from rocketeer.backup.source import Source

    progress = Progress(quiet=quiet)
    try:
        saved = save(Source(store, commitlog), to, progress)
    finally:
        progress.end()
    log = saved.manifest
    print(
        f"{to}: log from {log.log_begin:,} to {log.log_end:,}, {len(log.files):,} files; copied "
        f"{saved.copied_files:,} ({_size(saved.copied_bytes)}), unchanged {saved.kept_files:,}; "
        f"{progress.seconds:.1f} s",
        flush=True,
    )


def restore(
    backup: Annotated[Path, typer.Argument(help="A backup made by `rocketeer backup`.")],
    store: Annotated[
        Path | None, typer.Argument(help="An empty folder, or one that is not there yet.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Restore nothing: read the backup and compare its checksums.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Make a store from a backup, every byte compared with its checksum."""
    from rocketeer.backup import restoring
    from rocketeer.errors import ConfigError

    if check == (store is not None):
        raise ConfigError("give the folder to restore to, or --check, and not both")
    progress = Progress(quiet=quiet)
    try:
        manifest = (
            restoring.check(backup, progress) if store is None else restoring.restore(backup, store, progress)
        )
    finally:
        progress.end()
    done = f"{backup} is whole" if store is None else f"{store} restored"
    log = f"log from {manifest.log_begin:,} to {manifest.log_end:,}"
    print(f"{done}: {log}, {len(manifest.files):,} files; {progress.seconds:.1f} s", flush=True)
    if store is not None:
        print(f"rocketeer audit {store}    proves it; the broker's first start completes queues and index")


def _size(count: int) -> str:
    return f"{count / (1 << 20):,.1f} MiB"
