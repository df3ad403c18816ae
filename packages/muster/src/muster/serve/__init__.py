"""``muster serve``: TensorFlow Serving's REST API for saved models, with batches and new versions.

What a request means and how it is answered, which requests are computed together, and which version is served
are modules of their own that know neither sockets nor threads.
"""

from muster.serve._command import add_serve_command as add_serve_command
