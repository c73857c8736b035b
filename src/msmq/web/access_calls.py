"""Operations on access: tokens, local accounts, certificates, and the record of changes."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from msmq.web.application import Call
from msmq.web.lists import PAGING, page, page_of
from msmq.web.operations import HOST, TEXT, MisuseError, Parameter, Schema, Table
from msmq.web.people import Role
from msmq.web.shapes import by_name, plain

TABLE: Final = Table()
_SID: Final[Schema] = {"type": "string", "maxLength": 200}
_TOKEN: Final[Schema] = {"type": "object", "properties": {"name": TEXT, "sid": TEXT, "created_time": TEXT}}
_USER: Final[Schema] = {
    "type": "object",
    "properties": {"name": TEXT, "sid": TEXT, "groups": {"type": "array", "items": TEXT}},
}
_CERTIFICATE: Final[Schema] = {
    "type": "object",
    "properties": {"digest": TEXT, "sid": TEXT, "subject": TEXT, "issuer": TEXT, "expires_time": TEXT},
}
_NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 64}
_PASSWORD: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 256}


@TABLE.add(
    "GET", "/api/tokens", "Tokens that were made here.", role=Role.ADMINISTER, parameters=(*PAGING, HOST),
    reply=page_of(_TOKEN),
)  # fmt: skip
async def list_tokens(call: Call) -> Any:
    return page(by_name(await (await call.mq()).tokens()), call.given, ("name", "sid"))


@TABLE.add(
    "POST", "/api/tokens", "Make a token; its secret is told once.", role=Role.ADMINISTER, parameters=(HOST,),
    status=201, reply={"type": "object", "properties": {"name": TEXT, "sid": TEXT, "secret": TEXT}},
    body={
        "type": "object", "required": ["name"], "additionalProperties": False,
        "properties": {"name": _NAME, "sid": {"type": "string", "maxLength": 200}},
    },
)  # fmt: skip
async def create_token(call: Call) -> Any:
    token, secret = await (await call.mq()).create_token(call.body["name"], call.body.get("sid", ""))
    return plain(token) | {"secret": secret}


@TABLE.add(
    "DELETE", "/api/tokens/{name}", "Take a token back.", role=Role.ADMINISTER, parameters=(HOST,), status=204
)
async def remove_token(call: Call) -> Any:
    await (await call.mq()).remove_token(call.given["name"])


# --- users --------------------------------------------------------------------------------------------------------


@TABLE.add(
    "GET", "/api/users", "Local accounts, which read queues of this host from elsewhere.", role=Role.ADMINISTER,
    parameters=(*PAGING, HOST), reply=page_of(_USER),
)  # fmt: skip
async def list_users(call: Call) -> Any:
    return page(by_name(await (await call.mq()).accounts()), call.given, ("name", "sid", "groups"))


@TABLE.add(
    "POST", "/api/users", "Add a local account; a password that is not given is made up and told once.",
    role=Role.ADMINISTER, parameters=(HOST,), status=201,
    reply={"type": "object", "properties": {"name": TEXT, "sid": TEXT, "password": TEXT}},
    body={
        "type": "object", "required": ["name"], "additionalProperties": False,
        "properties": {
            "name": _NAME, "password": _PASSWORD, "sid": _SID,
            "groups": {"type": "array", "items": _SID, "maxItems": 100},
        },
    },
)  # fmt: skip
async def add_user(call: Call) -> Any:
    given = call.body
    account, password = await (await call.mq()).create_account(
        given["name"], given.get("groups", ()), given.get("password", ""), given.get("sid", "")
    )
    return plain(account) | {"password": password}


@TABLE.add(
    "PUT", "/api/users/{name}/password", "Set a new password.", role=Role.ADMINISTER, parameters=(HOST,), status=204,
    body={
        "type": "object", "required": ["password"], "additionalProperties": False,
        "properties": {"password": _PASSWORD},
    },
)  # fmt: skip
async def set_user_password(call: Call) -> Any:
    await (await call.mq()).set_account_password(call.given["name"], call.body["password"])


@TABLE.add(
    "DELETE",
    "/api/users/{name}",
    "Remove a local account.",
    role=Role.ADMINISTER,
    parameters=(HOST,),
    status=204,
)
async def remove_user(call: Call) -> Any:
    await (await call.mq()).remove_account(call.given["name"])


# --- certificates -------------------------------------------------------------------------------------------------


@TABLE.add(
    "GET", "/api/certificates", "Certificates by which messages of a user are known.", role=Role.LOOK,
    parameters=(
        Parameter("sid", {"type": "string", "maxLength": 200}, "Of whom; of oneself when not given."), *PAGING, HOST
    ),
    reply=page_of(_CERTIFICATE),
)  # fmt: skip
async def list_certificates(call: Call) -> Any:
    found = await (await call.mq()).certificates(call.given.get("sid", ""))
    return page(by_name(found), call.given, ("subject", "issuer", "digest"))


@TABLE.add(
    "POST", "/api/certificates", "Register a certificate of one's own.", role=Role.OPERATE, parameters=(HOST,),
    status=201, reply=_CERTIFICATE,
    body={
        "type": "object", "required": ["certificate"], "additionalProperties": False,
        "properties": {
            "certificate": {"type": "string", "maxLength": 100_000, "description": "X.509: PEM, or DER in base64."}
        },
    },
)  # fmt: skip
async def enable_certificate(call: Call) -> Any:
    text = call.body["certificate"]
    lines = [line for line in text.splitlines() if not line.startswith("-----")]
    try:
        encoded = base64.b64decode("".join(lines), validate=True)
    except (ValueError, binascii.Error):
        raise MisuseError("The certificate is neither PEM nor base64.") from None
    return plain(await (await call.mq()).register_certificate(encoded))


@TABLE.add(
    "POST", "/api/certificates/renew", "Make a new internal certificate; its key is told once, PKCS #8 in base64.",
    role=Role.OPERATE, parameters=(HOST,), status=201,
    reply={"type": "object", "properties": {"certificate": _CERTIFICATE, "private_key": TEXT}},
)  # fmt: skip
async def renew_certificate(call: Call) -> Any:
    certificate, private_key = await (await call.mq()).renew_internal_certificate()
    return {"certificate": plain(certificate), "private_key": base64.b64encode(private_key).decode()}


@TABLE.add(
    "DELETE", "/api/certificates/{digest}", "Take a certificate of one's own back.", role=Role.OPERATE,
    parameters=(HOST,), status=204,
)  # fmt: skip
async def remove_certificate(call: Call) -> Any:
    await (await call.mq()).remove_certificate(bytes.fromhex(call.given["digest"]))


# --- the record ---------------------------------------------------------------------------------------------------


@TABLE.add(
    "GET", "/api/audit", "Who changed what, the newest first.", role=Role.ADMINISTER, parameters=PAGING,
    reply=page_of({"type": "object"}),
)  # fmt: skip
async def list_audit(call: Call) -> Any:
    searched = ("who", "name", "what", "outcome", "whence", "queue", "targets", "given")
    return page(call.around.audit.newest_first(), call.given, searched)
