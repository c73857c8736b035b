"""The console: pages, an HTTP interface and metrics in front of the channel of applications.

It runs in a process of its own and is a client like any other. It does everything by calls of the channel, with the
rights of its user; :mod:`msmq.web.process` starts it, :mod:`msmq.web.application` builds it.
"""
