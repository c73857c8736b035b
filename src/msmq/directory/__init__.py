"""Directories that a queue manager can be given: Active Directory over LDAP (MS-MQDSSM), or a file.

:class:`msmq.directory.active_directory.ActiveDirectory` is what a queue manager uses; it keeps the promise of
:class:`msmq.manager.directory.Directory`. Below it, from the bottom:

- ``names``, ``filters``, ``values``, ``rights``, ``protection``: distinguished names, filters, attribute values and
  security descriptors. They know no connection.
- ``schema``: the conversion tables, one declaration per attribute.
- ``sealing``, ``settings``, ``discovery``, ``connection``: one LDAP connection, signed and sealed, to servers that
  are named or that the DNS knows, shared by all operations.
- ``objects``: the events "... Using LDAP", each a few requests.
- ``converting``: from LDAP values to objects and back, where that takes more reads.
- ``creating``, ``reading``, ``writing``, ``resolving``: the events.
- ``listed``, ``local``: a directory whose objects are a list, and that of a workgroup, in a file.
- ``threads``: the same events without blocking an event loop.
"""
