"""``muster keys``: certificates that the tasks of a job, and OpenSSL, accept."""

import os
import ssl
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from muster.__main__ import main
from muster._errors import CredentialsError
from muster._extras import working_command
from muster.launch._keys import make_keys
from muster.net import Tls, explain_tls_error


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "keys"


def certificate(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def meet(server, client, host):
    """A handshake in memory; raises what is wrong."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    caller = client.client_context.wrap_bio(to_client, to_server, server_hostname=host)
    listener = server.server_context.wrap_bio(to_server, to_client, server_side=True)
    with pytest.raises(ssl.SSLWantReadError):
        caller.do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        listener.do_handshake()
    caller.do_handshake()
    listener.do_handshake()


def test_one_certificate_is_for_all_hosts(folder, capsys):
    assert (
        main(["keys", str(folder), "--hosts", "node-1,node-2.example.org.", "10.0.0.1", "2001:db8::1"]) == 0
    )
    made = folder / "node-1"
    assert sorted(path.name for path in made.iterdir()) == ["ca.crt", "tls.crt", "tls.key"]
    assert (made / "ca.crt").read_bytes() == (folder / "ca.crt").read_bytes()
    tls = Tls.load(made)
    for host in ("node-1", "node-2.example.org", "10.0.0.1", "2001:db8::1"):
        meet(tls, tls, host)
    with pytest.raises(ssl.SSLCertVerificationError):
        meet(tls, tls, "localhost")
    told = capsys.readouterr().out
    day = datetime.now(UTC) + timedelta(days=365)
    assert f"is for tasks on node-1, node-2.example.org, 10.0.0.1, 2001:db8::1, until {day:%Y-%m-%d}." in told
    assert f"MUSTER_TLS={made} for" in told
    assert f"Keep {folder}/ca.key here, and secret" in told


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "node-1,127.0.0.1"])
def test_on_one_machine_all_its_names_count(folder, host):
    assert main(["keys", str(folder), "--hosts", host]) == 0
    tls = Tls.load(folder / host.partition(",")[0])
    for name in ("localhost", "127.0.0.1", "::1"):
        meet(tls, tls, name)


def test_files_are_for_their_owner_alone(folder):
    before = os.umask(0)
    try:
        assert main(["keys", str(folder), "--hosts", "a"]) == 0
    finally:
        os.umask(before)
    modes = {
        str(path.relative_to(folder.parent)): stat.S_IMODE(path.stat().st_mode)
        for path in [folder, *folder.rglob("*")]
    }
    assert modes.pop("keys") == modes.pop("keys/a") == 0o700
    assert sorted(modes) == [
        "keys/a/ca.crt",
        "keys/a/tls.crt",
        "keys/a/tls.key",
        "keys/ca.crt",
        "keys/ca.key",
    ]
    assert set(modes.values()) == {0o600}


def test_what_the_certificates_say(folder):
    assert main(["keys", str(folder), "--hosts", "a", "--days", "7"]) == 0
    authority, task = certificate(folder / "ca.crt"), certificate(folder / "a" / "tls.crt")
    for each in (authority, task):
        assert isinstance(each.public_key().curve, ec.SECP256R1)
        assert each.not_valid_before_utc < datetime.now(UTC) - timedelta(hours=12)
    assert task.not_valid_after_utc - datetime.now(UTC) < timedelta(days=7)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not task.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usages = task.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usages) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}


def test_openssl_accepts_them_where_it_is_strict(folder):
    assert main(["keys", str(folder), "--hosts", "a"]) == 0
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(folder / "ca.crt")
    context.load_cert_chain(folder / "a" / "tls.crt", folder / "a" / "tls.key")
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    tls = Tls.load(folder / "a")
    tls.server_context.verify_flags |= ssl.VERIFY_X509_STRICT
    meet(tls, Tls(folder=folder, server_context=context, client_context=context), "a")


def test_the_authority_makes_certificates_for_further_hosts(folder):
    assert main(["keys", str(folder), "--hosts", "a"]) == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(["keys", str(folder), "--hosts", "b", "c"]) == 0
    assert {path: path.read_bytes() for path in before} == before
    first, second = Tls.load(folder / "a"), Tls.load(folder / "b")
    meet(first, second, "a")
    meet(second, first, "c")


def test_two_authorities_do_not_trust_each_other(folder, tmp_path):
    for each in (folder, tmp_path / "other"):
        assert main(["keys", str(each), "--hosts", "a"]) == 0
    with pytest.raises(ssl.SSLCertVerificationError) as raised:
        meet(Tls.load(folder / "a"), Tls.load(tmp_path / "other" / "a"), "a")
    assert "of an authority that is not in this task's ca.crt" in explain_tls_error(raised.value, "it")
    assert raised.value.verify_code != 7  # a wrong signature, which both would have if their names were one


def test_nothing_is_overwritten(folder, capsys):
    assert main(["keys", str(folder), "--hosts", "a"]) == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(["keys", str(folder), "--hosts", "a,b"]) == 1
    assert f"muster keys: {folder}/a is there already" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda folder: (folder / "ca.key").unlink(), "ca.key cannot be read"),
        (lambda folder: (folder / "ca.crt").unlink(), "are not those of an authority"),
        (lambda folder: (folder / "ca.crt").write_text("garbage"), "are not those of an authority"),
        (lambda folder: (folder / "ca.key").write_text("garbage"), "are not those of an authority"),
        (
            lambda folder: (folder / "ca.key").write_bytes((folder / "a" / "tls.key").read_bytes()),
            "ca.key is not the private key of",
        ),
        (lambda folder: (folder / "ca.key").chmod(0o644), "chmod 600"),
    ],
)
def test_what_is_no_authority_makes_nothing(folder, capsys, damage, told):
    assert main(["keys", str(folder), "--hosts", "a"]) == 0
    damage(folder)
    assert main(["keys", str(folder), "--hosts", "b"]) == 1
    assert told in capsys.readouterr().err
    assert not (folder / "b").exists()


def test_a_certificate_ends_with_its_authority(folder):
    now = datetime.now(UTC)
    make_keys(folder, ["a"], 1, now - timedelta(days=3640))
    _, end = make_keys(folder, ["b"], 365, now)
    assert timedelta(days=9) < end - now < timedelta(days=11)
    Tls.load(folder / "b")
    with pytest.raises(CredentialsError, match=r"expired on \d{4}-\d\d-\d\d\. Make a new one"):
        make_keys(folder, ["c"], 365, now + timedelta(days=11))


def test_a_folder_that_cannot_be_written(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["keys", str(tmp_path / "file" / "keys"), "--hosts", "a"]) == 1
    assert "Not a directory" in capsys.readouterr().err


def test_the_library_is_missing(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert main(["keys", str(folder), "--hosts", "a"]) == 1
    assert working_command("keys") in capsys.readouterr().err
    assert not folder.exists()


@pytest.mark.processes
def test_only_the_command_imports_the_library():
    code = (
        "import sys, muster.__main__, muster.launch, muster.net\n"
        "muster.__main__._parser()\n"
        "print('cryptography' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "required: --hosts"),
        (["--hosts"], "expected at least one argument"),
        (["--hosts", "node-1:2222"], "without ports, with commas between; given: 'node-1:2222'"),
        (["--hosts", "a,,b"], "given: 'a,,b'"),
        (["--hosts", "../a"], "given: '../a'"),
        (["--hosts", "*.example.org"], "given: '*.example.org'"),
        (["--hosts", "a" * 64], "must be names of hosts"),
        (["--hosts", "a", "--days", "0"], "must be 1 or more, given: 0"),
        (["--hosts", "a", "--days", "3651"], "must be at most 3650, given: 3651"),
    ],
)
def test_bad_arguments_are_told(folder, capsys, arguments, told):
    with pytest.raises(SystemExit) as exit:
        main(["keys", str(folder), *arguments])
    assert exit.value.code == 2
    assert told in capsys.readouterr().err
    assert not folder.exists()
