"""Other computers and the directory. One class per error code of MS-MQMQ 2.4."""

from __future__ import annotations

from .base import MQError


class RemoteError(MQError):
    """Another computer is missing or refuses."""


class MachineNotFoundError(RemoteError, name="MQ_ERROR_MACHINE_NOT_FOUND", code=0xC00E000D):
    """The computer is not known."""

    advice = "Check the computer's name."


class MachineExistsError(RemoteError, name="MQ_ERROR_MACHINE_EXISTS", code=0xC00E0040):
    """The directory has a queue manager of this name already."""

    advice = "Remove the old object, or choose another name."


class NoResponseFromObjectServerError(
    RemoteError, name="MQ_ERROR_NO_RESPONSE_FROM_OBJECT_SERVER", code=0xC00E0049
):
    """The server that owns the object does not answer."""

    advice = "Try again later; the change may or may not be done."


class ObjectServerNotAvailableError(
    RemoteError, name="MQ_ERROR_OBJECT_SERVER_NOT_AVAILABLE", code=0xC00E004A
):
    """The server that owns the object is not available."""

    advice = "Try again later."


class WksCantServeClientError(RemoteError, name="MQ_ERROR_WKS_CANT_SERVE_CLIENT", code=0xC00E0066):
    """This queue manager does not support dependent clients."""

    advice = "Point the client at a supporting server."


class DependWksLicenseOverflowError(
    RemoteError, name="MQ_ERROR_DEPEND_WKS_LICENSE_OVERFLOW", code=0xC00E0067
):
    """The supporting server takes no more clients."""

    advice = "Try again later, or use another supporting server."


class RemoteMachineNotAvailableError(
    RemoteError, name="MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE", code=0xC00E0069
):
    """The other computer cannot be reached."""

    advice = "Check that it runs and that the network and firewall let you through."


class NotSupportedByDependentClientsError(
    RemoteError, name="MQ_ERROR_NOT_SUPPORTED_BY_DEPENDENT_CLIENTS", code=0xC00E008A
):
    """The operation cannot be passed to a supporting server."""

    advice = "Run it on a computer with its own queue manager."


class OperationNotSupportedByRemoteComputerError(
    RemoteError, name="MQ_ERROR_OPERATION_NOT_SUPPORTED_BY_REMOTE_COMPUTER", code=0xC00E008B
):
    """The other queue manager does not know this operation."""

    advice = "Do without it, or upgrade the other queue manager."


class DirectoryError(MQError):
    """The directory or its global catalog fails."""


class NoDsError(DirectoryError, name="MQ_ERROR_NO_DS", code=0xC00E0013):
    """There is no connection to the directory."""

    advice = "Check the directory and your rights in it, or use private queues."


class DsIsFullError(DirectoryError, name="MQ_ERROR_DS_IS_FULL", code=0xC00E0042, last_version=2):
    """The directory is full."""

    advice = "Remove objects from the directory."


class DsError(DirectoryError, name="MQ_ERROR_DS_ERROR", code=0xC00E0043):
    """The directory failed."""

    advice = "`msmq directory status` and `msmq directory check` tell what is wrong, and what to do."


class IllegalEnterpriseOperationError(
    DirectoryError, name="MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION", code=0xC00E0071
):
    """The operation does not apply to the enterprise object."""

    advice = "Perform it on the object of a queue manager or queue."


class CannotGrantAddGuidError(DirectoryError, name="MQ_ERROR_CANNOT_GRANT_ADD_GUID", code=0xC00E0072):
    """The right to choose object identifiers cannot be granted."""

    advice = "Ask a directory administrator."


class NoMsmqServersOnDcError(DirectoryError, name="MQ_ERROR_NO_MSMQ_SERVERS_ON_DC", code=0xC00E0075):
    """No domain controller runs a message queuing server."""

    advice = "Install message queuing on a domain controller."


class CannotJoinDomainError(DirectoryError, name="MQ_ERROR_CANNOT_JOIN_DOMAIN", code=0xC00E0076):
    """The queue manager could not register in the directory and stays in workgroup mode."""

    advice = "Check the rights of the computer account and start again."


class CannotCreateOnGcError(DirectoryError, name="MQ_ERROR_CANNOT_CREATE_ON_GC", code=0xC00E0077):
    """The global catalog server did not create the object."""

    advice = "Create it on a domain controller of its own domain."


class GuidNotMatchingError(
    DirectoryError, name="MQ_ERROR_GUID_NOT_MATCHING", code=0xC00E0078, last_version=2
):
    """The directory object could not be given the installation's identifier."""

    advice = "Install message queuing anew."


class NoGcInDomainError(DirectoryError, name="MQ_ERROR_NO_GC_IN_DOMAIN", code=0xC00E007C):
    """The domain has no global catalog server."""

    advice = "Make a domain controller a global catalog server."


