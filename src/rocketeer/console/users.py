"""Who may sign in: a YAML file, `name: {password: <argon2 hash>, role: viewer|operator|admin}`."""

import logging
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import yaml
from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from rocketeer.errors import ConfigError
from rocketeer.whole_file import replace_file

log = logging.getLogger(__name__)


class UserRole(IntEnum):
    """What somebody may do; each may do what those before may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


@dataclass(frozen=True)
class User:
    name: str
    role: UserRole


NOBODY_ASKED = User("local", UserRole.ADMIN)
"""The user that everybody is where nobody has to sign in."""


class Users:
    """Read again when the file changes, so that who is taken out of it is out; passwords are kept hashed only."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError."""
        self._path = path
        self._hasher = PasswordHasher()
        self._hashes: dict[str, str] = {}
        self._roles: dict[str, UserRole] = {}
        # Checked for names that do not exist, so that the time an answer takes tells no names.
        self._dummy = self._hasher.hash("nobody has this password")
        self._seen = _state(path)
        self._load()

    def _load(self) -> None:
        hashes: dict[str, str] = {}
        roles: dict[str, UserRole] = {}
        for name, fields in _read(self._path).items():
            try:
                hashes[name] = str(fields["password"])
                roles[name] = UserRole[str(fields["role"]).upper()]
            except (KeyError, TypeError):
                raise ConfigError(
                    f"{self._path}: the user {name} needs password and role (viewer, operator, admin)"
                ) from None
        self._hashes, self._roles = hashes, roles

    def _refresh(self) -> None:
        """A file that cannot be used any more lets nobody in."""
        state = _state(self._path)
        if state == self._seen:
            return
        self._seen = state
        try:
            self._load()
        except ConfigError as error:
            log.error("console users not read error=%s", error)
            self._hashes, self._roles = {}, {}

    def sign_in(self, name: str, password: str) -> User | None:
        """Takes some 50 ms on purpose: call it in a thread."""
        self._refresh()
        known = name in self._roles
        try:
            self._hasher.verify(self._hashes.get(name, self._dummy), password)
        except (Argon2Error, InvalidHashError):
            return None
        return User(name, self._roles[name]) if known else None

    def find(self, name: str) -> User | None:
        self._refresh()
        role = self._roles.get(name)
        return None if role is None else User(name, role)


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def add_user(path: Path, name: str, password: str, role: UserRole) -> None:
    """Add one to the file, or change one; the file is made 0600."""
    users = _read(path) if path.exists() else {}
    users[name] = {"password": PasswordHasher().hash(password), "role": role.name.lower()}
    replace_file(path, yaml.safe_dump(users).encode(), mode=0o600)


def _read(path: Path) -> dict[str, dict[str, object]]:
    try:
        content = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"the file of users {path} cannot be read: {error.strerror}") from None
    except yaml.YAMLError:
        raise ConfigError(f"the file of users {path} is no YAML") from None
    if not isinstance(content, dict) or not all(isinstance(fields, dict) for fields in content.values()):
        raise ConfigError(f"the file of users {path} is not of the form name: {{password:, role:}}")
    return {str(name): fields for name, fields in content.items()}
