"""``muster run``: starts the tasks of a job on this machine, watches them, ends them. Never imports JAX."""
