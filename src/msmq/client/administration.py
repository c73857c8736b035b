"""Administrative operations, as methods of a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Unpack

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.info import (
    AccessEntry,
    AccountInfo,
    AlarmRule,
    Certificate,
    Difference,
    ManagerInfo,
    OutgoingInfo,
    PropertyValue,
    QueueInfo,
    QueuePlace,
    Security,
    Statistics,
    TokenInfo,
    figures,
    report,
)
from msmq.client.properties import QueueSettings, check_names
from msmq.client.queue import Queue
from msmq.errors import QueueExistsError, QueueNotFoundError


class Administration:
    """The administrative half of a connection. A queue may be given by name or as a :class:`Queue`."""

    async def call(self, name: str, request: Any, *, safe: bool = False) -> Any:
        raise NotImplementedError

    def server_stream(self, name: str, request: Any) -> AsyncIterator[Any]:
        raise NotImplementedError

    def queue(self, name: str) -> Queue:
        raise NotImplementedError

    # --- queues -------------------------------------------------------------------------------------------------

    async def create_queue(
        self,
        path: str,
        *,
        transactional: bool = False,
        sddl: str = "",
        if_missing: bool = False,
        **settings: Unpack[QueueSettings],
    ) -> Queue:
        """Make a queue. ``settings`` are label, journaling, quota_kb, journal_quota_kb, authenticated_only,
        privacy_level, base_priority, multicast_address, type, and what becomes of rejected messages: retry_delay_ms,
        max_deliveries, poison_subqueue. With ``if_missing`` an existing queue is kept as it is; QueueExistsError is
        raised only if it is transactional and should not be, or the other way round."""
        request = pb.CreateQueueRequest(
            path=path, transactional=transactional, settings=_settings(settings), sddl=sddl
        )
        try:
            await self.call("CreateQueue", request)
        except QueueExistsError:
            if not if_missing:
                raise
            if (await self.queue_info(path)).transactional is not transactional:
                kind = "not transactional" if transactional else "transactional"
                raise QueueExistsError(f"{path} is there already, and is {kind}.") from None
        return self.queue(path)

    async def delete_queue(self, queue: Queue | str) -> None:
        """Delete a queue with everything in it."""
        await self.call("DeleteQueue", _named(queue))

    async def queues(
        self, *, system: bool = False, journals: bool = False, subqueues: bool = False
    ) -> list[QueueInfo]:
        """List the queues of the server's computer; on request also its system queues, journals and subqueues."""
        request = pb.ListQueuesRequest(system=system, journals=journals, subqueues=subqueues)
        reply: pb.ListQueuesReply = await self.call("ListQueues", request, safe=True)
        return [report(QueueInfo, info, info.settings) for info in reply.queues]

    async def queue_info(self, queue: Queue | str) -> QueueInfo:
        """Return what the server tells about one queue."""
        info = await self.call("GetQueue", _named(queue), safe=True)
        return report(QueueInfo, info, info.settings)

    async def queue_exists(self, queue: Queue | str) -> bool:
        """Tell whether there is such a queue on the server's computer."""
        try:
            await self.queue_info(queue)
        except QueueNotFoundError:
            return False
        return True

    async def set_queue(self, queue: Queue | str, **settings: Unpack[QueueSettings]) -> QueueInfo:
        """Change properties of a queue; see :meth:`create_queue`."""
        request = pb.SetQueueRequest(queue=_name(queue), settings=_settings(settings))
        info = await self.call("SetQueue", request, safe=True)
        return report(QueueInfo, info, info.settings)

    async def locate(self, queue: Queue | str) -> QueuePlace:
        """Tell where a queue is: on the server's computer, or on which other one and under which format name. The
        directory is asked about public queues of other computers."""
        return report(QueuePlace, await self.call("LocateQueue", _named(queue), safe=True))

    async def check_directory(self) -> list[Difference]:
        """List the public queues on which the server's computer and its directory disagree."""
        reply: pb.CheckDirectoryReply = await self.call(
            "CheckDirectory", pb.CheckDirectoryRequest(), safe=True
        )
        return [report(Difference, each) for each in reply.differences]

    async def repair_queue(self, queue: Queue | str, choice: str, *, discard_messages: bool = False) -> None:
        """Resolve a difference between the computer and its directory; ``choice`` is one of its ``choices``."""
        request = pb.RepairQueueRequest(queue=_name(queue), choice=choice, discard_messages=discard_messages)
        await self.call("RepairQueue", request)

    async def properties(
        self, queue: Queue | str | None = None, *, outgoing: bool = False
    ) -> list[PropertyValue]:
        """Return the properties of MS-MQMQ 2.3 that have a value: of a queue, of the outgoing queue that leads to it,
        or of the queue manager."""
        request = pb.GetPropertiesRequest(queue=_name(queue), outgoing=outgoing)
        reply: pb.Properties = await self.call("GetProperties", request, safe=True)
        return [report(PropertyValue, given) for given in reply.properties]

    async def security(self, queue: Queue | str | None = None) -> Security:
        """Tell who may do what with a queue, or with the queue manager."""
        return report(Security, await self.call("GetSecurity", _named(queue), safe=True))

    async def set_security(
        self,
        queue: Queue | str | None = None,
        *,
        owner: str = "",
        entries: Sequence[AccessEntry] | None = None,
        sddl: str = "",
    ) -> Security:
        """Change the owner, the access list, or both at once as SDDL."""
        request = pb.SetSecurityRequest(queue=_name(queue), owner=owner, sddl=sddl)
        if entries is not None:
            request.entries.CopyFrom(pb.AccessList(entries=[entry.to_proto() for entry in entries]))
        return report(Security, await self.call("SetSecurity", request, safe=True))

    # --- outgoing queues ----------------------------------------------------------------------------------------

    async def outgoing_queues(self) -> list[OutgoingInfo]:
        """List the outgoing queues, whose messages are on their way to other hosts."""
        reply: pb.ListOutgoingReply = await self.call("ListOutgoing", pb.ListOutgoingRequest(), safe=True)
        return [report(OutgoingInfo, info) for info in reply.queues]

    async def pause_outgoing(self, queue: Queue | str) -> OutgoingInfo:
        """Stop sending to a destination until it is resumed."""
        return report(OutgoingInfo, await self.call("PauseOutgoing", _named(queue), safe=True))

    async def resume_outgoing(self, queue: Queue | str) -> OutgoingInfo:
        """Start sending to a paused destination again."""
        return report(OutgoingInfo, await self.call("ResumeOutgoing", _named(queue), safe=True))

    async def purge_outgoing(self, queue: Queue | str) -> int:
        """Remove all messages that wait for a destination. Returns how many there were."""
        reply: pb.PurgeReply = await self.call("PurgeOutgoing", _named(queue))
        return reply.messages

    # --- the queue manager --------------------------------------------------------------------------------------

    async def manager(self) -> ManagerInfo:
        """Describe the queue manager, and the caller as it knows them."""
        return report(ManagerInfo, await self.call("GetManager", pb.GetManagerRequest(), safe=True))

    async def set_manager(
        self, *, quota_kb: int | None = None, journal_quota_kb: int | None = None
    ) -> ManagerInfo:
        """Change the quotas of the computer."""
        request = pb.SetManagerRequest(quota_kb=quota_kb, journal_quota_kb=journal_quota_kb)
        return report(ManagerInfo, await self.call("SetManager", request, safe=True))

    async def set_online(self, online: bool) -> ManagerInfo:
        """Connect the queue manager to the network, or take it offline."""
        return report(
            ManagerInfo, await self.call("SetOnline", pb.SetOnlineRequest(online=online), safe=True)
        )

    # --- certificates -------------------------------------------------------------------------------------------

    async def certificates(self, sid: str = "") -> list[Certificate]:
        """List the caller's certificates; administrators may list those of another user."""
        request = pb.ListCertificatesRequest(sid=sid)
        reply: pb.ListCertificatesReply = await self.call("ListCertificates", request, safe=True)
        return [report(Certificate, given) for given in reply.certificates]

    async def register_certificate(self, certificate: bytes) -> Certificate:
        """Register an X.509 certificate (DER) for the caller."""
        request = pb.RegisterCertificateRequest(certificate=certificate)
        return report(Certificate, await self.call("RegisterCertificate", request, safe=True))

    async def remove_certificate(self, digest: bytes) -> None:
        """Remove a registered certificate."""
        await self.call("RemoveCertificate", pb.RemoveCertificateRequest(digest=digest))

    async def renew_internal_certificate(self) -> tuple[Certificate, bytes]:
        """Make a new internal certificate for the caller. Returns it with its private key (PKCS #8 in DER)."""
        request = pb.RenewInternalCertificateRequest()
        reply: pb.InternalCertificate = await self.call("RenewInternalCertificate", request)
        return report(Certificate, reply.certificate), reply.private_key

    # --- tokens -------------------------------------------------------------------------------------------------

    async def create_token(self, name: str, sid: str = "") -> tuple[TokenInfo, str]:
        """Make a token that lets its owner connect over TCP as the user ``sid``, or as a new one. Returns it with its
        secret, of which the queue manager keeps no copy."""
        reply: pb.NewToken = await self.call("CreateToken", pb.CreateTokenRequest(name=name, sid=sid))
        return report(TokenInfo, reply.token), reply.secret

    async def tokens(self) -> list[TokenInfo]:
        """List the tokens."""
        reply: pb.ListTokensReply = await self.call("ListTokens", pb.ListTokensRequest(), safe=True)
        return [report(TokenInfo, given) for given in reply.tokens]

    async def remove_token(self, name: str) -> None:
        """Remove a token; its owner can no longer connect with it."""
        await self.call("RemoveToken", pb.RemoveTokenRequest(name=name))

    # --- figures ------------------------------------------------------------------------------------------------

    # --- accounts and alarms ------------------------------------------------------------------------------------

    async def accounts(self) -> list[AccountInfo]:
        """List the local accounts."""
        reply: pb.ListAccountsReply = await self.call("ListAccounts", pb.ListAccountsRequest(), safe=True)
        return [report(AccountInfo, given) for given in reply.accounts]

    async def create_account(
        self, name: str, groups: Sequence[str] = (), password: str = "", sid: str = ""
    ) -> tuple[AccountInfo, str]:
        """Add a local account. Returns it with its password, which is made up if none is given. With ``sid`` the
        account gets an identifier that it had before."""
        request = pb.CreateAccountRequest(name=name, groups=groups, password=password, sid=sid)
        reply: pb.NewAccount = await self.call("CreateAccount", request)
        return report(AccountInfo, reply.account), reply.password

    async def set_account_password(self, name: str, password: str) -> None:
        """Change the password of a local account."""
        await self.call("SetAccountPassword", pb.SetAccountPasswordRequest(name=name, password=password))

    async def remove_account(self, name: str) -> None:
        """Remove a local account."""
        await self.call("RemoveAccount", pb.RemoveAccountRequest(name=name))

    async def alarms(self) -> list[AlarmRule]:
        """List the alarm rules that the console watches."""
        reply: pb.AlarmRules = await self.call("GetAlarms", pb.GetAlarmsRequest(), safe=True)
        return [report(AlarmRule, given, queue=given.queue or "*") for given in reply.rules]

    async def set_alarms(self, rules: Sequence[AlarmRule]) -> list[AlarmRule]:
        """Replace the alarm rules."""
        request = pb.AlarmRules(rules=[rule.to_proto() for rule in rules])
        reply: pb.AlarmRules = await self.call("SetAlarms", request)
        return [report(AlarmRule, given, queue=given.queue or "*") for given in reply.rules]

    async def statistics(self, interval: float = 1.0, count: int = 0) -> AsyncIterator[Statistics]:
        """Yield figures now and then every ``interval`` seconds, ``count`` times or, with 0, for ever."""
        request = pb.WatchStatisticsRequest(interval_ms=int(interval * 1000), count=count)
        async for given in self.server_stream("WatchStatistics", request):
            yield figures(given)


def _settings(given: QueueSettings) -> pb.QueueSettings:
    check_names(given, QueueSettings.__annotations__)
    made = pb.QueueSettings()
    for name, value in given.items():
        try:
            made.MergeFrom(pb.QueueSettings(**{name: value}))  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name} cannot be {value!r}: {error}.") from error
    return made


def _name(queue: Queue | str | None) -> str:
    return queue.name if isinstance(queue, Queue) else queue or ""


def _named(queue: Queue | str | None) -> pb.QueueName:
    return pb.QueueName(queue=_name(queue))
