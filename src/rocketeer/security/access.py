"""Lets a request pass or refuses it. The order is RocketMQ's:

white address -> known key -> the account's white address -> signature (and replay) -> admin -> permissions
"""

import logging
from collections.abc import Callable, Generator, Mapping
from typing import Final, NamedTuple

from rocketeer.errors import RequestRefused
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.security.accounts import Account, Accounts, Permission
from rocketeer.security.addresses import plain_ip
from rocketeer.security.replay import ReplayGuard
from rocketeer.security.rules import OPEN, Needs, Rule, Scope, TopicOfMessage, topic_need
from rocketeer.security.signature import (
    ACCESS_KEY,
    NONCE,
    SIGNATURE,
    SIGNED_AT,
    checking_signature,
    signed_fields,
)
from rocketeer.security.throttle import FailureThrottle
from rocketeer.steps import Steps, finish

log = logging.getLogger(__name__)

NEEDS_AT_ONCE: Final = 64
_SENDS: Final[Mapping[int, str]] = {RequestCode.SEND_MESSAGE: "topic", RequestCode.SEND_MESSAGE_V2: "b"}


class SendAdmission(NamedTuple):
    """What plain sends of one key need, from one address; holds until accounts change."""

    signs: bool
    """Whether sends must be signed; else the address is enough, for everything."""
    secrets: tuple[bytes, ...]
    may_send: Callable[[str], bool]
    """Whether the key may send to a topic."""

    def __repr__(self) -> str:
        return f"SendAdmission(signs={self.signs})"  # never the secrets


