"""What strangers may cost: connections, fair to every address; answers that nobody reads; guesses."""
