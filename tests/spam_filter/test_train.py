"""Training and the model: a folder whose parts belong together, decided as trained, replaced as a whole."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from spam_filter.__main__ import COMMANDS, main
from spam_filter.cli.generate import write_corpus
from spam_filter.cli.retrain import main as retrain
from spam_filter.cli.train import format_model, main as train, make_parser, settings_of
from spam_filter.errors import CorpusError, ModelError
from spam_filter.learned.stores import train_stores
from spam_filter.message.mail import Mail
from spam_filter.model import BUNDLE, COSTS, STORES, Model
from spam_filter.synthetic.generator import generate
from spam_filter.training import pipeline
from spam_filter.training.lookups import LookupPlan
from spam_filter.training.pipeline import Division, TrainedModel, TrainingSettings, install_model, train_model
from spam_filter.training.seen_mail import SEEN

from emsco_runtime import BundleError, EmscoError
from emsco_runtime.model_folder import MODEL_FILE

MAILS = list(generate(200, seed=5))


def test_the_folder_holds_bundle_stores_and_costs(trained: TrainedModel) -> None:
    """Training leaves the three parts, their hashes, a certificate, the stricter threshold for spam, and nothing else."""
    assert {entry.name for entry in trained.folder.iterdir()} == {BUNDLE, STORES, COSTS, SEEN, MODEL_FILE}
    manifest = trained.exported.export.bundle.manifest
    assert manifest.certificate is not None
    assert manifest.cost_unit == "us of CPU time"
    for stage in manifest.stages:
        assert stage.thresholds["spam"] > stage.thresholds["ham"]
    assert 'unit = "us of CPU time"' in (trained.folder / COSTS).read_text(encoding="utf-8")
    assert not [entry for entry in trained.folder.parent.iterdir() if entry != trained.folder]


def test_the_command_and_the_library_train_alike() -> None:
    """The defaults of the arguments are those of `TrainingSettings`."""
    assert settings_of(make_parser().parse_args(["mail", "--out", "model"])) == TrainingSettings()


def test_it_decides_mail_it_has_never_seen(model: Model) -> None:
    """Most of the decided messages are right, and each one has its cost."""
    mails = list(generate(150, seed=77))
    decisions = [model.cascade.decide(Mail.parse(mail.raw)) for mail in mails]
    decided = [(one.label, mail.label) for one, mail in zip(decisions, mails, strict=True) if one.label is not None]
    assert len(decided) >= 75
    assert sum(label == truth for label, truth in decided) >= 0.9 * len(decided)
    assert all(one.cost > 0 and not one.degraded for one in decisions)


def test_what_was_learned_is_shown_in_a_few_lines(trained: TrainedModel) -> None:
    """The report has the stages, the test mail, the cost, and the certificate."""
    shown = "\n".join(format_model(trained))
    for word in ("stage 1", "test mail", "exits", "all features for every message", "certificate", "written"):
        assert word in shown


def test_a_reload_takes_up_the_new_pair_and_keeps_the_old_one_if_it_is_bad(trained: TrainedModel, tmp_path: Path) -> None:
    """Stores that belong to another training are refused with the remedy; the model in service goes on."""
    folder = tmp_path / "model"
    shutil.copytree(trained.folder, folder)
    mail = Mail.parse(MAILS[0].raw)
    with Model.open(folder) as model:
        before = model.cascade
        assert model.reload() is False
        assert model.cascade is not before
        in_service = model.cascade
        train_stores(folder / STORES, [(Mail.parse(one.raw), one.label) for one in MAILS[:20]])
        with pytest.raises(BundleError, match="copy the folder of one training as a whole"):
            model.reload()
        assert model.cascade is in_service
        assert not model.cascade.decide(mail).degraded
        assert not before.decide(mail).degraded
    with pytest.raises(EmscoError):
        Model.open(folder)
    with pytest.raises(BundleError, match="the folder does not exist"):
        Model.open(tmp_path / "missing")


def test_errors_are_raised_before_any_work(trained: TrainedModel, tmp_path: Path) -> None:
    """A folder that exists, one that is not a model, a run that is kept already, an unknown feature, and mail of one kind."""
    work = tmp_path / "work"
    work.mkdir()
    new = tmp_path / "new"
    with pytest.raises(ModelError, match="already exists"):
        train_model(MAILS, trained.folder, TrainingSettings())
    with pytest.raises(ModelError, match="is not a model"):
        train_model(MAILS, work, TrainingSettings(), force=True)
    with pytest.raises(ModelError, match="keep the run"):
        train_model(MAILS, new, TrainingSettings(), keep=work)
    with pytest.raises(ModelError, match="'colour' is not a feature"):
        train_model(MAILS, new, TrainingSettings(without=frozenset({"colour"})))
    with pytest.raises(ModelError, match="cost_messages is 0: expected at least 1 message"):
        train_model(MAILS, new, TrainingSettings(cost_messages=0))
    with pytest.raises(CorpusError, match="expected both kinds"):
        train_model([mail for mail in MAILS if mail.label == "ham"], new, TrainingSettings())
    assert not new.exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["work"]


def test_a_training_that_fails_leaves_the_old_model(trained: TrainedModel, tmp_path: Path) -> None:
    """An error that nothing can meet ends with one clear line, and the folder is what it was."""
    folder = tmp_path / "model"
    shutil.copytree(trained.folder, folder)
    before = (folder / STORES).read_bytes()
    plan = TrainingSettings(max_error=0.001, population=4, generations=1, max_stages=2, cost_messages=3)
    with pytest.raises(EmscoError):
        train_model(MAILS, folder, plan, force=True)
    assert (folder / STORES).read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_the_command_refuses_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No mail, or one of the pair, is wrong use (2); mail that is not there is an error of one line (1)."""
    for arguments in ([], ["--spam", "x"], [str(tmp_path), "--spam", "x", "--ham", "y"]):
        with pytest.raises(SystemExit) as ended:
            train([*arguments, "--out", str(tmp_path / "model")])
        assert ended.value.code == 2
    capsys.readouterr()
    assert train([str(tmp_path / "missing"), "--out", str(tmp_path / "model")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--max-error", "2", "max_error is 2.0: expected a share above 0 and below 1"),
        ("--max-error", "nan", "max_error is nan"),
        ("--ham-threshold", "1.5", "ham_threshold is 1.5: expected a confidence above 0 and up to 1"),
        ("--spam-threshold", "0", "spam_threshold is 0.0"),
        ("--min-coverage", "-1", "min_coverage is -1.0: expected a share from 0 to 1"),
        ("--max-cost-share", "0", "max_cost_share is 0.0: expected a share above 0"),
        ("--attacked-share", "11", "attacked_share is 11.0: expected 0 to 10"),
        ("--generations", "0", "generations is 0: expected at least 1 generation"),
        ("--cost-messages", "0", "cost_messages is 0"),
        ("--seed", "-1", "seed is -1: expected a whole number, 0 or more"),
        ("--without", "colour", "'colour' is not a feature"),
        ("--dns", "nowhere", "dns: expected HOST:PORT, a zone file or 'system', got 'nowhere'"),
    ],
)
def test_options_that_no_training_can_use_are_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, message: str
) -> None:
    """By train and by retrain, in one line: not even the mail is looked for."""
    missing, given = str(tmp_path / "missing"), f"{option}={value}"
    for command, arguments in ((train, [missing, "--out", str(tmp_path / "model"), given]), (retrain, [missing, missing, given])):
        assert command(arguments) == 1
        shown = capsys.readouterr().err
        assert message in shown
        assert shown.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_price_that_no_question_has_is_refused() -> None:
    """Lookups cost nothing at least."""
    with pytest.raises(ModelError, match=r"query_ms is -1\.0: expected a number of at least 0"):
        LookupPlan("system", query_ms=-1.0)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, OSError])
