"""Commands about name servers: values they keep, and their settings."""

from typing import Annotated

from rocketeer.admin.blocking import Admin
from rocketeer.cli.admin.commands.clusters import settings_parts
from rocketeer.cli.admin.declare import Option, Subject, command
from rocketeer.cli.admin.output import Output, said

Namespace = Annotated[str, Option("s", "namespace", "the namespace")]
KeyOption = Annotated[str, Option("k", "key", "the key")]
Value = Annotated[str, Option("v", "value", "the value")]


@command("updateKvConfig", Subject.NAMESERVERS, "Have the name servers keep a value")
def update_kv_config(admin: Admin, namespace: Namespace, key: KeyOption, value: Value) -> Output:
    admin.put_kv(namespace, key, value)
    return said("create or update kv config to namespace success.")


def _delete_danger(admin: Admin, namespace: str, key: str) -> list[str]:
    value = admin.get_kv(namespace, key)
    held = "There is none." if value is None else f"It is {value!r}."
    return [f"The value of {key} in namespace {namespace} will be deleted at every name server. {held}"]


@command("deleteKvConfig", Subject.NAMESERVERS, "Have the name servers forget a value", danger=_delete_danger)
def delete_kv_config(admin: Admin, namespace: Namespace, key: KeyOption) -> Output:
    admin.delete_kv(namespace, key)
    return said("delete kv config from namespace success.")


@command("getNamesrvConfig", Subject.NAMESERVERS, "Every setting in force at the name servers")
def get_namesrv_config(admin: Admin) -> Output:
    found = admin.nameserver_settings()
    data = {address: dict(settings) for address, settings in found.items()}
    return Output(settings_parts(found), data)


@command("updateNamesrvConfig", Subject.NAMESERVERS, "Change a setting of the name servers while they run")
def update_namesrv_config(admin: Admin, key: KeyOption, value: Value) -> Output:
    addresses = admin.update_nameserver_settings({key: value})
    shown = ", ".join(addresses)
    return said(
        f"update name server config success![{shown}]",
        f"{key} : {value}",
        data={"nameservers": list(addresses), "key": key, "value": value},
    )
