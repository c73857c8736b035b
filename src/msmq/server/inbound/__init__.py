"""Everything that arrives at TCP 1801: sessions, messages, and what is stored about them."""
