"""Certificates on both sides: whose handshakes succeed, and what is said of the others."""

import os
import ssl

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from certificates import DAY, NOW, Authority, pem, pem_key
from muster._errors import CredentialsError
from muster.net import Tls, explain_tls_error


@pytest.fixture
def authority():
    return Authority()


@pytest.fixture
def folder(authority, tmp_path):
    return authority.make(tmp_path / "tls", "localhost", "127.0.0.1", "::1", "node-1.example.org")


def raw_context(folder, server):
    """The context of a folder, without the checks of muster."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(folder / "ca.crt")
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


def meet(server, client, host="localhost"):
    """A handshake in memory, and the bytes of a greeting: what each side raises, and the client."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    caller = client.wrap_bio(to_client, to_server, server_hostname=host)
    listener = server.wrap_bio(to_server, to_client, server_side=True)
    errors = {}
    for _ in range(3):
        for name, side in (("client", caller), ("server", listener)):
            try:
                if name not in errors:
                    side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as exc:
                errors[name] = exc
    if not errors:
        caller.write(b"hello")
        assert listener.read(5) == b"hello"
    elif "client" not in errors:
        with pytest.raises(ssl.SSLError) as raised:
            caller.read(1)
        errors["client"] = raised.value
    return errors, caller


def told(errors):
    return {side: explain_tls_error(exc, "worker 1 at node-1:2222") for side, exc in errors.items()}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "node-1.example.org"])
def test_tasks_of_one_authority_meet_by_tls_1_3(folder, host):
    tls = Tls.load(folder)
    errors, caller = meet(tls.server_context, tls.client_context, host)
    assert errors == {}
    assert caller.version() == "TLSv1.3"


def test_the_context_trusts_the_folder_alone(folder):
    tls = Tls.load(folder)
    for context in (tls.server_context, tls.client_context):
        assert context.cert_store_stats()["x509"] == 1
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert tls.client_context.check_hostname
    assert "SSLContext" not in repr(tls)


@pytest.mark.parametrize("host", ["node-2.example.org", "127.0.0.2"])
def test_a_certificate_for_other_hosts(folder, host):
    tls = Tls.load(folder)
    said = told(meet(tls.server_context, tls.client_context, host)[0])
    assert said["client"].startswith("worker 1 at node-1:2222 shows a certificate for other hosts: ")
    assert "muster keys FOLDER --hosts" in said["client"]
    assert "does not accept the certificate of this task: it is for other hosts" in said["server"]


def test_a_certificate_of_another_authority(folder, tmp_path):
    tls, other = Tls.load(folder), Tls.load(Authority().make(tmp_path / "other", "localhost"))
    for errors, finder, refused in (
        (meet(other.server_context, tls.client_context)[0], "client", "server"),
        (meet(_trusting(other, folder), _trusting(tls, tmp_path / "other"))[0], "server", "client"),
    ):
        said = told(errors)
        assert "shows a certificate of an authority that is not in this task's ca.crt" in said[finder]
        assert "its authority is not in the ca.crt there" in said[refused]


def _trusting(tls, folder):
    """A context of which only the other side has something to object to."""
    server = folder.name == "tls"
    context = raw_context(tls.folder, server)
    if not server:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@pytest.mark.parametrize("bad", ["server", "client"])
@pytest.mark.parametrize(
    ("start", "end", "finds", "hears"),
    [
        (-3 * DAY, -DAY, "that has expired, or whose authority's has", "it has expired"),
        (DAY, 3 * DAY, "that is not valid yet: compare the clocks", "or not valid yet there"),
    ],
)
def test_a_certificate_at_another_time(authority, folder, tmp_path, bad, start, end, finds, hears):
    late = authority.make(tmp_path / "late", "localhost", start=NOW + start, end=NOW + end)
    tls = Tls.load(folder)
    server = raw_context(late, server=True) if bad == "server" else tls.server_context
    client = raw_context(late, server=False) if bad == "client" else tls.client_context
    said = told(meet(server, client)[0])
    good = "client" if bad == "server" else "server"
    assert f"worker 1 at node-1:2222 shows a certificate {finds}" in said[good]
    assert hears in said[bad]


def test_a_certificate_for_another_purpose(authority, folder, tmp_path):
    web = authority.make(tmp_path / "web", "localhost", usages=[ExtendedKeyUsageOID.CLIENT_AUTH])
    said = told(meet(raw_context(web, server=True), Tls.load(folder).client_context)[0])
    assert "for another purpose: its extended key usage must be both" in said["client"]
    assert "it is for another purpose" in said["server"]


@pytest.mark.parametrize("weak", ["the certificate", "its authority"])
def test_a_key_that_is_too_short_for_openssl(tmp_path, weak):
    short = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    authority = Authority(key=short if weak == "its authority" else None)
    made = authority.make(tmp_path / "made", "localhost", key=short if weak == "the certificate" else None)
    with pytest.raises(CredentialsError, match=r"OpenSSL does not take .*tls\.crt, or .*KEY_TOO_SMALL"):
        Tls.load(made)


def test_no_certificate(authority, folder):
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(folder / "ca.crt")
    said = told(meet(Tls.load(folder).server_context, client)[0])
    assert "shows no certificate, and so is not a task of this job" in said["server"]
    assert said["client"].endswith("does not accept the certificate of this task: none was shown.")