class NoMsmqServersOnGcError(DirectoryError, name="MQ_ERROR_NO_MSMQ_SERVERS_ON_GC", code=0xC00E007D):
    """No global catalog server runs message queuing."""

    advice = "Install message queuing on one."


class CannotGetDnError(DirectoryError, name="MQ_ERROR_CANNOT_GET_DN", code=0xC00E007E, last_version=2):
    """The distinguished name of this computer cannot be found."""

    advice = "Check the computer's account in the directory."


class NoMquserOuError(DirectoryError, name="MQ_ERROR_NO_MQUSER_OU", code=0xC00E0084):
    """The domain has no organizational unit for MSMQ users."""

    advice = "Create the unit MSMQ Users in the domain."


class CannotLoadMqadError(DirectoryError, name="MQ_ERROR_CANNOT_LOAD_MQAD", code=0xC00E0085):
    """The directory access library cannot be loaded."""

    advice = "Repair the installation."


class CantResolveSitesError(DirectoryError, name="MQ_ERROR_CANT_RESOLVE_SITES", code=0xC00E0089):
    """The sites of the computer cannot be found."""

    advice = "Check the subnets of the sites in the directory."


class NotACorrectObjectClassError(
    DirectoryError, name="MQ_ERROR_NOT_A_CORRECT_OBJECT_CLASS", code=0xC00E008C
):
    """The directory object is of another class than asked for."""

    advice = "Check the name of the object."


class GcNeededError(DirectoryError, name="MQ_ERROR_GC_NEEDED", code=0xC00E008E):
    """An object with the given identifier cannot be created here."""

    advice = "Create it through a global catalog server."


class DsBindRootForestError(DirectoryError, name="MQ_ERROR_DS_BIND_ROOT_FOREST", code=0xC00E008F):
    """The root of the forest cannot be bound."""

    advice = "Check the DNS configuration."


class DsLocalUserError(DirectoryError, name="MQ_ERROR_DS_LOCAL_USER", code=0xC00E0090):
    """A local user is anonymous to the directory."""

    advice = "Log on as a domain user."


class UnsupportedClassError(DirectoryError, name="MQ_ERROR_UNSUPPORTED_CLASS", code=0xC00E0093):
    """The directory object is of a class that is not supported."""

    advice = "Name a queue, an alias or a distribution list."


class UnknownSourceError(DirectoryError, name="MQDS_UNKNOWN_SOURCE", code=0xC00E0504):
    """The server a directory change comes from is not known."""

    advice = "Check the servers of the enterprise."


class LegacyError(MQError):
    """Only deployments with the information store of MSMQ 1.0 know these."""


class DeleteCnInUseError(LegacyError, name="MQ_ERROR_DELETE_CN_IN_USE", code=0xC00E0048, last_version=2):
    """The connected network is in use."""

    advice = "Move its computers to another network first."


class MqisServerEmptyError(LegacyError, name="MQ_ERROR_MQIS_SERVER_EMPTY", code=0xC00E005F, last_version=2):
    """No information store server is configured."""

    advice = "Configure the list of servers."


class MqisReadonlyModeError(LegacyError, name="MQ_ERROR_MQIS_READONLY_MODE", code=0xC00E0060, last_version=2):
    """The information store can only be read now."""

    advice = "Try again later."


class WriteNotAllowedError(LegacyError, name="MQ_ERROR_WRITE_NOT_ALLOWED", code=0xC00E0065):
    """An information store is being installed and nothing can be written now."""

    advice = "Try again when the installation has ended."


class CannotLoadMsmqocmError(
    LegacyError, name="MQ_ERROR_CANNOT_LOAD_MSMQOCM", code=0xC00E0073, last_version=2
):
    """The setup library cannot be loaded."""

    advice = "Repair the installation."


class NoEntryPointMsmqocmError(LegacyError, name="MQ_ERROR_NO_ENTRY_POINT_MSMQOCM", code=0xC00E0074):
    """The setup library lacks a function."""

    advice = "Repair the installation."


class CannotDeletePscObjectsError(LegacyError, name="MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS", code=0xC00E0083):
    """The object belongs to a site controller and cannot be deleted here."""

    advice = "Delete it at its site controller."


class CannotLoadMqdssrvError(
    LegacyError, name="MQ_ERROR_CANNOT_LOAD_MQDSSRV", code=0xC00E0086, last_version=0
):
    """No version of MSMQ uses this code."""

    advice = "Treat it as a generic error."


class CannotCreatePscObjectsError(LegacyError, name="MQ_ERROR_CANNOT_CREATE_PSC_OBJECTS", code=0xC00E0095):
    """The object must be created at a site controller."""

    advice = "Create it at a site controller."


class CannotUpdatePscObjectsError(LegacyError, name="MQ_ERROR_CANNOT_UPDATE_PSC_OBJECTS", code=0xC00E0096):
    """The object belongs to a site controller and cannot be changed here."""

    advice = "Change it at its site controller."
