"""Samba's RPC client reads a queue: ``/usr/bin/python3 samba_client.py PORT LEVEL PASSWORD [MORE]``.

MORE is ``krb5 TARGET CACHE REALM`` for a host as its Kerberos principal names it and a cache with a ticket for it; or
``every UOW TOKEN``, of a transaction the server can be enlisted in, to call every other method too and say which
succeeded. One of its reads waits then, and it says by which handle, until ``cancel GROUP HANDLE`` of another client
cancels it, which joins the first one's association group.

The stubs are written by hand from the IDL; Samba does the rest, signatures and seals among it. Needs Samba's modules
and nothing of ours.
"""

import struct
import sys

from samba import param
from samba.credentials import DONT_USE_KERBEROS, MUST_USE_KERBEROS, SPECIFIED, Credentials
from samba.dcerpc import base, mgmt

port, level, password = sys.argv[1:4]
REMOTE_READ = ("1a9134dd-7b39-45ba-ad88-44d01ca47f28", 1)
options = {
    "none": "", "connect": ",connect", "packet": ",packet", "integrity": ",sign", "privacy": ",seal",
}[level]  # fmt: skip
purpose, more = sys.argv[4] if len(sys.argv) > 4 else "", sys.argv[5:]

lp = param.LoadParm()
lp.set("client NTLMv2 auth", "yes")
credentials = Credentials()
if purpose == "cancel":
    options += f",assoc_group_id=0x{int(more[0]):08x}"
if purpose == "krb5":
    target, cache, realm = more
    options += f",krb5,target_hostname={target},target_principal=host/{target}"
    lp.set("realm", realm)
    credentials.set_kerberos_state(MUST_USE_KERBEROS)
    credentials.set_named_ccache(f"FILE:{cache}", SPECIFIED, lp)
elif level == "none":
    credentials.set_anonymous()
else:
    credentials.set_username("alice")
    credentials.set_password(password)
    credentials.set_domain("WORKGROUP")
    credentials.set_workstation("PEER")
    credentials.set_kerberos_state(DONT_USE_KERBEROS)

binding = f"ncacn_ip_tcp:127.0.0.1[{port}{options}]"
managed = mgmt.mgmt(binding, lp, credentials)
found = {str(entry.id.uuid) for entry in managed.inq_if_ids().if_id}
assert REMOTE_READ[0] in found, found
raw = base.ClientConnection(binding, REMOTE_READ, lp_ctx=lp, basis_connection=managed)
if purpose == "cancel":
    answer = raw.request(8, bytes.fromhex(more[1]) + struct.pack("<I", 77))
    assert answer[:4] == bytes(4), answer
    print("ok [8]")
    sys.exit()


def direct(name, form=3):
    text = (name + "\0").encode("utf-16-le")
    count = len(text) // 2
    head = struct.pack("<BBHBxxxI", form, 0, 0, form, 0x20000) + struct.pack("<III", count, 0, count) + text
    return head + bytes(-len(head) % 4)


def open_queue(name, access, opnum=2):
    tail = struct.pack("<II16siBBHi", access, 0, bytes(range(16)), 1, 6, 1, 7601, 1)
    return raw.request(opnum, direct(name, 8 if ";" in name else 3) + tail)


def every_other_method():
    done = set()

    def call(opnum, request):
        answer = raw.request(opnum, request)
        assert answer[-4:] == bytes(4), (opnum, answer)
        done.add(opnum)
        return answer

    work = open_queue("OS:HOST\\private$\\work", 1)[:20]
    (cursor,) = struct.unpack_from("<I", call(4, work))
    peeked = call(7, work + struct.pack("<4xQIIIIII", 0, cursor, 0x80000000, 0, 0, 1 << 22, 1 << 22))
    call(5, work + struct.pack("<I", cursor))
    moving = open_queue("OS:HOST\\private$\\work;later", 4, 11)
    done.add(11)
    context, first = (
        moving[:8],
        peeked[8:16],
    )  # the queue is transactional: pSequenceId is the whole identifier
    call(10, work + bytes(4) + context + first + bytes(16))
    uow, token = (bytes.fromhex(each) for each in more)
    enlisted = uow + struct.pack("<II", len(token), len(token)) + token
    call(12, enlisted + bytes(-len(enlisted) % 4) + direct("OS:HOST\\private$\\work"))
    begin = struct.pack("<4xQIIIIII", 0, 0, 0, 0, 9, 1 << 22, 1 << 22)
    received = call(13, work + begin + uow)
    assert b"to be rejected" in received
    call(15, work + struct.pack("<II", 2, 9))
    call(14, work + bytes(4) + received[8:16] + struct.pack("<H", 0xC004))
    call(6, work)
    empty = open_queue("OS:HOST\\private$\\orders", 1)[:20]
    print("waiting", empty.hex(), flush=True)
    waited = raw.request(7, empty + struct.pack("<4xQIIIIII", 0, 0, 0, 60_000, 77, 1 << 22, 1 << 22))
    assert waited[24:28] == struct.pack("<I", 0xC00E0008), waited
    call(3, empty)
    for handle in (work, moving[8:28]):
        call(3, handle)
    return done


assert struct.unpack("<I", raw.request(0, b"")[:4])[0] == int(port)
told = "it was opened"
try:
    open_queue("OS:HOST\\private$\\nope", 1)
except Exception as error:
    told = hex(error.args[0] & 0xFFFFFFFF) + str(error).lower()
assert "c00e0003" in told, told

handle = open_queue("OS:HOST\\private$\\orders", 1)[:20]
start = handle + struct.pack("<4xQIIIIII", 0, 0, 0, 0, 7, 1 << 22, 1 << 22)
answer = raw.request(7, start)
arrived, sequence, sections, referent, count = struct.unpack_from("<I4xQIII", answer)
assert all((arrived, sequence, referent)), answer[:28]
assert sections == count == 1
kind, alloc, size, data = struct.unpack_from("<HxxIII", answer, 28)
assert (kind, alloc, bool(data)) == (0, size, True)
assert b"hello from far away" in answer
assert raw.request(9, handle + struct.pack("<II", 2, 7))[:4] == bytes(4)
failed = raw.request(7, start)
assert failed[20:28] == bytes(4) + struct.pack("<I", 0xC00E001B), failed
closed = raw.request(3, handle)
assert closed[:24] == bytes(24), closed
print("ok", sorted({0, 2, 3, 7, 9} | every_other_method()) if purpose == "every" else "")