class AccessControl:
    """One for a server; `accounts` is put in anew when the files change."""

    def __init__(
        self,
        rules: Mapping[int, Rule],
        stored: TopicOfMessage,
        *,
        now_ms: Callable[[], int],
        trace_topic: str = "",
        require_nonce: bool = False,
    ) -> None:
        self._rules = rules
        self._stored = stored
        self._now_ms = now_ms
        self._trace_topic = trace_topic
        self._require_nonce = require_nonce
        self._replays: dict[str, ReplayGuard] = {}
        self._throttle = FailureThrottle()
        self._accounts = Accounts()
        self.on_change: list[Callable[[], None]] = []
        """Called when there are other accounts than before."""

    @property
    def accounts(self) -> Accounts:
        return self._accounts

    @accounts.setter
    def accounts(self, accounts: Accounts) -> None:
        self._accounts = accounts
        for tell in self.on_change:
            tell()

    def checking(self, command: Command, remote: str) -> Steps[None]:
        """In steps, for its body may be large. Raises RequestRefused, with RocketMQ's code and texts."""
        rule = self._rules.get(command.code)
        if rule is None or rule is OPEN:
            return  # where there is no rule there is no answer either: the router says so
        address = plain_ip(remote)
        if self.accounts.is_white(address):
            return
        now_ms = self._now_ms()
        # By key as well: who guesses at one account does not lock others out behind the same address.
        who = _caller(address, command.ext.get(ACCESS_KEY, ""))
        waits_ms = self._throttle.refused_for_ms(who, now_ms)
        if waits_ms:
            raise _refused(f"too many failures from this address; try again in {waits_ms} ms")
        try:
            account = yield from self._signed_in(command, address, now_ms)
        except RequestRefused as refused:
            count = self._throttle.failed(who, now_ms)
            if count & (count - 1) == 0:  # 1, 2, 4, 8 ...: a guesser fills no disk
                log.warning(
                    "access refused from=%s code=%d failures=%d reason=%s",
                    who,
                    command.code,
                    count,
                    refused.remark,
                )
            raise
        self._throttle.succeeded(who)
        if account is None:  # the account's own white address
            return
        if self._trace_topic and command.ext.get(_SENDS.get(command.code, "")) == self._trace_topic:
            return
        # Only now: what a request needs may take a look at its body or at the log.
        needs = rule(command, self._stored)
        if isinstance(needs, Generator):
            needs = yield from needs
        yield from _checking_needs(needs, account, command.code)

    # --- for plain sends in bulk: the same law, asked in pieces ---------------------------------

    @property
    def requires_nonce(self) -> bool:
        return self._require_nonce

    @property
    def has_failures(self) -> bool:
        """Whether anybody failed to sign in lately."""
        return bool(self._throttle)

    def has_failed(self, address: str, key: str) -> bool:
        return self._throttle.knows(_caller(address, key))

    def is_white(self, address: str) -> bool:
        return self.accounts.is_white(address)

    def admission(self, address: str, key: str) -> SendAdmission | None:
        """What plain sends with this key need; None for a key that no account has."""
        account = self.accounts.by_key.get(key)
        if account is None:
            return None

        def may_send(topic: str) -> bool:
            try:
                needs = (topic_need(topic, Permission.PUB),)
                finish(_checking_needs(needs, account, RequestCode.SEND_MESSAGE_V2))
            except RequestRefused:
                return False
            return True

        secrets = tuple(secret.encode() for secret in account.secrets)
        return SendAdmission(not account.is_white(address), secrets, may_send)

    def takes(self, key: str, signed_at: bytes, nonce: bytes) -> bool:
        """Whether a request with a good signature is no replay; it is one from now on."""
        guard = self._guard_of(key)
        return guard.refusal(signed_at.decode(), nonce.decode(), self._now_ms()) is None

    def _guard_of(self, key: str) -> ReplayGuard:
        guard = self._replays.get(key)
        if guard is None:
            guard = self._replays[key] = ReplayGuard()
        return guard

    def _signed_in(self, command: Command, address: str, now_ms: int) -> Steps[Account | None]:
        """The account that signed; None if its address is enough."""
        key = command.ext.get(ACCESS_KEY)
        if not key:
            raise _refused("No accessKey is configured")
        account = self.accounts.by_key.get(key)
        if account is None:
            raise _refused(f"No acl config for {key[:64]}")
        if account.is_white(address):
            return None
        content = signed_fields(command.ext)
        signature = command.ext.get(SIGNATURE, "")
        tried = []
        for secret in account.secrets:  # all: time says nothing
            tried.append((yield from checking_signature(content, secret, signature, command.body)))
        if not any(tried):
            raise _refused(f"Check signature failed for accessKey={key}")
        self._check_replay(command, key, now_ms)
        return account

    def _check_replay(self, command: Command, key: str, now_ms: int) -> None:
        nonce = command.ext.get(NONCE)
        if nonce is None:
            if self._require_nonce:
                raise _refused("the request has no nonce, and aclRequireNonce is set: use TLS or our clients")
            return
        why = self._guard_of(key).refusal(command.ext.get(SIGNED_AT, ""), nonce, now_ms)
        if why is not None:
            raise _refused(f"the request of accessKey={key} is not taken: {why}")


def _caller(address: str, key: str) -> str:
    return f"{address} {key[:64]}"


def _checking_needs(needs: Needs, account: Account, code: int) -> Steps[None]:
    if account.admin or needs is Scope.SIGNED_IN:
        return
    if needs is Scope.ADMIN:
        raise _refused(
            f"Need admin permission for request code={code}, but accessKey={account.access_key} is not"
        )
    assert not isinstance(needs, Scope)
    for number, (is_group, name, permission) in enumerate(needs, 1):
        allowed = account.may_group(name, permission) if is_group else account.may_topic(name, permission)
        if not allowed:
            raise _refused(f"No default permission for {'group' if is_group else 'topic'}:{name}")
        if number % NEEDS_AT_ONCE == 0:
            yield


def _refused(why: str) -> RequestRefused:
    return RequestRefused(ResponseCode.SYSTEM_ERROR, f"org.apache.rocketmq.acl.common.AclException: {why}")
