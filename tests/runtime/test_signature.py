"""Signatures of bundles: one that is not signed with the required key, or was changed since, is refused in one clear line."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import emsco_runtime.mlflow
from emsco_runtime import BundleError, Cascade, InputError, ReloadingCascade, read_bundle, sign_bundle, write_bundle
from emsco_runtime.bundle.reading import Bundle
from emsco_runtime.cli import inspect, run, sign
from emsco_runtime.testing import make_bundle, sample_bundle

pytest.importorskip("model_signing", reason="the extra `signing` is not installed")

SAMPLE = sample_bundle()
OTHER = make_bundle([["size"], ["links"]], seed=3)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two pairs of keys of elliptic curves, an RSA pair and a key with a password."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    folder = tmp_path_factory.mktemp("keys")
    made: dict[str, Any] = {
        "ours": ec.generate_private_key(ec.SECP256R1()),
        "theirs": ec.generate_private_key(ec.SECP384R1()),
        "rsa": rsa.generate_private_key(65537, 2048),
    }
    for name, key in made.items():
        private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
        (folder / f"{name}.pem").write_bytes(private)
        public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
        (folder / f"{name}.pub").write_bytes(public)
    locked = made["ours"].private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"word"))
    (folder / "locked.pem").write_bytes(locked)
    return folder


@pytest.fixture
def signed(tmp_path: Path, keys: Path) -> Path:
    """Return a signed bundle on disk."""
    return publish(SAMPLE, tmp_path / "spam", keys / "ours.pem")


def publish(bundle: Bundle, folder: Path, key: Path) -> Path:
    """Write a bundle, over an older one, and sign it."""
    write_bundle(folder, bundle.manifest, bundle.models, force=folder.exists())
    assert sign_bundle(folder, key).manifest.id == bundle.manifest.id
    return folder


def model_file(folder: Path) -> Path:
    """Return the file of the first stage's model."""
    return folder / SAMPLE.manifest.stages[0].model.path


def load_error(folder: Path, key: Path) -> str:
    """Load what must be refused, and return the error: always one line that begins with the folder."""
    with pytest.raises(BundleError) as caught:
        Cascade.load(folder, verify=key)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{folder}")
    return text


@pytest.mark.parametrize("name", ["ours", "theirs"])
def test_a_signed_bundle_is_loaded(tmp_path: Path, keys: Path, name: str) -> None:
    """Keys of several curves: the bundle is read as it is without a key, by all ways in, also through a link to the folder."""
    folder, key = publish(SAMPLE, tmp_path / "spam", keys / f"{name}.pem"), keys / f"{name}.pub"
    assert read_bundle(folder, verify=key).models == read_bundle(folder).models == SAMPLE.models
    (tmp_path / "current").symlink_to(folder)
    with Cascade.load(tmp_path / "current", verify=str(key)) as cascade:
        assert cascade.decide({"size": 3.0}).bundle == SAMPLE.manifest.id
    sign_bundle(tmp_path / "current", keys / f"{name}.pem")
    assert read_bundle(folder, verify=key).manifest == SAMPLE.manifest


def test_a_copy_stays_signed(signed: Path, keys: Path, tmp_path: Path) -> None:
    """The signature is inside the folder, and the folder may have any name."""
    shutil.copytree(signed, tmp_path / "copy")
    assert read_bundle(tmp_path / "copy", verify=keys / "ours.pub").manifest == SAMPLE.manifest


def test_other_tools(signed: Path, keys: Path) -> None:
    """model-signing's own command takes our signatures, and makes such that we take."""
    import model_signing

    hashing = model_signing.hashing.Config().set_ignored_paths(paths=["model.sig"])
    verifying = model_signing.verifying.Config().use_elliptic_key_verifier(public_key=keys / "ours.pub")
    verifying.set_hashing_config(hashing).verify(signed, signed / "model.sig")
    signing = model_signing.signing.Config().use_elliptic_key_signer(private_key=keys / "theirs.pem")
    signing.set_hashing_config(hashing).sign(signed, signed / "model.sig")
    assert read_bundle(signed, verify=keys / "theirs.pub").manifest == SAMPLE.manifest


def flip(path: Path) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: flip(folder / "manifest.json"), "Hash mismatch for 'manifest.json'"),
        (lambda folder: flip(model_file(folder)), "Hash mismatch for 'stages/1-"),
        (lambda folder: model_file(folder).unlink(), "Missing files"),
        (lambda folder: (folder / "notes.txt").write_text("hello"), "Extra files"),
        (lambda folder: (folder / ".gitignore").write_text("hello"), "Extra files"),
        (lambda folder: (folder / "link").symlink_to("/etc/hosts"), "symlink"),
        (lambda folder: write_bundle(folder, OTHER.manifest, OTHER.models, force=True), "Hash mismatch for 'manifest.json'"),
        (
            lambda folder: (folder / "model.sig").unlink(),
            "the bundle is not signed: there is no model.sig in the folder. Sign it",
        ),
        (lambda folder: (folder / "model.sig").write_text("{}"), "verificationMaterial"),
        (lambda folder: (folder / "model.sig").write_text("PEM"), "Expecting value"),
        (lambda folder: (folder / "manifest.json").unlink(), "there is no manifest.json"),
    ],
    ids=[
        "manifest",
        "model",
        "no model",
        "new file",
        "git file",
        "link",
        "replaced",
        "unsigned",
        "empty",
        "no JSON",
        "no manifest",
    ],
)
def test_a_changed_bundle_is_refused(signed: Path, keys: Path, damage: Callable[[Path], object], message: str) -> None:
    """Any file that was changed, added or removed, and a bundle without a signature, are refused; the message says which."""
    damage(signed)
    assert message in load_error(signed, keys / "ours.pub")


