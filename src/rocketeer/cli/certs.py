"""`rocketeer certs`: a test authority, certificates signed by it, and the `tls.properties` that name them."""

import datetime
import re
from pathlib import Path
from typing import Annotated, Final

import typer

from rocketeer.config.properties import properties_text
from rocketeer.errors import ConfigError

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")


def certs(
    folder: Annotated[Path, typer.Argument(help="Where the files go; an authority that is there is used.")],
    host: Annotated[
        list[str] | None, typer.Option(help="A name or address the server is reached by; repeat it.")
    ] = None,
    name: Annotated[str, typer.Option(help="Of the certificate's files.")] = "server",
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long it is valid.")] = 365,
    replace: Annotated[
        bool, typer.Option("--replace", help="Make a certificate of this name anew that is there.")
    ] = False,
) -> None:
    """Make a small certificate authority for tests, and a certificate that it signed."""
    if not _NAME.fullmatch(name) or name == "ca":
        raise ConfigError(
            f"--name {name}: letters, digits, '.', '_' and '-', 64 at most; ca is the authority's"
        )
    for path in (folder / f"{name}.pem", folder / f"{name}-key.pem"):
        if path.exists() and not replace:
            raise ConfigError(f"{path} is there already: give another --name, or --replace to make it anew")
    try:
        from rocketeer.security.certificates import Authority
    except ImportError:
        raise ConfigError(
            "making certificates needs one more package: pip install 'rocketeer[tls]'"
        ) from None
    authority = Authority(folder, days=days, now=datetime.datetime.now(datetime.UTC))
    issued = authority.issue(name, host or ["localhost", "127.0.0.1", "::1"])
    lines = {
        "tls.server.certPath": str(issued.cert.absolute()),
        "tls.server.keyPath": str(issued.key.absolute()),
        "tls.client.trustCertPath": str(authority.cert.absolute()),
    }
    text = properties_text(lines)
    properties = folder / "tls.properties"
    if properties.exists() and properties.read_text() != text:  # somebody's, perhaps of another certificate
        properties = folder / f"{name}.properties"
    properties.write_text(text)
    typer.echo(f"authority    {authority.cert}")
    typer.echo(f"certificate  {issued.cert}")
    typer.echo(f"settings     {properties}")
    typer.echo(
        f"try next     tls.config.file={properties.absolute()} in broker.conf, then tls.server.mode=enforcing"
    )
