"""Runs Samba's own protocol tests against a server: ``/usr/bin/python3 samba_protocol.py PORT TEST...``.

They hold servers to what Windows does. They expect a server on port 135; here that is PORT. Needs Samba's modules and
nothing of ours.
"""

import socket
import sys
import unittest

from samba.tests.dcerpc import raw_protocol, raw_testcase

port = int(sys.argv[1])


def connect(self):
    """Instead of the port that is meant, go to the one where the server is."""
    self.s = socket.create_connection((self.host, port), timeout=30)
    self.max_xmit_frag = self.max_recv_frag = 5840
    self.tcp_port = int(self.primary_address)
    if self.secondary_address is None:
        self.secondary_address = self.primary_address


raw_testcase.RawDCERPCTest._connect_tcp = connect

names = sys.argv[2:]
if names == ["--list"]:
    for name in unittest.TestLoader().getTestCaseNames(raw_protocol.TestDCERPC_BIND):
        print(name)
    sys.exit()
suite = unittest.TestSuite(raw_protocol.TestDCERPC_BIND(name) for name in names)
result = unittest.TextTestRunner(verbosity=2).run(suite)
sys.exit(not result.wasSuccessful())
