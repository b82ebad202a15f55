"""The files that accounts stand in: `conf/plain_acl.yml` and every yml under `conf/acl/`.

Read again when one changes; a file that cannot be understood leaves what it said before in force, and is named
with its line. Changes by admins are written to the file that holds the account, whole or not at all.
"""

import contextlib
import hashlib
import logging
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rocketeer.errors import ConfigError
from rocketeer.security.accounts import Account, Accounts, parse_account, parse_accounts
from rocketeer.whole_file import replace_file

log = logging.getLogger(__name__)

FILE_BYTES_MAX = 16 << 20


@dataclass(frozen=True)
class AclFileVersion:
    """How often a file was changed by admins, and when last."""

    counter: int
    timestamp_ms: int


@dataclass
class _AccountFile:
    digest: bytes
    content: dict[str, Any] = field(repr=False)
    accounts: Accounts = field(repr=False)
    version: AclFileVersion


class AclFiles:
    """Knows all files. `refresh` and the changes do IO: call them in a thread, one at a time."""

    def __init__(self, conf: Path, now_ms: Callable[[], int]) -> None:
        self._main = conf / "plain_acl.yml"
        self._folder = conf / "acl"
        self._now_ms = now_ms
        self._files: dict[Path, _AccountFile] = {}
        self._broken: dict[Path, bytes] = {}
        self._warned: set[Path] = set()

    @property
    def versions(self) -> dict[str, AclFileVersion]:
        return {str(path): file.version for path, file in self._files.items()}

    def load(self) -> Accounts:
        """The first reading: a file that cannot be understood stops the start. Raises ConfigError."""
        for path in self._paths():
            self._read(path, self._bytes(path))
        if not self._files:
            raise ConfigError(
                f"aclEnable is set, but neither {self._main} nor a yml under {self._folder} exists"
            )
        return self._merged()

    def refresh(self) -> Accounts | None:
        """All accounts if a file came, went or changed; None otherwise."""
        changed = False
        paths = self._paths()
        for path in [path for path in self._files if path not in paths]:
            log.warning("acl file is gone, its accounts with it path=%s", path)
            del self._files[path]
            changed = True
        for path in paths:
            try:
                data = self._bytes(path)
            except (OSError, ConfigError) as error:
                self._report(path, b"unreadable", error)
                continue
            digest = hashlib.sha256(data).digest()
            known = self._files.get(path)
            if (known is not None and known.digest == digest) or self._broken.get(path) == digest:
                continue
            try:
                self._read(path, data)
            except ConfigError as error:
                self._report(path, digest, error)
                continue
            log.info("acl file read path=%s accounts=%d", path, len(self._files[path].accounts.by_key))
            changed = True
        return self._merged() if changed else None

    # --- what admins change ------------------------------------------------------------------

    def put_account(self, entry: dict[str, Any]) -> Accounts:
        """Create the account, or change the fields that `entry` names. Raises ConfigError."""
        key = str(entry.get("accessKey", ""))
        path, file = self._home_of(key)
        accounts = list(file.content.get("accounts") or [])
        place = _place_of(accounts, key)
        merged = {**(accounts[place] if place is not None else {}), **entry}
        parse_account(merged)
        if place is None:
            accounts.append(merged)
        else:
            accounts[place] = merged
        self._write(path, {**file.content, "accounts": accounts}, file.version)
        return self._merged()

    def delete_account(self, key: str) -> Accounts | None:
        """None if there is no such account."""
        path, file = self._home_of(key)
        accounts = list(file.content.get("accounts") or [])
        place = _place_of(accounts, key)
        if place is None:
            return None
        del accounts[place]
        self._write(path, {**file.content, "accounts": accounts}, file.version)
        return self._merged()

    def put_white_list(self, addresses: list[str], path: Path | None = None) -> Accounts:
        """Replace the global white list of the main file, or of the one named."""
        target = path or self._main
        file = self._files.get(target)
        if file is None:
            raise ConfigError(f"{target} is no acl file of this server")
        self._write(target, {**file.content, "globalWhiteRemoteAddresses": addresses}, file.version)
        return self._merged()

    # --- inside ------------------------------------------------------------------------------

    def _paths(self) -> list[Path]:
        found: list[Path] = [self._main] if self._main.is_file() else []
        with contextlib.suppress(OSError):
            found += sorted(
                path
                for path in self._folder.rglob("*")
                if path.suffix in (".yml", ".yaml") and path.is_file()
            )
        return found

    def _bytes(self, path: Path) -> bytes:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError(f"{path} is larger than {FILE_BYTES_MAX} bytes")
        if mode & 0o077 and path not in self._warned:
            self._warned.add(path)
            log.warning(
                "acl file holds secrets and can be read by others path=%s mode=%o: chmod 600", path, mode
            )
        return data

    def _read(self, path: Path, data: bytes) -> None:
        content = _parse(path, data)
        try:
            accounts = parse_accounts(content)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        for other, file in self._files.items():
            for key in accounts.by_key:
                if other != path and key in file.accounts.by_key:
                    raise ConfigError(f"{path}: the accessKey {key} belongs to {other}")
        self._broken.pop(path, None)
        self._files[path] = _AccountFile(
            hashlib.sha256(data).digest(), content or {}, accounts, _version(content or {}, self._now_ms())
        )

    def _report(self, path: Path, digest: bytes, error: Exception) -> None:
        if self._broken.get(path) != digest:
            log.error("acl file not taken, what it said before stays in force error=%s", error)
            self._broken[path] = digest

    def _merged(self) -> Accounts:
        by_key: dict[str, Account] = {}
        white_lists: list[Callable[[str], bool]] = []
        for file in self._files.values():
            by_key.update(file.accounts.by_key)
            white_lists.extend(file.accounts.white_lists)
        return Accounts(by_key, tuple(white_lists))

    def _home_of(self, key: str) -> tuple[Path, _AccountFile]:
        """The file an account stands in; the main one for a new account."""
        for path, file in self._files.items():
            if key in file.accounts.by_key:
                return path, file
        if self._main in self._files:
            return self._main, self._files[self._main]
        return next(iter(self._files.items()))

    def _write(self, path: Path, content: dict[str, Any], version: AclFileVersion) -> None:
        version = AclFileVersion(version.counter + 1, self._now_ms())
        content["dataVersion"] = [{"counter": version.counter, "timestamp": version.timestamp_ms}]
        data = yaml.safe_dump(content, sort_keys=False, allow_unicode=True).encode()
        parse_accounts(yaml.safe_load(data))  # never write what could not be read again
        replace_file(path, data, mode=stat.S_IMODE(path.stat().st_mode))
        self._read(path, data)


def _place_of(accounts: Iterable[Any], key: str) -> int | None:
    for place, entry in enumerate(accounts):
        if isinstance(entry, dict) and str(entry.get("accessKey")) == key:
            return place
    return None


def _parse(path: Path, data: bytes) -> Any:
    try:
        return yaml.safe_load(data)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f":{mark.line + 1}" if mark is not None else ""
        # Without the context: it would quote the line, and that may hold a secret.
        raise ConfigError(f"{path}{line}: {error.problem or 'no YAML'}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: no YAML ({type(error).__name__})") from None


def _version(content: dict[str, Any], now_ms: int) -> AclFileVersion:
    entries = content.get("dataVersion")
    if isinstance(entries, list) and entries and isinstance(entries[0], dict):
        counter, timestamp = entries[0].get("counter"), entries[0].get("timestamp")
        if isinstance(counter, int) and isinstance(timestamp, int):
            return AclFileVersion(counter, timestamp)
    return AclFileVersion(0, now_ms)
