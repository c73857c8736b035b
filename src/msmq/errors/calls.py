"""The call itself, the queue it names, the properties it passes: one class per code of MS-MQMQ 2.4."""

from __future__ import annotations

from .base import MQError


class CallError(MQError):
    """The call is wrong, its handle is dead, or the service is away."""


class GenericError(CallError, name="MQ_ERROR", code=0xC00E0001):
    """Something failed that has no code of its own."""

    advice = "Look in the queue manager's log for the cause."


class InvalidParameterError(CallError, name="MQ_ERROR_INVALID_PARAMETER", code=0xC00E0006):
    """An argument of the call is not valid."""

    advice = "Check the arguments against the documentation of the call."


class InvalidHandleError(CallError, name="MQ_ERROR_INVALID_HANDLE", code=0xC00E0007):
    """The handle was never opened, or is closed already."""

    advice = "Open the queue or cursor again and use the new handle."


class OperationCancelledError(CallError, name="MQ_ERROR_OPERATION_CANCELLED", code=0xC00E0008):
    """The operation was cancelled before it ended."""

    advice = "Call again if the result is still wanted."


class ServiceNotAvailableError(CallError, name="MQ_ERROR_SERVICE_NOT_AVAILABLE", code=0xC00E000B):
    """No queue manager answers."""

    advice = "Start the queue manager, or correct the address you connect to."


class InsufficientResourcesError(CallError, name="MQ_ERROR_INSUFFICIENT_RESOURCES", code=0xC00E0027):
    """The queue manager lacks memory, disk or quota for this."""

    advice = "Drain or purge queues, or raise the quota, then try again."


class StaleHandleError(CallError, name="MQ_ERROR_STALE_HANDLE", code=0xC00E0056):
    """The queue manager was restarted after this handle was opened."""

    advice = "Close every handle and open the queues again."


class IllegalOperationError(CallError, name="MQ_ERROR_ILLEGAL_OPERATION", code=0xC00E0064):
    """A foreign queueing system does not know this operation."""

    advice = "Perform it through the connector of the foreign system."


class UnsupportedOperationError(CallError, name="MQ_ERROR_UNSUPPORTED_OPERATION", code=0xC00E006A):
    """Workgroup mode does not offer this operation."""

    advice = "Use a private queue, or join the queue manager to a directory."


class BadXmlFormatError(CallError, name="MQ_ERROR_BAD_XML_FORMAT", code=0xC00E0092):
    """The property should be an XML document and is not."""

    advice = "Correct the XML and set the property again."


class UninitializedObjectError(CallError, name="MQ_ERROR_UNINITIALIZED_OBJECT", code=0xC00E0094):
    """The management object was used before it was initialised."""

    advice = "Initialise it with a computer or queue name first."


class QueueStateError(MQError):
    """The state of the queue forbids the call."""


class QueueNotFoundError(QueueStateError, name="MQ_ERROR_QUEUE_NOT_FOUND", code=0xC00E0003):
    """The queue does not exist, or the caller may not know that it does."""

    advice = "Check the name and your rights, or create the queue."


class QueueNotActiveError(QueueStateError, name="MQ_ERROR_QUEUE_NOT_ACTIVE", code=0xC00E0004):
    """The queue is not open, or does not exist."""

    advice = "Open the queue or send to it first."


class QueueExistsError(QueueStateError, name="MQ_ERROR_QUEUE_EXISTS", code=0xC00E0005):
    """Another queue has this path name already."""

    advice = "Open the existing queue, or choose another name."


class SharingViolationError(QueueStateError, name="MQ_ERROR_SHARING_VIOLATION", code=0xC00E0009):
    """The queue is open for exclusive reading."""

    advice = "Wait until the exclusive reader closes it, or open it shared everywhere."


