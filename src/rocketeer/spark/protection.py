"""The options with which source and sink sign in and use TLS; what the driver's environment names goes to the tasks.

Secrets are in the options of a query only if somebody writes them there; Spark redacts those (their names are of the
kind that `spark.redaction.regex` knows), and nothing here shows them. From the environment they never become options.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from rocketeer.client.secure import TLS_FILE_VARIABLE, ConnectionSecurity, connection_security
from rocketeer.clock import SystemClock
from rocketeer.errors import ConfigError
from rocketeer.security.credentials import find_credentials
from rocketeer.security.tls import TlsConfig, client_tls, load_tls_properties
from rocketeer.spark.option_fields import option
from rocketeer.spark.option_texts import flag, text_of


@dataclass(frozen=True)
class Protection:
    """An account and TLS; by default neither. Hashable: connections are kept by it."""

    access_key: str | None = option("accessKey", text_of)
    secret_key: str | None = option("secretKey", text_of, shown=False)
    tls: bool = option("tls", flag, False)
    tls_trust: str | None = option("tlsTrust", text_of)
    tls_cert: str | None = option("tlsCert", text_of)
    tls_key: str | None = option("tlsKey", text_of)
    tls_key_password: str | None = option("tlsKeyPassword", text_of, shown=False)
    tls_verify: bool = option("tlsVerify", flag, True)
    tls_check_hostname: bool = option("tlsCheckHostname", flag, True)

    @property
    def protection(self) -> "Protection":
        """This part of the options alone."""
        return Protection(
            self.access_key,
            self.secret_key,
            self.tls,
            self.tls_trust,
            self.tls_cert,
            self.tls_key,
            self.tls_key_password,
            self.tls_verify,
            self.tls_check_hostname,
        )

    def security(self) -> ConnectionSecurity:
        """For the connections of this process. Raises ConfigError for files of no use."""
        config = TlsConfig(
            cert=_path(self.tls_cert),
            key=_path(self.tls_key),
            key_password=self.tls_key_password,
            trust=_path(self.tls_trust),
            verify=self.tls_verify,
            check_hostname=self.tls_check_hostname,
        )
        return connection_security(
            self.access_key,
            self.secret_key,
            config if self.tls else False,
            now_ms=SystemClock().now_ms,
            environment={},
        )


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


P = TypeVar("P", bound=Protection)


def with_environment(options: P, environment: Mapping[str, str] = os.environ) -> P:
    """What the options do not say, as the environment of this process says it. Raises ConfigError."""
    account = find_credentials(options.access_key, options.secret_key, environment=environment)
    if account is not None:
        options = replace(options, access_key=account.access_key, secret_key=account.secret_key)
    given = options.protection
    if not given.tls and replace(given, access_key=None, secret_key=None) != Protection():
        raise ConfigError("options that begin with tls have no effect unless the option 'tls' is true")
    if not options.tls and environment.get(TLS_FILE_VARIABLE):
        config = client_tls(load_tls_properties(Path(environment[TLS_FILE_VARIABLE])))
        if config is not None:
            options = replace(
                options,
                tls=True,
                tls_trust=_text(config.trust),
                tls_cert=_text(config.cert),
                tls_key=_text(config.key),
                tls_key_password=config.key_password,
                tls_verify=config.verify,
                tls_check_hostname=config.check_hostname,
            )
    return options