def test_another_key_is_refused(signed: Path, keys: Path, tmp_path: Path) -> None:
    """A bundle signed by somebody else is refused, as is one whose signature claims to be by the key that is required."""
    assert "does not fit the folder and the key" in load_error(signed, keys / "theirs.pub")
    publish(SAMPLE, tmp_path / "forged", keys / "theirs.pem")
    ours, forged = ((path / "model.sig").read_text() for path in (signed, tmp_path / "forged"))
    hint = '"publicKey":'
    material = ours[ours.index(hint) :].split("}")[0]
    (tmp_path / "forged" / "model.sig").write_text(forged.replace(forged[forged.index(hint) :].split("}")[0], material))
    assert "InvalidSignature" in load_error(tmp_path / "forged", keys / "ours.pub")


@pytest.mark.parametrize("key", ["ours.pem", "rsa.pub", "nowhere.pub"])
def test_a_wrong_public_key(signed: Path, keys: Path, key: str) -> None:
    """A private key, another kind of key and a missing file are the caller's error, in one line."""
    with pytest.raises(InputError, match=rf"^verify: expected a PEM file with the public key .*, got .*{key}: .+$"):
        Cascade.load(signed, verify=keys / key)


@pytest.mark.parametrize("key", ["ours.pub", "rsa.pem", "locked.pem", "nowhere.pem"])
def test_a_wrong_private_key(signed: Path, keys: Path, key: str) -> None:
    """So they are for signing, as is a key with a password; the older signature stays."""
    before = (signed / "model.sig").read_bytes()
    with pytest.raises(InputError, match=rf"^key: expected a PEM file with the private key .*, got .*{key}: .+$"):
        sign_bundle(signed, keys / key)
    assert (signed / "model.sig").read_bytes() == before


def test_only_sound_bundles_are_signed(tmp_path: Path, keys: Path) -> None:
    """Another folder, a damaged bundle and one that holds a link are refused."""
    with pytest.raises(BundleError, match=r"there is no manifest\.json"):
        sign_bundle(tmp_path, keys / "ours.pem")
    write_bundle(tmp_path / "spam", SAMPLE.manifest, SAMPLE.models)
    (tmp_path / "spam" / "link").symlink_to("/etc/hosts")
    with pytest.raises(BundleError, match=r"spam: cannot be signed: .*symlink"):
        sign_bundle(tmp_path / "spam", keys / "ours.pem")
    flip(model_file(tmp_path / "spam"))
    with pytest.raises(BundleError, match="the file hashes to"):
        sign_bundle(tmp_path / "spam", keys / "ours.pem")


def test_reloading(signed: Path, keys: Path) -> None:
    """A new bundle gets into service only once it is signed; a copy in another process requires the same key."""
    key = keys / "ours.pub"
    with ReloadingCascade(signed, verify=key) as cascade, pickle.loads(pickle.dumps(cascade)) as copy:
        write_bundle(signed, OTHER.manifest, OTHER.models, force=True)
        for one in (cascade, copy):
            result = one.refresh()
            assert result.outcome == "failed"
            assert "does not fit the folder and the key" in str(result.error)
        assert cascade.decide({"size": 3.0}).bundle == SAMPLE.manifest.id
        sign_bundle(signed, keys / "ours.pem")
        assert [one.refresh().outcome for one in (cascade, copy)] == ["changed", "changed"]
        assert cascade.decide({"size": 3.0, "links": 1.0}).bundle == OTHER.manifest.id


def test_batches(signed: Path, keys: Path) -> None:
    """A batch decider checks the signature where it is made; MLflow's loader gets the key from the model's configuration."""
    pa = pytest.importorskip("pyarrow")
    from emsco_runtime.arrow import BatchDecider

    key = str(keys / "ours.pub")
    rows = pa.table({"size": [2.0], "links": [1.0], "reputation": [0.5]})
    assert pickle.loads(pickle.dumps(BatchDecider(signed, verify=key)))(rows).column("label").to_pylist() == ["spam"]
    assert emsco_runtime.mlflow._load_pyfunc(str(signed), {"verify": key}).predict(rows).num_rows == 1
    (signed / "model.sig").unlink()
    assert emsco_runtime.mlflow._load_pyfunc(str(signed), {"verify": None}).predict(rows).num_rows == 1
    with pytest.raises(BundleError, match="the bundle is not signed"):
        BatchDecider(signed, verify=key)
    with pytest.raises(BundleError, match="the bundle is not signed"):
        emsco_runtime.mlflow._load_pyfunc(str(signed), {"verify": key})


def test_commands(tmp_path: Path, keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`emsco-sign` signs; `--verify` of `emsco-inspect` and `emsco-run` requires it: else one line, and exit status 1."""
    folder, public = tmp_path / "spam", str(keys / "ours.pub")
    write_bundle(folder, SAMPLE.manifest, SAMPLE.models)
    table = tmp_path / "rows.csv"
    table.write_text("size,links,reputation\n2.0,1.0,0.5\n")
    commands: list[Callable[[], int]] = [
        lambda: inspect.main([str(folder), "--verify", public]),
        lambda: run.main([str(folder), str(table), "--out", str(tmp_path / "decisions.csv"), "--verify", public]),
    ]
    for command in commands:
        assert command() == 1
        assert "the bundle is not signed" in capsys.readouterr().err
    assert sign.main([str(folder), "--key", str(keys / "ours.pem")]) == 0
    shown = f"signed     {SAMPLE.manifest.name} {SAMPLE.manifest.version} ({SAMPLE.manifest.id[:12]})\n"
    assert capsys.readouterr().out == f"{shown}written    {folder}/model.sig\n"
    for command in commands:
        assert command() == 0
    assert sign.main([str(folder), "--key", str(keys / "nowhere.pem")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
