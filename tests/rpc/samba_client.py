"""Samba's RPC client against a server: ``/usr/bin/python3 samba_client.py PORT LEVEL PASSWORD``.

Binds mgmt as alice, asks which interfaces are served and has the answer signed or sealed; Samba verifies every
signature. Then raw operations of the test interface on a second connection, large ones among them. Needs Samba's
modules and nothing of ours.
"""

import struct
import sys

from samba import param
from samba.credentials import DONT_USE_KERBEROS, Credentials
from samba.dcerpc import base, mgmt

port, level, password = sys.argv[1:4]
options = {"none": "", "connect": ",connect", "packet": ",packet", "sign": ",sign", "seal": ",seal"}[level]
extra = "".join(f",{option}" for option in sys.argv[4:])
ECHOES = ("5c2f77a1-3c4e-4d0b-9d63-2b1c5a3e7f10", 0x00020001)

lp = param.LoadParm()
lp.set("client NTLMv2 auth", "yes")
credentials = Credentials()
if level == "none":
    credentials.set_anonymous()
else:
    credentials.set_username("alice")
    credentials.set_password(password)
    credentials.set_domain("WORKGROUP")
    credentials.set_workstation("PEER")
    credentials.set_kerberos_state(DONT_USE_KERBEROS)

binding = f"ncacn_ip_tcp:127.0.0.1[{port}{options}{extra}]"
managed = mgmt.mgmt(binding, lp, credentials)
vector = managed.inq_if_ids()
found = {str(entry.id.uuid) for entry in vector.if_id}
assert ECHOES[0] in found, found
assert managed.is_server_listening() is not None

if "ntlm" in sys.argv or level == "connect":
    # This client cannot add an interface to a connection under bare NTLM.
    print("ok")
    sys.exit()

# One more interface on the connection of the first: an alter_context.
raw = base.ClientConnection(binding, ECHOES, lp_ctx=lp, basis_connection=managed)
for size in (0, 5, 4_000, 100_000 if level != "none" else 8_000):
    data = bytes(i % 251 for i in range(size))
    head = struct.pack("<I4xQ" if "ndr64" in sys.argv else "<II", size, size)
    answer = raw.request(0, head + data)
    assert answer[: len(head) + size] == head + data
who = raw.request(1, b"")
name = "S-1-5-7" if level == "none" else "S-1-5-21-1-2-3-1001"
assert name.encode("utf-16-le") in who, who
print("ok")
