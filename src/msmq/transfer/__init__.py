"""MS-MQQB: the machines of the binary protocol, without sockets, clocks, queues or disks."""