class UnsupportedAccessModeError(QueueStateError, name="MQ_ERROR_UNSUPPORTED_ACCESS_MODE", code=0xC00E0045):
    """This queue cannot be opened with that access mode."""

    advice = "Open it with an access and share mode its kind allows."


class QueueNotAvailableError(QueueStateError, name="MQ_ERROR_QUEUE_NOT_AVAILABLE", code=0xC00E004B):
    """Reading from a queue of another computer failed."""

    advice = "Check the other queue manager and the network, then try again."


class QueueDeletedError(QueueStateError, name="MQ_ERROR_QUEUE_DELETED", code=0xC00E005A):
    """The queue was deleted while this handle was open."""

    advice = "Close the handle."


class CorruptedQueueWasDeletedError(QueueStateError, name="MQ_CORRUPTED_QUEUE_WAS_DELETED", code=0xC00E0068):
    """The stored description of the queue was damaged and has been removed."""

    advice = "Create the queue again."


class QueueNameError(MQError):
    """A path name, format name, label or address is bad."""


class IllegalQueuePathnameError(QueueNameError, name="MQ_ERROR_ILLEGAL_QUEUE_PATHNAME", code=0xC00E0014):
    """The text is not a queue path name."""

    advice = "Write it as computer\\queue or computer\\private$\\queue."


class IllegalFormatnameError(QueueNameError, name="MQ_ERROR_ILLEGAL_FORMATNAME", code=0xC00E001E):
    """The text is not a format name."""

    advice = "Check the prefix (DIRECT=, PUBLIC=, PRIVATE=, DL=, MULTICAST=) and what follows it."


class FormatnameBufferTooSmallError(
    QueueNameError, name="MQ_ERROR_FORMATNAME_BUFFER_TOO_SMALL", code=0xC00E001F
):
    """The format name does not fit the caller's buffer."""

    advice = "Call again with the returned length."


class UnsupportedFormatnameOperationError(
    QueueNameError, name="MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION", code=0xC00E0020
):
    """The operation cannot be done through this kind of format name."""

    advice = "Use a public or private format name instead."


class LabelTooLongError(QueueNameError, name="MQ_ERROR_LABEL_TOO_LONG", code=0xC00E005D):
    """The message label is longer than 249 characters."""

    advice = "Shorten the label."


class ResolveAddressError(QueueNameError, name="MQ_ERROR_RESOLVE_ADDRESS", code=0xC00E0099):
    """The address in the name cannot be resolved."""

    advice = "Check the host name and the DNS."


class PropertyArrayError(MQError):
    """Property identifiers, types or values are wrong."""


class PropertyError(PropertyArrayError, name="MQ_ERROR_PROPERTY", code=0xC00E0002):
    """At least one property of the array is wrong."""

    advice = "Read the status of each property to find which."


class IllegalPropertyValueError(PropertyArrayError, name="MQ_ERROR_ILLEGAL_PROPERTY_VALUE", code=0xC00E0018):
    """The value is outside what the property allows."""

    advice = "Use a value from the property's range."


class IllegalPropertyVtError(PropertyArrayError, name="MQ_ERROR_ILLEGAL_PROPERTY_VT", code=0xC00E0019):
    """The variant type is not the property's type."""

    advice = "Give the value with the type the property declares."


class IllegalPropidError(PropertyArrayError, name="MQ_ERROR_ILLEGAL_PROPID", code=0xC00E0039):
    """No property of this object has that identifier."""

    advice = "Check the identifier and the kind of object."


class IllegalPropertySizeError(PropertyArrayError, name="MQ_ERROR_ILLEGAL_PROPERTY_SIZE", code=0xC00E003B):
    """A message or correlation identifier is not 20 bytes."""

    advice = "Pass exactly 20 bytes."


class IllegalMqqueuepropsError(PropertyArrayError, name="MQ_ERROR_ILLEGAL_MQQUEUEPROPS", code=0xC00E003D):
    """No queue properties were given."""

    advice = "Pass at least one queue property."


