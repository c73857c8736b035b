"""High availability: the log of a queue manager in PostgreSQL, one instance that leads and others that wait.

How it works
------------
The store writes its segments to a :class:`~msmq.ha.disk.ReplicatedDisk`. Its files are ordinary ones in a local
directory, the *cache*; what was written between two syncs is also a row of a log that all instances share. It is
durable when the log has confirmed it, and the next rows are on their way before that. An instance that waits, a
*standby*, copies the rows into a cache of its own (:mod:`msmq.ha.cache`), so that it has everything at hand when its
turn comes.

Who leads is a *lease* in the same database, by the database's clock. Who takes it raises the *epoch*, and a row is
inserted only under the epoch of who inserts it: what a leader writes that was replaced without noticing changes
nothing. A leader that cannot renew its lease, or whose row stays unanswered, stops at once and answers nobody; the row
is never cancelled, since PostgreSQL would then show it although no other node has it.

:mod:`msmq.ha.log` says what a log must do; :mod:`msmq.ha.leadership` with :mod:`msmq.ha.writer` is the one on
PostgreSQL, :mod:`msmq.testing.replicated` the one of the simulators.
"""
