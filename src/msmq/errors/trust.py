"""Rights, certificates and transactions. One class per error code of MS-MQMQ 2.4."""

from __future__ import annotations

from .base import MQError


class AccessError(MQError):
    """The caller lacks a right or an identity."""


class IllegalUserError(AccessError, name="MQ_ERROR_ILLEGAL_USER", code=0xC00E0011):
    """The named user is not valid."""

    advice = "Check the account name."


class IllegalSecurityDescriptorError(
    AccessError, name="MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR", code=0xC00E0021
):
    """The security descriptor is not valid."""

    advice = "Pass a self-relative descriptor with plain allow and deny entries."


class CannotImpersonateClientError(AccessError, name="MQ_ERROR_CANNOT_IMPERSONATE_CLIENT", code=0xC00E0024):
    """The server cannot take on the caller's identity."""

    advice = "Call with a higher authentication level."


class AccessDeniedError(AccessError, name="MQ_ERROR_ACCESS_DENIED", code=0xC00E0025):
    """The caller has not the right to do this."""

    advice = "Ask whoever looks after it for the right."


class PrivilegeNotHeldError(AccessError, name="MQ_ERROR_PRIVILEGE_NOT_HELD", code=0xC00E0026):
    """The caller lacks a privilege the operation needs."""

    advice = "Ask an administrator for the privilege."


class BadSecurityContextError(AccessError, name="MQ_ERROR_BAD_SECURITY_CONTEXT", code=0xC00E0035):
    """The security context is not valid."""

    advice = "Make a new security context."


class CouldNotGetUserSidError(AccessError, name="MQ_ERROR_COULD_NOT_GET_USER_SID", code=0xC00E0036):
    """The caller's security identifier cannot be found."""

    advice = "Log on with an account the computer knows."


class CouldNotGetAccountInfoError(AccessError, name="MQ_ERROR_COULD_NOT_GET_ACCOUNT_INFO", code=0xC00E0037):
    """The caller's account cannot be read."""

    advice = "Log on with an account the computer knows."


class InvalidOwnerError(AccessError, name="MQ_ERROR_INVALID_OWNER", code=0xC00E0044):
    """The owner of the object is not valid."""

    advice = "Name an existing account or computer as owner."


class SecurityError(MQError):
    """Signing, encryption or certificates failed."""


class InvalidCertificateError(SecurityError, name="MQ_ERROR_INVALID_CERTIFICATE", code=0xC00E002C):
    """The certificate is not valid."""

    advice = "Use a well-formed X.509 certificate."


class CorruptedInternalCertificateError(
    SecurityError, name="MQ_ERROR_CORRUPTED_INTERNAL_CERTIFICATE", code=0xC00E002D
):
    """The internal certificate is damaged."""

    advice = "Renew the internal certificate."


class InternalUserCertExistError(SecurityError, name="MQ_ERROR_INTERNAL_USER_CERT_EXIST", code=0xC00E002E):
    """The user has an internal certificate already."""

    advice = "Use it, or remove it first."


class NoInternalUserCertError(SecurityError, name="MQ_ERROR_NO_INTERNAL_USER_CERT", code=0xC00E002F):
    """The user has no internal certificate."""

    advice = "Register an internal certificate."


class CorruptedSecurityDataError(SecurityError, name="MQ_ERROR_CORRUPTED_SECURITY_DATA", code=0xC00E0030):
    """A cryptographic operation failed."""

    advice = "Check the keys and the provider named in the message."


class CorruptedPersonalCertStoreError(
    SecurityError, name="MQ_ERROR_CORRUPTED_PERSONAL_CERT_STORE", code=0xC00E0031
):
    """The personal certificate store is damaged."""

    advice = "Restore the store from a backup."


class ComputerDoesNotSupportEncryptionError(
    SecurityError, name="MQ_ERROR_COMPUTER_DOES_NOT_SUPPORT_ENCRYPTION", code=0xC00E0033
):
    """The computer cannot encrypt."""

    advice = "Send without encryption, or install a provider."


class EncryptionProviderNotSupportedError(
    SecurityError, name="MQ_ERROR_ENCRYPTION_PROVIDER_NOT_SUPPORTED", code=0xC00E006B
):
    """The cryptographic provider is not supported."""

    advice = "Use the default provider."


