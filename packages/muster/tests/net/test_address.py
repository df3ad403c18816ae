"""The addresses of tasks."""

import pytest

from muster import _errors as errors
from muster.net import split_address


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("worker-0.job.svc:2222", ("worker-0.job.svc", 2222)),
        ("10.0.0.1:65535", ("10.0.0.1", 65535)),
        ("[::1]:2222", ("::1", 2222)),
        ("müller:1", ("müller", 1)),
    ],
)
def test_an_address_is_host_and_port(address, parts):
    assert split_address(address) == parts


@pytest.mark.parametrize(
    "address",
    [
        "",
        "host",
        "host:",
        ":2222",
        "host:0",
        "host:65536",
        "host:-1",
        "host:x",
        "::1:2222",
        "[]:1",
        "a" * 99 + ":1",
    ]
    + ["host:²", "grpc://host:2222", "a host:1", "host/a:1", "h\x1b:1"],
)
def test_another_address_is_an_error(address):
    with pytest.raises(errors.ClusterError, match=r"must be host:port.*Given: "):
        split_address(address)
