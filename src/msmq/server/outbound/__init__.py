"""Everything that leaves: the next hops, the links to them, and the drains of the outgoing queues."""