class CannotSetCryptoSecDescrError(
    SecurityError, name="MQ_ERROR_CANNOT_SET_CRYPTO_SEC_DESCR", code=0xC00E006C
):
    """The keys cannot be protected with an access list."""

    advice = "Check the rights of the service account on its keys."


class CertificateNotProvidedError(SecurityError, name="MQ_ERROR_CERTIFICATE_NOT_PROVIDED", code=0xC00E006D):
    """A message should be signed and no certificate was given."""

    advice = "Pass a certificate, or send unsigned."


class CannotCreateCertStoreError(SecurityError, name="MQ_ERROR_CANNOT_CREATE_CERT_STORE", code=0xC00E006F):
    """The store of the internal certificate cannot be created."""

    advice = "Check the rights of the account."


class CannotOpenCertStoreError(SecurityError, name="MQ_ERROR_CANNOT_OPEN_CERT_STORE", code=0xC00E0070):
    """The store of the internal certificate cannot be opened."""

    advice = "Check the rights of the account."


class PublicKeyNotFoundError(SecurityError, name="MQ_ERROR_PUBLIC_KEY_NOT_FOUND", code=0xC00E0079):
    """The computer's public key was not found."""

    advice = "Wait until the directory has it, or check the computer's name."


class PublicKeyDoesNotExistError(SecurityError, name="MQ_ERROR_PUBLIC_KEY_DOES_NOT_EXIST", code=0xC00E007A):
    """The computer has no public key."""

    advice = "Renew the computer's cryptographic key."


class CannotHashDataExError(SecurityError, name="MQ_ERROR_CANNOT_HASH_DATA_EX", code=0xC00E007F):
    """The message could not be hashed for signing."""

    advice = "Check the hash algorithm and the provider."


class CannotSignDataExError(SecurityError, name="MQ_ERROR_CANNOT_SIGN_DATA_EX", code=0xC00E0080):
    """The message could not be signed."""

    advice = "Check the private key of the certificate."


class CannotCreateHashExError(SecurityError, name="MQ_ERROR_CANNOT_CREATE_HASH_EX", code=0xC00E0081):
    """The hash for signing could not be started."""

    advice = "Check the hash algorithm and the provider."


class FailVerifySignatureExError(SecurityError, name="MQ_ERROR_FAIL_VERIFY_SIGNATURE_EX", code=0xC00E0082):
    """The signature does not match the message."""

    advice = "Do not trust the message; ask the sender to sign again."


class MessageNotAuthenticatedError(SecurityError, name="MQ_ERROR_MESSAGE_NOT_AUTHENTICATED", code=0xC00E009B):
    """The queue takes signed messages only."""

    advice = "Sign the message."


class TransactionError(MQError):
    """A transaction is misused or impossible."""


class DtcConnectError(TransactionError, name="MQ_ERROR_DTC_CONNECT", code=0xC00E004C):
    """The transaction coordinator does not answer."""

    advice = "Start the coordinator, or use an internal transaction."


class TransactionImportError(TransactionError, name="MQ_ERROR_TRANSACTION_IMPORT", code=0xC00E004E):
    """The transaction cannot be brought to this computer."""

    advice = "Check that both coordinators reach each other."


class TransactionUsageError(TransactionError, name="MQ_ERROR_TRANSACTION_USAGE", code=0xC00E0050):
    """The queue and the call disagree about being transactional."""

    advice = "Use a transaction with transactional queues, and none with others."


class TransactionSequenceError(TransactionError, name="MQ_ERROR_TRANSACTION_SEQUENCE", code=0xC00E0051):
    """The steps of the transaction came in the wrong order."""

    advice = "Begin a new transaction."


class MissingConnectorTypeError(TransactionError, name="MQ_ERROR_MISSING_CONNECTOR_TYPE", code=0xC00E0055):
    """An acknowledgement or secure message needs a connector type."""

    advice = "Set the connector type property."


class TransactionEnlistError(TransactionError, name="MQ_ERROR_TRANSACTION_ENLIST", code=0xC00E0058):
    """The queue manager cannot take part in the transaction."""

    advice = "Check the coordinator, and that the transaction is still active."
