"""The channel of applications in front of the queue manager: the calls of ``msmq.proto``, by gRPC or on a line.

:mod:`msmq.api.door` opens it, :mod:`msmq.api.callers` says who calls, :mod:`msmq.api.status` how errors travel. The
other modules are the calls themselves, a module for each group of them.
"""

import os

os.environ.setdefault(
    "GRPC_VERBOSITY", "NONE"
)  # gRPC reads it when it is imported; what goes wrong is said by us
