"""``msmq certificate``: certificates that identify a user's messages. The work is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msmq.cli.calls import Json, Yes, confirm, fail, guarded, perform, with_examples

if TYPE_CHECKING:
    from msmq.client import Certificate

HELP = "Manage the certificates by which your messages are known."
NEW_HELP = (
    "Make a new internal certificate of yours; the old one is no longer good.\n\n"
    "The queue manager keeps the private key, to sign what your programs send with authenticate=True. KEY gets a copy, "
    "for your eyes only.\n\nExamples:\n\n"
    "  msmq certificate {} --key me.key --out me.pem"
)
ENABLE_HELP = "Register a certificate of yours, or make an internal one if none is given."

app = typer.Typer(help=HELP, no_args_is_help=True)

_Key = Annotated[
    Path | None, typer.Option(metavar="KEY", help="Where the private key goes (PEM).", show_default=False)
]
_Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Where the certificate goes (PEM).", show_default=False)
]


def _shape(certificate: Certificate) -> dict[str, object]:
    from msmq.cli.output import plain

    shown: dict[str, object] = plain(certificate)
    return shown


def _print(found: list[Certificate], as_json: bool) -> None:
    from msmq.cli.output import print_json, print_table

    if as_json:
        for certificate in found:
            print_json(_shape(certificate))
        return
    print_table(
        ("digest", "subject", "expires", "kind"),
        [
            (
                certificate.digest.hex(),
                certificate.subject,
                certificate.expires_time,
                "internal" if certificate.internal else "registered",
            )
            for certificate in found
        ],
    )


@app.command("list", help=with_examples("List your certificates.", "msmq certificate list --json"))
def list_(
    ctx: typer.Context,
    sid: Annotated[str, typer.Option(metavar="SID", help="Those of somebody else.", show_default=False)] = "",
    as_json: Json = False,
) -> None:
    _print(perform(ctx, lambda mq: mq.certificates(sid)), as_json)


@app.command(help=NEW_HELP.format("new"), short_help="Make a new internal certificate.")
@app.command("renew", help=NEW_HELP.format("renew"), short_help="Another word for 'new'.")
def new(ctx: typer.Context, key: _Key = None, out: _Out = None, as_json: Json = False) -> None:
    for file in (key, out):
        if file is not None and file.exists():
            fail(ctx, f"{file} is there already; it is not overwritten")
    certificate, private_key = perform(ctx, lambda mq: mq.renew_internal_certificate())
    guarded(ctx, lambda: _write(certificate.certificate, private_key, key, out))
    _print([certificate], as_json)


@app.command(
    help=with_examples(ENABLE_HELP, "msmq certificate enable me.pem"), short_help="Register a certificate."
)
@app.command(
    "register",
    help=with_examples(ENABLE_HELP, "msmq certificate register me.pem"),
    short_help="Another word for 'enable'.",
)
def enable(
    ctx: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The certificate, PEM or DER.", show_default=False)
    ] = None,
    key: _Key = None,
    out: _Out = None,
    as_json: Json = False,
) -> None:
    if file is None:
        new(ctx, key, out, as_json)
        return
    encoded = guarded(ctx, lambda: _der(file.read_bytes()))
    _print([perform(ctx, lambda mq: mq.register_certificate(encoded))], as_json)


@app.command(
    help=with_examples(
        "Take a certificate of yours back.", "msmq certificate remove 0cc175b9c0f1b6a831c399e269772661"
    )
)
def remove(
    ctx: typer.Context,
    digest: Annotated[
        str, typer.Argument(metavar="DIGEST", help="As 'msmq certificate list' shows it.", show_default=False)
    ],
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    from msmq.cli.output import print_json

    try:
        wanted = bytes.fromhex(digest)
    except ValueError:
        fail(ctx, f"a digest is hexadecimal, as 'msmq certificate list' shows it, not {digest!r}", 2)
    confirm(ctx, f"Take the certificate {digest} back?", yes)
    perform(ctx, lambda mq: mq.remove_certificate(wanted))
    print_json({"digest": digest, "removed": True}) if as_json else print(f"removed {digest}")


def _der(given: bytes) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import load_der_x509_certificate, load_pem_x509_certificate

    load = load_pem_x509_certificate if given.lstrip().startswith(b"-----") else load_der_x509_certificate
    try:
        return load(given).public_bytes(Encoding.DER)
    except ValueError:
        raise ValueError("This file is no X.509 certificate; give one in PEM or DER.") from None


def _write(certificate: bytes, private_key: bytes, key: Path | None, out: Path | None) -> None:
    import os

    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_der_private_key,
    )
    from cryptography.x509 import load_der_x509_certificate

    if key is not None:
        pem = load_der_private_key(private_key, None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
    if out is not None:
        out.write_bytes(load_der_x509_certificate(certificate).public_bytes(Encoding.PEM))
