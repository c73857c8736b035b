"""Who may do what, and whose keys and certificates say so."""