class PropertyNotallowedError(PropertyArrayError, name="MQ_ERROR_PROPERTY_NOTALLOWED", code=0xC00E003E):
    """The property cannot be used in this operation."""

    advice = "Leave it out; it is read-only, or only given at creation."


class InsufficientPropertiesError(
    PropertyArrayError, name="MQ_ERROR_INSUFFICIENT_PROPERTIES", code=0xC00E003F
):
    """A property that the operation needs is missing."""

    advice = "Add the required property."


class IllegalMqqmpropsError(PropertyArrayError, name="MQ_ERROR_ILLEGAL_MQQMPROPS", code=0xC00E0041):
    """No queue manager properties were given."""

    advice = "Pass at least one queue manager property."


class IllegalMqprivatepropsError(PropertyArrayError, name="MQ_ERROR_ILLEGAL_MQPRIVATEPROPS", code=0xC00E007B):
    """No private computer properties were given."""

    advice = "Pass at least one private computer property."


class PropertiesConflictError(PropertyArrayError, name="MQ_ERROR_PROPERTIES_CONFLICT", code=0xC00E0087):
    """Two of the given properties exclude each other."""

    advice = "Leave one of them out."


class TooManyPropertiesError(PropertyArrayError, name="MQ_ERROR_TOO_MANY_PROPERTIES", code=0xC00E009A):
    """More than 128 properties were given in one call."""

    advice = "Split the properties over several calls."


class QueryError(MQError):
    """The arguments of a directory query are wrong."""


class IllegalSortError(QueryError, name="MQ_ERROR_ILLEGAL_SORT", code=0xC00E0010):
    """The sort order of the query is not valid."""

    advice = "Name each column once."


class IllegalMqcolumnsError(QueryError, name="MQ_ERROR_ILLEGAL_MQCOLUMNS", code=0xC00E0038):
    """The columns of the query are not valid."""

    advice = "Name at least one column the query can return."


class IllegalRelationError(QueryError, name="MQ_ERROR_ILLEGAL_RELATION", code=0xC00E003A):
    """The comparison of a restriction is not valid."""

    advice = "Use one of the defined comparisons."


class IllegalRestrictionPropidError(QueryError, name="MQ_ERROR_ILLEGAL_RESTRICTION_PROPID", code=0xC00E003C):
    """A restriction names a property that cannot be searched by."""

    advice = "Restrict by another property."


class ResultBufferTooSmallError(QueryError, name="MQ_ERROR_RESULT_BUFFER_TOO_SMALL", code=0xC00E0046):
    """The result does not fit the caller's buffer."""

    advice = "Call again with a larger buffer."


class IllegalContextError(QueryError, name="MQ_ERROR_ILLEGAL_CONTEXT", code=0xC00E005B):
    """The search context is not valid."""

    advice = "Begin the search without a context."


class IllegalSortPropidError(QueryError, name="MQ_ERROR_ILLEGAL_SORT_PROPID", code=0xC00E005C):
    """The sort order names a property that cannot be sorted by."""

    advice = "Sort by another property."


class QDnsPropertyNotSupportedError(
    QueryError, name="MQ_ERROR_Q_DNS_PROPERTY_NOT_SUPPORTED", code=0xC00E006E
):
    """A query cannot return the DNS path name."""

    advice = "Read PROPID_Q_PATHNAME_DNS of each queue found."


class MultiSortKeysError(QueryError, name="MQ_ERROR_MULTI_SORT_KEYS", code=0xC00E008D):
    """The directory sorts by one key only."""

    advice = "Name a single sort key."


class QAdsPropertyNotSupportedError(
    QueryError, name="MQ_ERROR_Q_ADS_PROPERTY_NOT_SUPPORTED", code=0xC00E0091
):
    """A query cannot return the directory path."""

    advice = "Read PROPID_Q_ADS_PATH of each queue found."


class BufferTooSmallError(MQError):
    """The caller's buffer is too small."""


