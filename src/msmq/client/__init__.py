"""What applications import: connections, queues, messages and transactions, asynchronous and synchronous."""

from msmq.client.connection import Connection, RemoteAccess, connect
from msmq.client.consumer import Consumer
from msmq.client.cursor import Cursor
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
    QueueKind,
    QueuePlace,
    QueueStatistics,
    Resources,
    Security,
    Statistics,
    TokenInfo,
)
from msmq.client.message import Acknowledge, Delivery, Message, Privacy, Receipt, ReceivedMessage
from msmq.client.problems import (
    ClientError,
    ConnectionLostError,
    OutcomeUnknownError,
    RowError,
    SendError,
    ServerNotAvailableError,
)
from msmq.client.queue import Queue, Seek
from msmq.client.receiver import Mode, Receiver
from msmq.client.sync import SyncConnection, SyncMessage, connect_sync
from msmq.client.target import Tls
from msmq.client.transaction import Transaction
from msmq.wire.bodies import Body, Formatter, HeaderDialect, write_headers

__all__ = [
    "AccessEntry",
    "AccountInfo",
    "Acknowledge",
    "AlarmRule",
    "Body",
    "Certificate",
    "ClientError",
    "Connection",
    "ConnectionLostError",
    "Consumer",
    "Cursor",
    "Delivery",
    "Difference",
    "Formatter",
    "HeaderDialect",
    "ManagerInfo",
    "Message",
    "Mode",
    "OutcomeUnknownError",
    "OutgoingInfo",
    "Privacy",
    "PropertyValue",
    "Queue",
    "QueueInfo",
    "QueueKind",
    "QueuePlace",
    "QueueStatistics",
    "Receipt",
    "ReceivedMessage",
    "Receiver",
    "RemoteAccess",
    "Resources",
    "RowError",
    "Security",
    "Seek",
    "SendError",
    "ServerNotAvailableError",
    "Statistics",
    "SyncConnection",
    "SyncMessage",
    "Tls",
    "TokenInfo",
    "Transaction",
    "connect",
    "connect_sync",
    "write_headers",
]
