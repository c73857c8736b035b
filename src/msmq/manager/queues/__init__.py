"""Creating, naming, opening, showing, changing and deleting queues."""
