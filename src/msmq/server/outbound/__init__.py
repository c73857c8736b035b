"""Everything that leaves: the next hop, the links to it, and the outgoing queues that drain into them."""
