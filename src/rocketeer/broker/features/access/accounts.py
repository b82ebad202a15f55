"""The accounts in force: read from their files, watched, and changed there first."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rocketeer.security.access import AccessControl
from rocketeer.security.acl_files import AclFiles, AclFileVersion
from rocketeer.threads import finish_in_thread


class AccountsInForce:
    """Accounts of one broker; files are read and written in a thread, one at a time."""

    def __init__(self, control: AccessControl, files: AclFiles) -> None:
        self._control = control
        self._files = files
        self._busy = asyncio.Lock()

    def load(self) -> None:
        """Read the account files; called before the port opens. Raises ConfigError."""
        self._control.accounts = self._files.load()

    @property
    def versions(self) -> Mapping[str, AclFileVersion]:
        """Versions of the account files, by path."""
        return self._files.versions

    async def watch(self) -> None:
        """Take over what somebody has changed in the files."""
        async with self._busy:
            accounts = await finish_in_thread(self._files.refresh)
        if accounts is not None:
            self._control.accounts = accounts

    async def put_account(self, entry: dict[str, Any]) -> None:
        """Create or change an account. Raises ConfigError or OSError."""
        async with self._busy:
            self._control.accounts = await finish_in_thread(self._files.put_account, entry)

    async def delete_account(self, key: str) -> bool:
        """False when there is no such account. Raises ConfigError or OSError."""
        async with self._busy:
            accounts = await finish_in_thread(self._files.delete_account, key)
        if accounts is None:
            return False
        self._control.accounts = accounts
        return True

    async def put_white_list(self, addresses: list[str], path: Path | None) -> None:
        """Set who need not sign in. Raises ConfigError or OSError."""
        async with self._busy:
            self._control.accounts = await finish_in_thread(self._files.put_white_list, addresses, path)
