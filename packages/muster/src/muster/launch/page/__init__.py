"""The page of a job in a browser, and its metrics for Prometheus, made from the folder of its logs."""

from muster.launch.page._page_server import PageServer as PageServer
