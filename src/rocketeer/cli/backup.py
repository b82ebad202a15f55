"""`rocketeer backup STORE TO` and `rocketeer restore BACKUP STORE`: see `rocketeer.backup`."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from rocketeer.cli.progress_line import ProgressLine

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

    with closing(ProgressLine(quiet=quiet)) as line:
        saved = save(Source(store, commitlog), to, _shown_on(line))
    log = saved.manifest
    print(
        f"{to}: log from {log.log_begin:,} to {log.log_end:,}, {len(log.files):,} files; copied "
        f"{saved.copied_files:,} ({_size(saved.copied_bytes)}), unchanged {saved.kept_files:,}; "
        f"{line.seconds:.1f} s",
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
    with closing(ProgressLine(quiet=quiet)) as line:
        tell = _shown_on(line)
        manifest = restoring.check(backup, tell) if store is None else restoring.restore(backup, store, tell)
    done = f"{backup} is whole" if store is None else f"{store} restored"
    log = f"log from {manifest.log_begin:,} to {manifest.log_end:,}"
    print(f"{done}: {log}, {len(manifest.files):,} files; {line.seconds:.1f} s", flush=True)
    if store is not None:
        print(f"rocketeer audit {store}    proves it; the broker's first start completes queues and index")


def _shown_on(line: ProgressLine) -> Callable[[str, int], None]:
    """Show which file is copied, and how many bytes all of them have so far."""
    copied = 0

    def tell(name: str, done: int) -> None:
        nonlocal copied
        copied += done
        line.show(f"{_size(copied)}  {line.seconds:.0f} s  {name}")

    return tell


def _size(count: int) -> str:
    return f"{count / (1 << 20):,.1f} MiB"