class BufferOverflowError(BufferTooSmallError, name="MQ_ERROR_BUFFER_OVERFLOW", code=0xC00E001A):
    """The message property does not fit; what fitted was copied and the message stays in the queue."""

    advice = "Call again with a larger buffer."


class SenderidBufferTooSmallError(
    BufferTooSmallError, name="MQ_ERROR_SENDERID_BUFFER_TOO_SMALL", code=0xC00E0022
):
    """The sender identifier does not fit the buffer."""

    advice = "Call again with the returned length."


class SecurityDescriptorTooSmallError(
    BufferTooSmallError, name="MQ_ERROR_SECURITY_DESCRIPTOR_TOO_SMALL", code=0xC00E0023
):
    """The security descriptor does not fit the buffer."""

    advice = "Call again with the returned length."


class UserBufferTooSmallError(BufferTooSmallError, name="MQ_ERROR_USER_BUFFER_TOO_SMALL", code=0xC00E0028):
    """The answer does not fit the caller's buffer."""

    advice = "Call again with a larger buffer."


class SenderCertBufferTooSmallError(
    BufferTooSmallError, name="MQ_ERROR_SENDER_CERT_BUFFER_TOO_SMALL", code=0xC00E002B
):
    """The sender's certificate does not fit the buffer."""

    advice = "Call again with the returned length."


class LabelBufferTooSmallError(BufferTooSmallError, name="MQ_ERROR_LABEL_BUFFER_TOO_SMALL", code=0xC00E005E):
    """The label does not fit the buffer."""

    advice = "Call again with the returned length."


class SymmKeyBufferTooSmallError(
    BufferTooSmallError, name="MQ_ERROR_SYMM_KEY_BUFFER_TOO_SMALL", code=0xC00E0061
):
    """The symmetric key does not fit the buffer."""

    advice = "Call again with the returned length."


class SignatureBufferTooSmallError(
    BufferTooSmallError, name="MQ_ERROR_SIGNATURE_BUFFER_TOO_SMALL", code=0xC00E0062
):
    """The signature does not fit the buffer."""

    advice = "Call again with the returned length."


class ProvNameBufferTooSmallError(
    BufferTooSmallError, name="MQ_ERROR_PROV_NAME_BUFFER_TOO_SMALL", code=0xC00E0063
):
    """The provider name does not fit the buffer."""

    advice = "Call again with the returned length."


class ReceiveError(MQError):
    """A message could not be read or stored."""


class IoTimeoutError(ReceiveError, name="MQ_ERROR_IO_TIMEOUT", code=0xC00E001B):
    """No message came within the time given."""

    advice = "Wait longer, or treat the queue as empty."


class IllegalCursorActionError(ReceiveError, name="MQ_ERROR_ILLEGAL_CURSOR_ACTION", code=0xC00E001C):
    """The cursor has no current message to go on from."""

    advice = "Peek at the current message before peeking at the next."


class MessageAlreadyReceivedError(ReceiveError, name="MQ_ERROR_MESSAGE_ALREADY_RECEIVED", code=0xC00E001D):
    """The message under the cursor was taken by another reader."""

    advice = "Peek at the next message to move the cursor on."


class MessageStorageFailedError(ReceiveError, name="MQ_ERROR_MESSAGE_STORAGE_FAILED", code=0xC00E002A):
    """The message could not be stored, and so was not sent."""

    advice = "Check the free disk space of the queue manager."


class MessageNotFoundError(ReceiveError, name="MQ_ERROR_MESSAGE_NOT_FOUND", code=0xC00E0088):
    """No message has this lookup identifier, or it is gone."""

    advice = "Look up a neighbouring message, or start from the first."


class MessageLockedUnderTransactionError(
    ReceiveError, name="MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION", code=0xC00E009C
):
    """Another transaction holds the message."""

    advice = "Try again when that transaction has ended."
