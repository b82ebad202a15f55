"""Access control on a broker: the guard in front of every request, the watch over its files, admins' changes (50-53).

Without `aclEnable` nobody has to sign in; the four codes then say so (4.9.8 leaves 52 unanswered).
"""

from typing import Final

from rocketeer.broker.feature import Feature, Periodic
from rocketeer.broker.features.access.accounts import AccountsInForce
from rocketeer.broker.features.access.requests import AccountRequests, BrokerNames, refusals
from rocketeer.security.access import AccessControl
from rocketeer.security.acl_files import AclFiles

WATCH_S: Final = 2.0
"""RocketMQ looks every 5 s."""


def access_feature(control: AccessControl, files: AclFiles, names: BrokerNames) -> Feature:
    """Has read the account files when it returns. Raises ConfigError."""
    accounts = AccountsInForce(control, files)
    accounts.load()
    return Feature(
        "access control",
        guards=(lambda command, connection: control.checking(command, connection.remote),),
        send_access=control,
        handlers=AccountRequests(accounts, names).handlers(),
        services=(Periodic("watch acl files", WATCH_S, accounts.watch),),
    )


def no_access_control() -> Feature:
    """Everybody may do everything."""
    return Feature("no access control", handlers=refusals())
