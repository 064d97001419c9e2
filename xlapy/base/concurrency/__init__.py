"""What threads of one process, and forked processes, share: caches that compute once, and locks."""
