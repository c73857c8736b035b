"""Messages from the application's send to the application's receive, with their transactions and acknowledgments."""
