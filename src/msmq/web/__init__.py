"""The console: pages, an HTTP interface and metrics in front of the channel of applications.

It runs in a process of its own and is a client like others. What it does it does by calls of the channel, with the
rights of whoever looks at it; :mod:`msmq.web.process` starts it, :mod:`msmq.web.application` puts it together.
"""
