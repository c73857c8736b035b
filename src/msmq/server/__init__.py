"""The daemon: sockets, timers, group commit and configuration around the machines of the rooms below."""
