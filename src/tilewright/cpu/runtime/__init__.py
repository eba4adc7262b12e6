"""Object code, its cache, the threads that run it, and launches."""
