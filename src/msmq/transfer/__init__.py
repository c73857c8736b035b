"""The state machines of the binary protocol (MS-MQQB), without sockets, clocks, queues or disks."""
