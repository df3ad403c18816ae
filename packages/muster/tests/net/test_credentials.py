"""The credentials that an environment names, and the files that are refused."""

import os
import re
import stat

import pytest

from certificates import Authority
from muster._errors import ClusterError, CredentialsError
from muster.net import Credentials, make_secret
from muster.net._private_files import is_exposed

SECRET = "correct horse battery"


@pytest.fixture
def secret_file(tmp_path):
    path = tmp_path / "the secret"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    return path


def test_without_variables_there_are_none():
    assert Credentials.from_environ({"HOME": "/root"}) == Credentials(secret=None, tls=None)


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_variable_and_a_file_hold_the_same_secret(secret_file, end):
    secret_file.write_bytes(SECRET.encode() + end.encode())
    for environ in ({"MUSTER_SECRET": SECRET + end}, {"MUSTER_SECRET_FILE": str(secret_file)}):
        assert Credentials.from_environ(environ).secret == SECRET.encode()


def test_a_secret_of_any_bytes_is_the_same_in_the_environment_and_in_a_file(secret_file):
    content = bytes(range(128, 256))
    secret_file.write_bytes(content)
    for environ in ({"MUSTER_SECRET": os.fsdecode(content)}, {"MUSTER_SECRET_FILE": str(secret_file)}):
        assert Credentials.from_environ(environ).secret == content


def test_a_secret_is_never_shown():
    credentials = Credentials.from_environ({"MUSTER_SECRET": SECRET})
    assert SECRET not in f"{credentials} {credentials!r}"


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"MUSTER_SECRET": SECRET, "MUSTER_SECRET_FILE": "x"}, "are both set. Unset one"),
        ({"MUSTER_SECRET": "hunter2"}, "at least 16 characters.*Given: 7 characters"),
        ({"MUSTER_SECRET": "ä" * 15}, "Given: 15 characters"),
        ({"MUSTER_SECRET": ""}, "MUSTER_SECRET is set, but empty"),
        ({"MUSTER_SECRET_FILE": ""}, "MUSTER_SECRET_FILE is set, but empty"),
        ({"MUSTER_TLS": ""}, "MUSTER_TLS is set, but empty"),
        ({"MUSTER_SECRET_FILE": "/no/such"}, "/no/such cannot be read by the user [0-9]+: No such file"),
        ({"MUSTER_SECRET_FILE": "/proc"}, "/proc is not a file"),
        ({"MUSTER_SECRET_FILE": "/dev/zero"}, "/dev/zero is not a file"),
    ],
)
def test_what_cannot_be_used_is_told_without_the_secret(environ, told):
    with pytest.raises(CredentialsError, match=told) as raised:
        Credentials.from_environ(environ)
    assert isinstance(raised.value, ClusterError)
    if secret := environ.get("MUSTER_SECRET"):
        assert secret not in f"{raised.value!r}{raised.value.__cause__!r}"


def test_a_fifo_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(CredentialsError, match="is not a file"):
        Credentials.from_environ({"MUSTER_SECRET_FILE": str(tmp_path / "fifo")})


def test_a_large_file_is_no_secret(secret_file):
    secret_file.write_bytes(bytes(70_000))
    with pytest.raises(CredentialsError, match="larger than 65536 bytes"):
        Credentials.from_environ({"MUSTER_SECRET_FILE": str(secret_file)})


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o602])
def test_a_file_that_others_may_read_or_change_is_refused(secret_file, mode):
    secret_file.chmod(mode)
    link = secret_file.with_name("a link")
    link.symlink_to(secret_file)
    for path in (secret_file, link):
        with pytest.raises(CredentialsError) as raised:
            Credentials.from_environ({"MUSTER_SECRET_FILE": str(path)})
        message = str(raised.value)
        assert f"Its mode is {mode:04o}." in message
        assert f"chmod 600 '{path}'" in message
        assert "defaultMode: 0400" in message
        assert SECRET not in message


def test_a_private_key_that_others_may_read_is_refused(tmp_path):
    folder = Authority().make(tmp_path / "tls", "localhost")
    (folder / "tls.key").chmod(0o644)
    with pytest.raises(CredentialsError, match=f"chmod 600 {folder}/tls.key"):
        Credentials.from_environ({"MUSTER_TLS": str(folder)})


@pytest.mark.parametrize(
    ("mode", "owner", "user", "exposed"),
    [
        (0o600, 1000, 1000, False),
        (0o400, 0, 0, False),
        (0o440, 1000, 1000, True),
        (0o440, 0, 1000, False),  # Kubernetes' Secrets for a pod with an fsGroup
        (0o460, 0, 1000, True),
        (0o444, 0, 1000, True),  # and by default
        (0o440, 0, 0, True),
        (0o440, 1001, 1000, True),
    ],
)
def test_the_group_may_read_what_is_roots_and_given_to_another_user(mode, owner, user, exposed):
    assert is_exposed(stat.S_IFREG | mode, owner=owner, user=user) is exposed


def test_secrets_are_long_and_differ():
    first, second = make_secret(), make_secret()
    assert re.fullmatch("[0-9a-f]{64}", first)
    assert first != second
    Credentials.from_environ({"MUSTER_SECRET": first})


@pytest.mark.parametrize(
    ("addresses", "named"),
    [
        ([], None),
        (["127.0.0.1:1", "localhost:2", "LOCALHOST.:2", "[::1]:3", "127.8.0.1:4"], None),
        (["127.0.0.1:1", "node-1:2", "node-2:2"], "node-1:2"),
        (["[2001:db8::1]:2"], "[2001:db8::1]:2"),
        (["localhost.example.org:2"], "localhost.example.org:2"),
        (["10.0.0.1:2"], "10.0.0.1:2"),
    ],
)
def test_open_addresses_are_warned_of(addresses, named):
    warning = Credentials().warning(addresses)
    if named is None:
        assert warning is None
    else:
        assert named in warning
        assert "MUSTER_SECRET_FILE" in warning
        assert "`muster run`" in warning
    assert Credentials(secret=SECRET.encode()).warning(addresses) is None


def test_certificates_are_protection_enough(tmp_path):
    folder = Authority().make(tmp_path / "tls", "localhost")
    assert Credentials.from_environ({"MUSTER_TLS": str(folder)}).warning(["node-1:2"]) is None
