"""Directories that a queue manager can be given: Active Directory over LDAP (MS-MQDSSM), or a file.

:class:`msmq.directory.active_directory.ActiveDirectory` is what a queue manager uses; it implements
:class:`msmq.manager.directory.Directory`. Below it, from the bottom:

- ``names``, ``filters``, ``values``, ``rights``, ``protection``: distinguished names, filters, attribute values and
  security descriptors, without a connection.
- ``schema``: the conversion tables, one declaration per attribute.
- ``sealed_stream``, ``settings``, ``discovery``, ``exchange``, ``connection``: one LDAP connection, signed and sealed,
  to servers that are configured or found by DNS, shared by all operations.
- ``objects``: the events "... Using LDAP", each a few requests.
- ``conversion``: from LDAP values to objects and back, where that takes more reads.
- ``create``, ``read``, ``write``, ``resolve``: the events.
- ``threads``, ``cached``: the same events without blocking an event loop.
- ``listed``, ``local``: a directory whose objects are in a list, and the one of a workgroup, in a file.
- ``join``, ``topology``: what an operator does with a directory.
"""
