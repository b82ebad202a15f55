"""`rocketeer certs`: a test authority, certificates signed by it, and the `tls.properties` that name them."""

import datetime
from pathlib import Path
from typing import Annotated

import typer

from rocketeer.config.properties import properties_text
from rocketeer.errors import ConfigError


def certs(
    folder: Annotated[Path, typer.Argument(help="Where the files go; an authority that is there is used.")],
    host: Annotated[
        list[str] | None, typer.Option(help="A name or address the server is reached by; repeat it.")
    ] = None,
    name: Annotated[str, typer.Option(help="Of the certificate's files.")] = "server",
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long it is valid.")] = 365,
) -> None:
    """Make a small certificate authority for tests, and a certificate that it signed."""
    try:
        from rocketeer.security.certificates import Authority
    except ImportError:
        raise ConfigError(
            "making certificates needs one more package: pip install 'rocketeer[tls]'"
        ) from None
    authority = Authority(folder, days=days, now=datetime.datetime.now(datetime.UTC))
    issued = authority.issue(name, host or ["localhost", "127.0.0.1", "::1"])
    properties = folder / "tls.properties"
    lines = {
        "tls.server.certPath": str(issued.cert.absolute()),
        "tls.server.keyPath": str(issued.key.absolute()),
        "tls.client.trustCertPath": str(authority.cert.absolute()),
    }
    properties.write_text(properties_text(lines))
    typer.echo(f"authority    {authority.cert}")
    typer.echo(f"certificate  {issued.cert}")
    typer.echo(f"settings     {properties}")
    typer.echo(
        f"try next     tls.config.file={properties.absolute()} in broker.conf, then tls.server.mode=enforcing"
    )
