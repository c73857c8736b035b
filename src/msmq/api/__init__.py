"""The channel of applications in front of the queue manager: the calls of ``msmq.proto``, by gRPC or on a line.

:mod:`msmq.api.door` opens the channel, :mod:`msmq.api.callers` identifies the callers and :mod:`msmq.api.status`
carries errors. The other modules hold the calls, a module for each group of them.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC reads it when it is imported; we log errors ourselves
