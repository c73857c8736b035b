"""Administration of the queue manager itself, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msmq.client.connection import Connection
from msmq.client.info import AccountInfo, AlarmRule, Certificate, ManagerInfo, Statistics, TokenInfo
from msmq.client.loop import Loop


class SyncAdministration:
    """Methods of :class:`msmq.SyncConnection`; they are described at
    :class:`msmq.client.administration.Administration`."""

    inner: Connection

    @property
    def loop(self) -> Loop:
        raise NotImplementedError

    def manager(self) -> ManagerInfo:
        return self.loop.run(self.inner.manager())

    def set_manager(self, *, quota_kb: int | None = None, journal_quota_kb: int | None = None) -> ManagerInfo:
        return self.loop.run(self.inner.set_manager(quota_kb=quota_kb, journal_quota_kb=journal_quota_kb))

    def set_online(self, online: bool) -> ManagerInfo:
        return self.loop.run(self.inner.set_online(online))

    def certificates(self, sid: str = "") -> list[Certificate]:
        return self.loop.run(self.inner.certificates(sid))

    def register_certificate(self, certificate: bytes) -> Certificate:
        return self.loop.run(self.inner.register_certificate(certificate))

    def remove_certificate(self, digest: bytes) -> None:
        self.loop.run(self.inner.remove_certificate(digest))

    def renew_internal_certificate(self) -> tuple[Certificate, bytes]:
        return self.loop.run(self.inner.renew_internal_certificate())

    def create_token(self, name: str, sid: str = "") -> tuple[TokenInfo, str]:
        return self.loop.run(self.inner.create_token(name, sid))

    def tokens(self) -> list[TokenInfo]:
        return self.loop.run(self.inner.tokens())

    def remove_token(self, name: str) -> None:
        self.loop.run(self.inner.remove_token(name))

    def accounts(self) -> list[AccountInfo]:
        return self.loop.run(self.inner.accounts())

    def create_account(
        self, name: str, groups: Sequence[str] = (), password: str = "", sid: str = ""
    ) -> tuple[AccountInfo, str]:
        return self.loop.run(self.inner.create_account(name, groups, password, sid))

    def set_account_password(self, name: str, password: str) -> None:
        self.loop.run(self.inner.set_account_password(name, password))

    def remove_account(self, name: str) -> None:
        self.loop.run(self.inner.remove_account(name))

    def alarms(self) -> list[AlarmRule]:
        return self.loop.run(self.inner.alarms())

    def set_alarms(self, rules: Sequence[AlarmRule]) -> list[AlarmRule]:
        return self.loop.run(self.inner.set_alarms(rules))

    def statistics(self, interval: float = 1.0, count: int = 0) -> Iterator[Statistics]:
        return self.loop.iterate(self.inner.statistics(interval, count))
