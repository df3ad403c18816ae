"""What URLs ask for."""

import pytest

from muster import RequestError
from muster.serve._routes import Route, parse_route


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("GET", "/v1/models/m", Route(model="m", version=None, verb="status")),
        ("GET", "/v1/models/m/versions/12", Route(model="m", version=12, verb="status")),
        ("GET", "/v1/models/m/metadata", Route(model="m", version=None, verb="metadata")),
        ("GET", "/v1/models/m/versions/3/metadata", Route(model="m", version=3, verb="metadata")),
        ("POST", "/v1/models/m:predict", Route(model="m", version=None, verb="predict")),
        ("POST", "/v1/models/m/versions/7:classify", Route(model="m", version=7, verb="classify")),
        ("POST", "/v1/models/m:regress", Route(model="m", version=None, verb="regress")),
        ("POST", "/V1/Models/m:PREDICT", Route(model="m", version=None, verb="predict")),
        ("GET", "/v1/models/a%20b", Route(model="a b", version=None, verb="status")),
    ],
)
def test_what_a_path_asks_for(method, path, route):
    assert parse_route(method, path) == route


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v2/models/m", 404),
        ("POST", "/v1/models/m", 400),
        ("GET", "/v1/models", 400),
        ("GET", "/v1/models/m:predict", 400),
        ("POST", "/v1/models/m:explain", 400),
        ("POST", "/v1/models/m/versions/x:predict", 400),
        ("DELETE", "/v1/models/m", 400),
        ("POST", "/v1/models/m/labels/stable:predict", 400),
    ],
)
def test_other_paths_are_refused(method, path, status):
    with pytest.raises(RequestError) as refused:
        parse_route(method, path)
    assert refused.value.status == status


def test_labels_are_refused_by_name():
    with pytest.raises(RequestError, match="no label 'stable'"):
        parse_route("GET", "/v1/models/m/labels/stable")
