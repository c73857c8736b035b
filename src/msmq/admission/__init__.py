"""Who gets in when many want to: one gate for all doors of a process, fair to every address."""
