"""A job with parameter servers: the server of a task, and a worker's connections to all of them."""
