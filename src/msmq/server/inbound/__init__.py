"""Everything that arrives at TCP 1801: sessions, messages, and what is remembered about them."""