def test_there_is_a_model_whatever_happens_while_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    """A signal after the first rename, or an error of the second: the old one is back before the working folder is removed."""
    folder, rename = tmp_path / "model", Path.rename
    folder.mkdir()
    (folder / "old").touch()

    def rename_or_fail(path: Path, target: Path) -> None:
        if path.name == "new":
            raise OSError
        rename(path, target)
        if path == folder and kind is KeyboardInterrupt:
            raise KeyboardInterrupt

    def replace() -> None:
        with tempfile.TemporaryDirectory(dir=tmp_path) as place:
            new = Path(place) / "new"
            new.mkdir()
            install_model(new, folder, Path(place) / "old")

    monkeypatch.setattr(Path, "rename", rename_or_fail)
    with pytest.raises(kind):
        replace()
    assert [path.name for path in folder.iterdir()] == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_model_is_replaced_where_a_link_leads_and_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service was started with the folder itself: a new one in the place of the link would never be seen."""

    def make_model(*arguments: Any) -> TrainedModel:
        (new,) = (one for one in arguments if isinstance(one, Path) and one.name == "model")
        (new / BUNDLE).mkdir()
        return TrainedModel(new, SimpleNamespace(), ())  # type: ignore[arg-type]

    monkeypatch.setattr(pipeline, "_train", make_model)
    real, link, division = tmp_path / "real", tmp_path / "link", Division((), ())
    (real / BUNDLE).mkdir(parents=True)
    link.symlink_to(real)
    for out in (link, Path()):
        (real / "old").touch()
        monkeypatch.chdir(real)
        assert train_model([], out, TrainingSettings(), force=True, division=division).folder == real
        assert link.is_symlink()
        assert sorted(path.name for path in real.iterdir()) == sorted([BUNDLE, SEEN, MODEL_FILE])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_a_new_model_may_be_read_by_whom_the_old_one_may_be(tmp_path: Path) -> None:
    """It says what is in the mail that it was learned from."""
    folder, new = tmp_path / "model", tmp_path / "new"
    folder.mkdir(mode=0o700)
    new.mkdir()
    new.chmod(0o755)
    install_model(new, folder, tmp_path / "old")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_training_that_is_ended_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM: one line, status 130, no working folder."""
    write_corpus(tmp_path / "mail", 300, seed=5)
    # Python ignores Ctrl-C where the tests run in the background.
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from spam_filter.__main__ import run; sys.exit(run())"
    )
    command = [sys.executable, "-c", code, "train", str(tmp_path / "mail"), "--out", str(tmp_path / "model")]
    top = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(top / "examples"), str(top)))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("mail ")
        assert len(list(tmp_path.iterdir())) == 2
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    # Python itself ends by the signal if it came in code that was made at run time, as that of data classes.
    assert process.returncode in (130, -signal.SIGINT)
    assert errors.endswith("spam_filter train: interrupted\n")
    assert "Traceback" not in errors
    assert [entry.name for entry in tmp_path.iterdir()] == ["mail"]


def test_every_command_is_there_and_an_unknown_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The list names all commands; a wrong name ends with 2 and the list."""
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)
    assert main(["colour"]) == 2
    assert "unknown command 'colour'" in capsys.readouterr().err
    assert main([]) == 2


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_imports_nothing_heavy(command: str) -> None:
    """`--help` of each command answers without scikit-learn, numba, onnxruntime and lxml."""
    code = (
        "import sys; sys.path.insert(0, 'examples')\n"
        "from spam_filter.__main__ import main\n"
        f"try: main([{command!r}, '--help'])\n"
        "except SystemExit as ended: assert ended.code == 0, ended.code\n"
        "assert not {'sklearn', 'numba', 'onnxruntime', 'lxml'} & set(sys.modules), sorted(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout
