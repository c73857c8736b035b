"""High availability: the log of a queue manager in PostgreSQL, one instance that leads and others that wait.

How it works
------------
The store writes its segments to a :class:`~msmq.ha.disk.ReplicatedDisk`. Its files are ordinary ones in a local
directory, the *cache*; each write also becomes a row of a log that all instances share. It is durable when the log has
confirmed it; the next rows are sent without waiting for that. An instance that waits, a *standby*, copies the rows
into its own cache (:mod:`msmq.ha.cache`), so that it has all data when it takes over.

A *lease* in the same database says who leads, by the database's clock. Taking the lease raises the *epoch*, and a row
is inserted only while its writer's epoch is the current one: a leader that was replaced without noticing can change
nothing. A leader that cannot renew its lease, or whose row stays unanswered, stops at once and answers nobody; the row
is never cancelled, since PostgreSQL would then show it although no other node has it.

:mod:`msmq.ha.log` defines what a log must do; :mod:`msmq.ha.leadership` with :mod:`msmq.ha.writer` implements it on
PostgreSQL, :mod:`msmq.testing.replicated` for the simulators.
"""