def test_older_versions_are_refused(folder):
    old = raw_context(folder, server=False)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    said = told(meet(Tls.load(folder).server_context, old)[0])
    assert "does not speak TLS 1.3" in said["server"]
    assert "does not speak TLS 1.3" in said["client"]


@pytest.mark.parametrize("server_side", [True, False])
@pytest.mark.parametrize("text", [b"GET / HTTP/1.1\r\n\r\n", b"muster 1\n" * 10, b'{"a": 1}', bytes(100)])
def test_plain_text(folder, server_side, text):
    tls = Tls.load(folder)
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    if server_side:
        side = tls.server_context.wrap_bio(received, sent, server_side=True)
    else:
        side = tls.client_context.wrap_bio(received, sent, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            side.do_handshake()
    received.write(text)
    with pytest.raises(ssl.SSLError) as raised:
        side.do_handshake()
    assert explain_tls_error(raised.value, "10.0.0.9") == (
        "10.0.0.9 does not speak TLS: set MUSTER_TLS for all tasks of the job, or for none."
    )


def test_a_connection_that_is_closed(folder):
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = Tls.load(folder).client_context.wrap_bio(received, sent, server_hostname="localhost")
    received.write_eof()
    with pytest.raises(ssl.SSLEOFError) as raised:
        side.do_handshake()
    assert explain_tls_error(raised.value, "it").startswith("it has closed the connection in TLS's handshake")


def test_other_errors_are_told_by_their_reason():
    error = ssl.SSLError(1, "[SSL: BAD_EXTENSION] bad extension")
    error.reason = "BAD_EXTENSION"
    assert explain_tls_error(error, "it") == "it and this task could not agree on TLS: BAD_EXTENSION."


def test_an_authority_below_another_one_is_enough(tmp_path):
    folder = Authority(signed_by=Authority()).make(tmp_path / "tls", "localhost")
    tls = Tls.load(folder)
    assert meet(tls.server_context, tls.client_context)[0] == {}


@pytest.mark.parametrize("name", ["ca.crt", "tls.crt", "tls.key"])
def test_a_file_is_missing(folder, name):
    (folder / name).unlink()
    with pytest.raises(
        CredentialsError, match=rf"{folder} must have .* finds no {name} there\. `muster keys`"
    ):
        Tls.load(folder)


def test_a_folder_is_missing(tmp_path):
    with pytest.raises(CredentialsError, match=r"finds no ca\.crt, no tls\.crt, no tls\.key there"):
        Tls.load(tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("ca.crt", "holds no certificate in PEM form"),
        ("tls.crt", "holds no certificate in PEM form"),
        ("tls.key", "holds no private key in PEM form"),
    ],
)
@pytest.mark.parametrize("content", [b"", b"garbage\n", None])
def test_a_file_is_damaged(folder, name, fault, content):
    path = folder / name
    path.write_bytes(path.read_bytes()[:-60] if content is None else content)
    with pytest.raises(CredentialsError, match=f"{path} {fault}"):
        Tls.load(folder)


def test_a_file_is_a_folder(folder):
    (folder / "ca.crt").unlink()
    (folder / "ca.crt").mkdir()
    with pytest.raises(CredentialsError, match=r"ca\.crt holds no certificate|ca\.crt cannot be read"):
        Tls.load(folder)


def test_a_key_of_another_certificate(folder, authority):
    for key in (authority.key, rsa.generate_private_key(65537, 2048)):
        (folder / "tls.key").write_bytes(pem_key(key))
        with pytest.raises(CredentialsError, match=r"tls\.key is not the private key of .*tls\.crt"):
            Tls.load(folder)


def test_an_encrypted_key_does_not_wait_for_a_password(folder, authority):
    (folder / "tls.key").write_bytes(pem_key(authority.key, serialization.BestAvailableEncryption(b"open")))
    with pytest.raises(CredentialsError, match=r"tls\.key is encrypted"):
        Tls.load(folder)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"end": NOW - DAY / 2}, r"tls\.crt has expired, or .*ca\.crt has\. `openssl x509 -noout -dates"),
        ({"start": NOW + DAY / 2}, r"tls\.crt is not valid yet, or .*ca\.crt is not"),
        ({"usages": [ExtendedKeyUsageOID.SERVER_AUTH]}, r"tls\.crt is for another purpose"),
        ({"usages": [ExtendedKeyUsageOID.CLIENT_AUTH]}, r"tls\.crt is for another purpose"),
    ],
)
def test_a_certificate_that_no_other_task_would_accept(authority, tmp_path, options, fault):
    with pytest.raises(CredentialsError, match=fault):
        Tls.load(authority.make(tmp_path / "bad", "localhost", **options))


def test_the_authority_has_expired(tmp_path):
    past = Authority(start=NOW - 3 * DAY, end=NOW - DAY)
    with pytest.raises(CredentialsError, match=r"tls\.crt has expired, or .*ca\.crt has"):
        Tls.load(past.make(tmp_path / "tls", "localhost"))


def test_the_authority_is_not_the_certificates(folder):
    (folder / "ca.crt").write_bytes(pem(Authority().certificate))
    with pytest.raises(CredentialsError, match=r"tls\.crt was not made by the authority of .*ca\.crt"):
        Tls.load(folder)


def test_a_certificate_behind_links_as_kubernetes_mounts_it(folder):
    hidden = folder / "..2026_01_01"
    hidden.mkdir()
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (folder / name).rename(hidden / name)
        os.symlink(hidden / name, folder / name)
    Tls.load(folder)
