"""Where a client's access key and secret come from: arguments, the environment, or a file, in this order.

The file is YAML with `accessKey` and `secretKey`, as RocketMQ's `conf/tools.yml`.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rocketeer.errors import ConfigError

log = logging.getLogger(__name__)

ACCESS_KEY_VARIABLE = "ROCKETEER_ACCESS_KEY"
SECRET_KEY_VARIABLE = "ROCKETEER_SECRET_KEY"
FILE_VARIABLE = "ROCKETEER_CREDENTIALS"


@dataclass(frozen=True)
class Credentials:
    """An account's key and secret; the secret is never shown."""

    access_key: str
    secret_key: str = field(repr=False)


def find_credentials(
    access_key: str | None = None,
    secret_key: str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
) -> Credentials | None:
    """None when nobody named any. Raises ConfigError for half of them, and for a file of no use."""
    if access_key is not None or secret_key is not None:
        return _both(access_key, secret_key, "access_key= and secret_key=")
    key, secret = environment.get(ACCESS_KEY_VARIABLE), environment.get(SECRET_KEY_VARIABLE)
    if key is not None or secret is not None:
        return _both(key, secret, f"{ACCESS_KEY_VARIABLE} and {SECRET_KEY_VARIABLE}")
    if environment.get(FILE_VARIABLE):
        return read_credentials(Path(environment[FILE_VARIABLE]))
    return None


def read_credentials(path: Path) -> Credentials:
    import yaml  # only who has a file needs it

    try:
        content = yaml.safe_load(path.read_bytes())
        mode = path.stat().st_mode & 0o777
    except OSError as error:
        raise ConfigError(f"the credentials file {path} cannot be read: {error.strerror}") from None
    except yaml.YAMLError:
        raise ConfigError(f"the credentials file {path} is no YAML") from None
    if mode & 0o077:
        log.warning("credentials file can be read by others path=%s mode=%o: chmod 600", path, mode)
    if not isinstance(content, dict):
        raise ConfigError(f"the credentials file {path} has no accessKey and secretKey")
    key, secret = content.get("accessKey"), content.get("secretKey")
    return _both(
        None if key is None else str(key),
        None if secret is None else str(secret),
        f"accessKey and secretKey in {path}",
    )


def _both(key: str | None, secret: str | None, names: str) -> Credentials:
    if not key or not secret:
        raise ConfigError(f"{names} go together: one of them is missing")
    return Credentials(key, secret)
