"""`emsco-inspect` and `emsco-run`, as processes; where the shell or a signal matters, the installed commands themselves."""

from __future__ import annotations

import contextlib
import csv
import errno
import gzip
import hashlib
import io
import itertools
import json
import os
import pty
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from emsco_runtime import Bundle, Cascade, write_bundle
from emsco_runtime.bundle.manifest import Feature, WeightedCounts
from emsco_runtime.cli import inspect, run as run_rows
from emsco_runtime.cli.console import RowProgress, run_command
from emsco_runtime.support import files as files_module
from emsco_runtime.support.files import open_output, replace_file
from emsco_runtime.testing import make_bundle, sample_bundle
from tests.processes import BIN, run


def run_refused(status: int, command: str, *arguments: object) -> str:
    """Run a command that must fail with one line on standard error and no traceback; return the line.

    In this process: a command is started in the same way whatever it then refuses, and other tests show that.
    """
    main = {"emsco-inspect": inspect.main, "emsco-run": run_rows.main}[command]
    error = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(error):
        try:
            ended: object = main([str(argument) for argument in arguments])
        except SystemExit as exit_:
            ended = exit_.code
    shown = error.getvalue()
    assert ended == status, shown
    assert "Traceback" not in shown
    assert len(shown.splitlines()) == 1
    assert shown.startswith(f"{command}: ")
    return shown


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Write the sample bundle and return its folder."""
    return write_sample(tmp_path / "bundle", sample_bundle())


def write_sample(path: Path, made: Bundle) -> Path:
    """Write a bundle."""
    write_bundle(path, made.manifest, made.models)
    return path


def write_csv(path: Path, text: str) -> Path:
    """Write a CSV file."""
    path.write_text(text, encoding="utf-8")
    return path


ROWS = "size,links,reputation,label\n3,0,0,spam\n-3,,,spam\n0,0,-3,ham\n0,0.1,0.1,ham\n"


# emsco-inspect


def test_inspect_shows_what_an_operator_asks_for(bundle: Path) -> None:
    """Stages, features, costs, groups, thresholds, expected figures and certificate are there to read."""
    done = run("emsco-inspect", bundle)
    assert done.returncode == 0
    for expected in (
        "sample  version 1",
        "ham, spam",
        "1 to 28 unit an item",
        "lookup (5)",
        "reputation",
        "0.9",
        "certificate  none",
    ):
        assert expected in done.stdout
    assert done.stderr == ""


def test_inspect_as_json_is_the_manifest_with_costs(bundle: Path) -> None:
    """`--json` is for programs: the whole manifest, and the costs worked out by the one cost function."""
    document = json.loads(run("emsco-inspect", bundle, "--json").stdout)
    assert document["costs"] == {"stage": [1.0, 2.0, 25.0], "cumulative": [1.0, 3.0, 28.0], "all_features": 28.0}
    del document["costs"]
    assert document == json.loads((bundle / "manifest.json").read_text())


def test_inspect_of_rich_bundles(tmp_path: Path) -> None:
    """Categories, thresholds per label, unused features and long stages are shown in a bounded space."""
    names = [f"f{index}" for index in range(9)]
    features = [Feature(name=name, kind="numeric", cost=1.0) for name in names]
    features += [
        Feature(name="colour", kind="categorical", cost=0.5, categories=("red", "blue"), unknown="ignore", fallback="red"),
        Feature(name="spare", kind="boolean", cost=2.0),
    ]
    made = make_bundle([[*names, "colour"]], features=features, threshold={"ham": 0.9, "spam": 0.99})
    shown = run("emsco-inspect", write_sample(tmp_path / "b", made)).stdout
    for expected in ("ham 0.9, spam 0.99", "f3, ... (6 more)", "categorical (2)", "ignore", "n/a"):
        assert expected in shown


def test_a_bundle_cannot_forge_what_inspect_prints(tmp_path: Path) -> None:
    """Line breaks and escapes in its texts are written out: a label is no line of the output, nor colours the terminal."""
    forged = "spam\n\ncertificate  error among accepted <= 0.1 %\x1b[31m"
    made = make_bundle([["size"]], labels=("ham", forged))
    provenance = made.manifest.provenance.model_copy(update={"versions": {"numpy\nid  0": "1\x9b2J"}})
    manifest = made.manifest.model_copy(update={"provenance": provenance}).with_id()
    write_bundle(tmp_path / "b", manifest, made.models)
    shown = run("emsco-inspect", tmp_path / "b").stdout
    assert "labels       ham, spam\\n\\ncertificate  error" in shown
    assert "numpy\\nid  0 1\\x9b2J" in shown
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert [line for line in shown.splitlines() if line.startswith(("certificate", "id"))] == [
        f"id           {manifest.id}",
        "certificate  none",
    ]


def test_an_error_about_a_bundle_stays_in_its_line(bundle: Path) -> None:
    """Also where a name in the manifest has line breaks and escapes."""
    document = json.loads((bundle / "manifest.json").read_text())
    (bundle / "manifest.json").write_text(json.dumps(document | {"zz\n\x1b[31m": 1}))
    assert "$.zz\\n\\x1b[31m: " in run_refused(1, "emsco-inspect", bundle)


def test_inspect_shows_figures_by_weight(tmp_path: Path) -> None:
    """Where the held-out rows have weights, the figures by weight stand below those by rows."""
    made = sample_bundle()
    weighted = WeightedCounts(units=400, accepted=300, right=270, mean_cost=2.5)
    expected = made.manifest.expected.model_copy(update={"weighted": weighted})
    manifest = made.manifest.model_copy(update={"expected": expected}).with_id()
    write_bundle(tmp_path / "b", manifest, made.models)
    shown = run("emsco-inspect", tmp_path / "b").stdout
    assert "by weight: coverage 75.00 %, accuracy 90.00 %, cost mean 2.5 unit" in shown


def test_inspect_refuses_a_damaged_bundle(bundle: Path) -> None:
    """One clear line with the file, the place and the remedy; exit 1."""
    model = next((bundle / "stages").iterdir())
    model.write_bytes(model.read_bytes()[:-1])
    assert "$.stages[" in run_refused(1, "emsco-inspect", bundle)
    assert "does not exist" in run_refused(1, "emsco-inspect", bundle / "nowhere")


def test_inspect_into_a_closed_pipe(bundle: Path) -> None:
    """`emsco-inspect ... | head -1` ends quietly."""
    done = subprocess.run(
        f"{BIN / 'emsco-inspect'} {bundle} --json | head -c 1", shell=True, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("{", "")


def test_a_reader_that_never_reads(bundle: Path) -> None:
    """With the pipe closed before the first byte, the command ends with status 1 and says nothing."""
    process = subprocess.Popen([BIN / "emsco-inspect", bundle], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 1
    process.stderr.close()


@pytest.mark.parametrize("command", ["emsco-inspect", "emsco-run"])
def test_wrong_use_is_reported_in_one_line(command: str) -> None:
    """Missing and unknown arguments: exit 2 and one line, as for every command; --help: exit 0."""
    missing = {"emsco-inspect": "BUNDLE", "emsco-run": "BUNDLE, ROWS, --out"}[command]
    expected = f"{command}: the following arguments are required: {missing}"
    assert run_refused(2, command).startswith(expected)
    assert f"--nonsense. See {command} --help\n" in run_refused(2, command, "x", "y", "--out=z", "--nonsense")
    assert run(command, "--help").returncode == 0


# emsco-run


def test_run_decides_every_row_and_prints_the_figures(bundle: Path, tmp_path: Path) -> None:
    """The decisions are those of `decide`; coverage, accuracy, cost and exits are printed; gaps behind an exit do not matter."""
    rows, out = write_csv(tmp_path / "rows.csv", ROWS), tmp_path / "out.csv"
    done = run("emsco-run", bundle, rows, "--out", out)
    assert done.returncode == 0, done.stderr
    for expected in (
        "rows       4",
        "coverage   75.00 % (3 accepted, 1 rejected)",
        "accuracy   66.67 % (2 of 3 accepted are right)",
        "mean cost  14.5 unit (p50 1, p95 28, max 28; all features of the design: 28)",
        "exits      stage 1: 2 (50.00 %), stage 3: 1 (25.00 %)",
        "rejected   inconclusive: 1",
    ):
        assert expected in done.stdout
    with out.open(newline="") as file:
        decided = list(csv.DictReader(file))
    assert [row["label"] for row in decided] == ["spam", "ham", "ham", ""]
    assert [row["row"] for row in decided] == ["0", "1", "2", "3"]
    single = Cascade(sample_bundle()).decide({"size": 0.0, "links": 0.1, "reputation": 0.1})
    assert float(decided[3]["confidence"]) == single.confidence
    assert float(decided[3]["cost"]) == single.cost
    assert out.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_run_without_a_label_prints_no_accuracy(bundle: Path, tmp_path: Path) -> None:
    """Accuracy is printed where the label is there, under its own name if asked."""
    rows = write_csv(tmp_path / "rows.csv", "size,links,reputation,truth\n3,0,0,spam\n")
    assert "accuracy" not in run("emsco-run", bundle, rows, "--out", tmp_path / "out.csv").stdout
    assert "accuracy   100.00 %" in run("emsco-run", bundle, rows, "--out", tmp_path / "out.csv", "--label", "truth").stdout
    assert "there is no label column 'nope'" in run_refused(
        1, "emsco-run", bundle, rows, "--out", tmp_path / "o", "--label", "nope"
    )


def test_run_reads_all_kinds_of_columns(tmp_path: Path) -> None:
    """Booleans in words, codes with a decimal point, gaps, categories, quoted fields, a byte-order mark, blank lines."""
    features = [
        Feature(name="flag", kind="boolean", cost=1.0, missing="impute"),
        Feature(name="code", kind="categorical", cost=1.0, categories=("3", "a,b"), missing="impute", unknown="ignore"),
    ]
    made = make_bundle([["flag", "code"]], features=features, threshold=0.9)
    text = '\ufeffflag,code\nTrue,3.0\n\nno,"a,b"\n,\n1,zz\n'
    out = tmp_path / "out.csv"
    done = run("emsco-run", write_sample(tmp_path / "b", made), write_csv(tmp_path / "rows.csv", text), "--out", out)
    assert done.returncode == 0, done.stderr
    cascade = Cascade(made)
    items = [{"flag": True, "code": "3"}, {"flag": False, "code": "a,b"}, {"flag": None, "code": None}, {"flag": 1, "code": "zz"}]
    with out.open(newline="") as file:
        assert [float(row["confidence"]) for row in csv.DictReader(file)] == pytest.approx(
            [cascade.decide(item).confidence for item in items], abs=1e-12
        )


def test_run_reads_categories_as_the_runtime_does(tmp_path: Path) -> None:
    """Text is a category or an unknown one; only a code with a decimal point is read as the code."""
    features = [
        Feature(name="c", kind="categorical", cost=1.0, categories=("1234", "7", "a"), unknown="ignore", missing="impute")
    ]
    made = make_bundle([["c"]], features=features, threshold=0.999)
    texts = ["1234", "01234", "1_234", "none", "1.5", "inf", "7.0", "7", "a", " a"]
    out = tmp_path / "out.csv"
    rows = write_csv(tmp_path / "rows.csv", "\n".join(["c", *texts]))
    done = run("emsco-run", write_sample(tmp_path / "b", made), rows, "--out", out)
    assert done.returncode == 0
    assert "unknown    categories that the bundle does not know, in c (6 rows): they are ignored" in done.stdout
    cascade = Cascade(made)
    with out.open(newline="") as file:
        found = [float(row["confidence"]) for row in csv.DictReader(file)]
    confidences = [cascade.decide({"c": "7" if text == "7.0" else text}).confidence for text in texts]
    assert found == pytest.approx(confidences, abs=1e-12)


def test_run_says_ignored_only_of_categories_that_are(tmp_path: Path) -> None:
    """A feature that fails for an unknown category rejects the row: nothing is said to be ignored."""
    feature = Feature(name="c", kind="categorical", cost=1.0, categories=("a", "b"))
    bundle = write_sample(tmp_path / "b", make_bundle([["c"]], features=[feature]))
    rows = write_csv(tmp_path / "rows.csv", "c\na\nz\n")
    shown = run("emsco-run", bundle, rows, "--out", tmp_path / "out.csv", "--on-failure", "reject").stdout
    assert "acquisition failed: 1" in shown
    assert "they are ignored" not in shown


def test_run_reads_words_for_missing(tmp_path: Path) -> None:
    """Words such as ? and NA are missing values, and others may be named; a category that the bundle knows never is."""
    features = [
        Feature(name="size", kind="numeric", cost=1.0, missing="impute"),
        Feature(name="kind", kind="categorical", cost=1.0, categories=("-", "a"), missing="impute", unknown="ignore"),
    ]
    made = make_bundle([["size", "kind"]], features=features, threshold=0.999)
    bundle, out = write_sample(tmp_path / "b", made), tmp_path / "out.csv"
    cascade = Cascade(made)

    def confidences(text: str, *options: str) -> list[float]:
        ended = run("emsco-run", bundle, write_csv(tmp_path / "rows.csv", text), "--out", out, *options)
        assert ended.returncode == 0, ended.stderr
        with out.open(newline="") as file:
            return [float(row["confidence"]) for row in csv.DictReader(file)]

    def expected(*items: tuple[object, object]) -> list[float | None]:
        return [cascade.decide({"size": size, "kind": kind}).confidence for size, kind in items]

    text = "size,kind\n?,a\n2, NA \nnull,-\n-,?\n"
    assert confidences(text) == pytest.approx(expected((None, "a"), (2.0, None), (None, "-"), (None, None)), abs=1e-12)
    named = confidences("size,kind\nnone,a\n3,none\n3,?\n", "--missing", "None,nil")
    assert named == pytest.approx(expected((None, "a"), (3.0, None), (3.0, "?")), abs=1e-12)
    message = run_refused(1, "emsco-run", bundle, tmp_path / "rows.csv", "--out", out, "--missing", "")
    assert "line 2: " in message
    assert "expected a number, got 'none'" in message


def test_run_replaces_only_plain_files(bundle: Path, tmp_path: Path) -> None:
    """--out may be a link (its target is replaced), a pipe or a device (written to); the table itself is refused."""
    rows, out, link = write_csv(tmp_path / "rows.csv", ROWS), tmp_path / "out.csv", tmp_path / "link.csv"
    link.symlink_to(out)
    assert run("emsco-run", bundle, rows, "--out", link).returncode == 0
    assert link.is_symlink()
    assert out.read_text().startswith("row,status")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_text)
        assert run("emsco-run", bundle, rows, "--out", pipe).returncode == 0
        assert read.result().startswith("row,status")
    assert pipe.is_fifo()
    assert "that is the table itself" in run_refused(1, "emsco-run", bundle, rows, "--out", rows)
    assert rows.read_text() == ROWS


def test_run_does_not_write_over_what_it_reads(bundle: Path, tmp_path: Path) -> None:
    """Decisions written over the manifest, a model or the splits of a run would be the last that these could be used for."""
    rows = write_csv(tmp_path / "rows.csv", ROWS)
    write_csv(tmp_path / "splits.csv", "row,split\n0,test\n")
    given = ("emsco-run", bundle, rows, "--run", tmp_path, "--split", "test", "--out")
    model = next(bundle.glob("stages/*.onnx"))
    for file, what in ((bundle / "manifest.json", "bundle"), (model, "bundle"), (tmp_path / "splits.csv", "run")):
        before = file.read_bytes()
        message = run_refused(1, *given, file)
        assert f"--out {file}: that is a file of the {what}, which would be overwritten. Choose another file" in message
        assert file.read_bytes() == before
    assert run(*given, tmp_path / "out.csv").returncode == 0


def test_run_writes_into_streams(bundle: Path, tmp_path: Path) -> None:
    """Decisions go down a pipe, into a process substitution, or into the file that standard output is, before the summary."""
    rows, packed = write_csv(tmp_path / "rows.csv", ROWS), tmp_path / "out.csv.gz"
    command = f"{BIN / 'emsco-run'} {bundle} {rows} --out"
    for line in (f"{command} /dev/stdout | cat", f"{command} /dev/stdout > {tmp_path / 'all.txt'}; cat {tmp_path / 'all.txt'}"):
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
        assert done.stdout.startswith("row,status"), done.stderr
        assert "rows       4" in done.stdout
    line = f"{command} >(gzip > {packed}); sleep 1; zcat {packed}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert "row,status" in done.stdout, done.stderr


def test_run_reads_long_fields(bundle: Path, tmp_path: Path) -> None:
    """Text of any length in a column that no stage needs, in a short table as in a long one, which pyarrow reads."""
    for count in (1, 10):
        text = "size,links,reputation,note\n" + f"3,0,0,{'x' * 200_000}\n" * count
        rows = write_csv(tmp_path / "rows.csv", text)
        assert f"rows       {count}" in run("emsco-run", bundle, rows, "--out", tmp_path / "out.csv").stdout


def test_an_error_of_the_disk_has_the_name_of_the_file(tmp_path: Path) -> None:
    """A write that fails does not know its file; an error of something else that is done meanwhile stays as it was."""
    for number, name in ((errno.ENOSPC, str(tmp_path / "out")), (errno.ENOENT, None)):
        with pytest.raises(OSError, match="no") as caught, replace_file(tmp_path / "out"):
            raise OSError(number, "no")
        assert caught.value.filename == name
    assert list(tmp_path.iterdir()) == []


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    """A private file stays private, before a byte is written; a new one has those that the umask leaves."""
    out = tmp_path / "out"
    with open_output(out) as file:
        file.write("new")
    umask = os.umask(0)
    os.umask(umask)
    assert out.stat().st_mode & 0o777 == 0o666 & ~umask
    out.chmod(0o600)
    with open_output(out) as file:
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
        file.write("newer")
    assert out.stat().st_mode & 0o777 == 0o600
    assert out.read_text() == "newer"


def test_output_without_a_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where standard output was closed, no file is taken for it."""
    monkeypatch.setattr(files_module, "_STDOUT", 99_999)
    (tmp_path / "out").touch()
    with open_output(tmp_path / "out") as file:
        file.write("done")
    assert (tmp_path / "out").read_text() == "done"


@pytest.mark.uncounted
def test_run_names_the_file_that_does_not_fit_on_the_disk(bundle: Path, tmp_path: Path) -> None:
    """A disk that is full is told from a full standard output by the name in the message."""
    rows = write_csv(tmp_path / "rows.csv", "size,links,reputation\n" + "3,0,0\n" * 5000)
    line = f"ulimit -f 8; trap '' XFSZ; {BIN / 'emsco-run'} {bundle} {rows} --out {tmp_path / 'out.csv'}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"emsco-run: {tmp_path / 'out.csv'}: File too large\n"


def test_run_reads_a_pipe(bundle: Path, tmp_path: Path) -> None:
    """The table may come from another program: it is read once, from beginning to end."""
    command = f"{BIN / 'emsco-run'} {bundle} /dev/stdin --out {tmp_path / 'out.csv'}"
    done = subprocess.run(command, shell=True, input=ROWS, capture_output=True, text=True)
    assert "rows       4" in done.stdout, done.stderr


def test_run_counts_only_rows_with_a_label(bundle: Path, tmp_path: Path) -> None:
    """An empty label does not count, nor does one that the bundle does not have, to which no answer is right: a line says so."""
    out = tmp_path / "out.csv"
    rows = write_csv(tmp_path / "rows.csv", "size,links,reputation,label\n3,0,0,spam\n-3,0,0,\n")
    assert "accuracy   100.00 % (1 of 1 accepted are right)" in run("emsco-run", bundle, rows, "--out", out).stdout
    rows = write_csv(tmp_path / "rows.csv", "size,links,reputation,label\n3,0,0,junk\n")
    done = run("emsco-run", bundle, rows, "--out", out)
    assert "1 row with labels that the bundle does not know ('junk'), none with one that it knows (ham, spam)" in done.stderr
    assert "accuracy" not in done.stdout
    rows = write_csv(tmp_path / "rows.csv", "size,links,reputation,label\n3,0,0,junk\n3,0,0,spam\n")
    done = run("emsco-run", bundle, rows, "--out", out)
    assert (
        "column 'label': 1 row with labels that the bundle does not know ('junk'): they are decided, and left out" in done.stderr
    )
    assert "accuracy   100.00 % (1 of 1 accepted are right)" in done.stdout
    numbers = write_sample(tmp_path / "n", make_bundle([["a"]], labels=(0, 1), weights=[[[-1.0], [1.0]]], threshold=0.6))
    rows = write_csv(tmp_path / "rows.csv", "a,label\n3,1.0\n-3,0.0\n")
    assert "accuracy   100.00 %" in run("emsco-run", numbers, rows, "--out", out).stdout


def test_names_that_the_terminal_cannot_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name outside the terminal's alphabet is written with escapes, not answered with a traceback."""
    path = write_sample(tmp_path / "b", make_bundle([["größe"]], name="prüfung"))
    terminal = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(terminal, encoding="ascii"))
    assert inspect.main([str(path)]) == 0
    assert b"pr\\xfcfung" in terminal.getvalue()


def test_a_closed_standard_output(bundle: Path, tmp_path: Path) -> None:
    """With standard output closed, emsco-run still writes its file, and a full disk is reported in one line."""
    rows, out = write_csv(tmp_path / "rows.csv", ROWS), tmp_path / "out.csv"
    done = subprocess.run(f"{BIN / 'emsco-run'} {bundle} {rows} --out {out} >&-", shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert out.exists()
    done = subprocess.run(f"{BIN / 'emsco-inspect'} {bundle} > /dev/full", shell=True, capture_output=True, text=True)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("value", "expected"),
    [("big", "expected a number, got 'big'"), ("", "missing"), ("inf", "finite"), ("nan", "missing")],
)
def test_run_stops_at_a_bad_value(bundle: Path, tmp_path: Path, value: str, expected: str) -> None:
    """The line, the feature, the value and the remedy in one line; no output file is left, an older one stays."""
    rows, out = write_csv(tmp_path / "rows.csv", f"size,links,reputation\n3,0,0\n{value},0,0\n"), tmp_path / "out.csv"
    out.write_text("older")
    line = run_refused(1, "emsco-run", bundle, rows, "--out", out)
    assert "rows.csv: line 3: feature 'size' (stage 1)" in line
    assert expected in line
    assert "--on-failure" in line
    assert out.read_text() == "older"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "out.csv", "rows.csv"]


def test_run_with_lenient_policies_and_a_budget(bundle: Path, tmp_path: Path) -> None:
    """--on-failure reject and default, and --budget, do what their names say, and the summary shows it."""
    rows, out = write_csv(tmp_path / "rows.csv", "size,links,reputation\n3,0,0\n,0,0\n0,0,0\n"), tmp_path / "out.csv"
    done = run("emsco-run", bundle, rows, "--out", out, "--on-failure", "reject", "--budget", "3")
    assert "rejected   acquisition failed: 1, budget: 1" in done.stdout
    assert "size: the value is missing" in out.read_text()
    done = run("emsco-run", bundle, rows, "--out", out, "--on-failure", "default")
    assert "degraded   1 row decided" in done.stdout
    for wrong in ("-1", "nan", "much"):
        assert "expected a number of at least 0, got" in run_refused(
            2, "emsco-run", bundle, rows, "--out", out, "--budget", wrong
        )


def test_run_when_nothing_is_accepted(bundle: Path, tmp_path: Path) -> None:
    """No accepted row: no accuracy to print, and no exits."""
    rows = write_csv(tmp_path / "rows.csv", "size,links,reputation,label\n0,0,0,ham\n")
    assert "exits      none" in run("emsco-run", bundle, rows, "--out", tmp_path / "out.csv").stdout


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "the file is empty"),
        (b"size,links,reputation\n", "there are no rows below the header"),
        (b"size,links\n1,2\n", "columns are missing: reputation"),
        (b"size,size,links,reputation\n", "names a column twice: size"),
        (b"size,links,reputation\n1,2\n", "line 2: 2 fields, the header has 3"),
        (b'size,links,reputation\n1,"2\n', "line 2: not readable as UTF-8 CSV"),
        (b"size,links,reputation\n3,2,2\n3,\xff,2\n", "line 3: not readable as UTF-8 CSV: bytes that are not UTF-8"),
        (gzip.compress(b"size,links,reputation\n3,2,2\n"), "not readable as UTF-8 CSV: it is compressed by gzip. Unpack it"),
        (b"size;links\n1,5;2\n", "the header is one field, 'size;links': expected commas between the fields, got ';'. Write"),
    ],
    ids=["empty", "no rows", "missing column", "repeated column", "short row", "open quote", "not UTF-8", "gzip", "semicolons"],
)
def test_run_refuses_invalid_tables(bundle: Path, tmp_path: Path, content: bytes, expected: str) -> None:
    """Each kind of broken table gets one line that says what is wrong and where."""
    rows = tmp_path / "rows.csv"
    rows.write_bytes(content)
    assert expected in run_refused(1, "emsco-run", bundle, rows, "--out", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_run_with_files_that_cannot_be_opened(bundle: Path, tmp_path: Path) -> None:
    """A missing table, a folder in its place, an output folder that does not exist: one line with the name."""
    rows = write_csv(tmp_path / "rows.csv", ROWS)
    assert "nowhere.csv" in run_refused(1, "emsco-run", bundle, tmp_path / "nowhere.csv", "--out", tmp_path / "o.csv")
    assert "directory" in run_refused(1, "emsco-run", bundle, tmp_path, "--out", tmp_path / "o.csv").lower()
    missing = tmp_path / "no" / "o.csv"
    assert f"--out {missing}: the folder {missing.parent} does not exist" in run_refused(
        1, "emsco-run", bundle, rows, "--out", missing
    )
    assert "--out: expected a file name, got ''" in run_refused(1, "emsco-run", bundle, rows, "--out", "")
    assert "is a folder" in run_refused(1, "emsco-run", bundle, rows, "--out", tmp_path)


def test_run_takes_the_rows_of_a_split(bundle: Path, tmp_path: Path) -> None:
    """`--run RUN --split NAME` decides just the rows that RUN/splits.csv gives to the split, under their own numbers."""
    rows, out, splits = write_csv(tmp_path / "rows.csv", ROWS), tmp_path / "out.csv", tmp_path / "splits.csv"
    write_csv(splits, "row,split\n0,train\n1,test\n2,train\n3,test\n")
    done = run("emsco-run", bundle, rows, "--out", out, "--run", tmp_path, "--split", "test")
    assert "rows       2" in done.stdout
    with out.open(newline="") as file:
        assert [row["row"] for row in csv.DictReader(file)] == ["1", "3"]
    common = ("emsco-run", bundle, rows, "--out", out, "--run", tmp_path)
    assert "there is no split 'dev'; it has test, train" in run_refused(1, *common, "--split", "dev")
    assert "--run and --split go together" in run_refused(2, *common)
    write_csv(splits, "row,split\n1,test\n9,test\n")
    assert "the split has 2 rows, and the file only 1 of them" in run_refused(1, *common, "--split", "test")
    write_csv(splits, "row,split\nx,test\n")
    assert "expected a row number, got 'x'" in run_refused(1, *common, "--split", "test")
    write_csv(splits, "row,part\n1,test\n")
    assert "the column 'split' is missing" in run_refused(1, *common, "--split", "test")


def test_run_takes_a_split_of_the_table_that_was_trained_on(bundle: Path, tmp_path: Path) -> None:
    """Another table than that of the run's record is decided with a warning; the file of another split is refused."""
    rows, other, out = (
        write_csv(tmp_path / "rows.csv", ROWS),
        write_csv(tmp_path / "other.csv", ROWS + "\n"),
        tmp_path / "out.csv",
    )
    write_csv(tmp_path / "splits.csv", "row,split\n0,train\n1,test\n2,train\n3,test\n")
    record = tmp_path / "run.json"

    def describe(path: Path, split: str | None) -> dict[str, object]:
        return {"path": path.name, "split": split, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "rows": 4}

    asked = ("--out", out, "--run", tmp_path, "--split", "test")
    record.write_text(json.dumps({"format": "x", "data": {"files": [describe(rows, None)], "label": "y"}}))
    assert run("emsco-run", bundle, rows, *asked).stderr == ""
    done = run("emsco-run", bundle, other, *asked)
    assert (done.returncode, "other.csv is not the file that the run was trained on, rows.csv" in done.stderr) == (0, True)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(ROWS, encoding="utf-8"))
    writer.start()
    done = run("emsco-run", bundle, pipe, *asked)
    writer.join()
    assert (done.returncode, "pipe is not the file that the run was trained on" in done.stderr) == (0, True)
    record.write_text(json.dumps({"data": {"files": [describe(rows, "train"), describe(other, "test")]}}))
    assert "rows.csv holds the train rows of the run: give the file of its test rows, other.csv" in run_refused(
        1, "emsco-run", bundle, rows, *asked
    )
    record.write_text("{}")
    assert "run.json: not readable as the record of a training run" in run_refused(1, "emsco-run", bundle, rows, *asked)


def test_run_on_many_rows_agrees_with_the_table_way(bundle: Path, tmp_path: Path) -> None:
    """More rows than one batch: the same labels and costs as `decide_columns`."""
    matrix = np.random.default_rng(0).normal(size=(9000, 3))
    lines = [",".join(map(repr, row)) for row in matrix.tolist()]
    rows, out = write_csv(tmp_path / "rows.csv", "\n".join(["size,links,reputation", *lines])), tmp_path / "out.csv"
    assert run("emsco-run", bundle, rows, "--out", out).returncode == 0
    names = ("size", "links", "reputation")
    columns = Cascade(sample_bundle()).decide_columns({name: matrix[:, index] for index, name in enumerate(names)})
    with out.open(newline="") as file:
        decided = list(csv.DictReader(file))
    assert [row["label"] or None for row in decided] == columns.label.tolist()
    assert [float(row["cost"]) for row in decided] == columns.cost.tolist()


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_run_reads_long_tables_in_chunks(bundle: Path, tmp_path: Path, form: str) -> None:
    """A table of several chunks, as CSV and as Parquet, with a split: every row once and in order, decided as by itself."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("pyarrow.csv")
    rng, count = np.random.default_rng(0), 70_000
    columns = {name: rng.normal(size=count).round(3) for name in ("size", "links", "reputation")}
    table = pa.table({**columns, "label": np.where(rng.random(count) < 0.5, "ham", "spam")})
    rows, out = tmp_path / f"rows.{form}", tmp_path / "out.csv"
    (pa.csv.write_csv if form == "csv" else pa.parquet.write_table)(table, rows)
    done = run("emsco-run", bundle, rows, "--out", out)
    assert done.returncode == 0, done.stderr
    assert f"rows       {count}" in done.stdout
    with out.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["row"] for line in lines] == [str(row) for row in range(count)]
    decided = Cascade.load(bundle).decide_columns(columns)
    assert [line["label"] or None for line in lines] == decided.label.tolist()
    assert [float(line["cost"]) for line in lines] == decided.cost.tolist()
    chosen = np.sort(rng.choice(count, 40_000, replace=False))
    names = np.full(count, "train", dtype=object)
    names[chosen] = "test"
    (tmp_path / "splits.csv").write_text("row,split\n" + "".join(f"{row},{name}\n" for row, name in enumerate(names)))
    done = run("emsco-run", bundle, rows, "--out", out, "--run", tmp_path, "--split", "test")
    assert done.returncode == 0, done.stderr
    with out.open(newline="") as file:
        assert [line["row"] for line in csv.DictReader(file)] == [str(row) for row in chosen]


@pytest.mark.parametrize(("form", "place"), [("csv", "line 130002"), ("parquet", "row 130000")])
def test_run_names_the_place_of_a_bad_value_in_a_long_table(bundle: Path, tmp_path: Path, form: str, place: str) -> None:
    """The error says where the value stands, whoever read the file, and nothing is written."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("pyarrow.csv")
    values = np.random.default_rng(0).normal(size=140_000).round(3)
    values[130_000] = np.inf
    table = pa.table({"size": values, "links": values, "reputation": values, "padding": ["x" * 20] * len(values)})
    rows, out = tmp_path / f"rows.{form}", tmp_path / "out.csv"
    (pa.csv.write_csv if form == "csv" else pa.parquet.write_table)(table, rows)
    done = run("emsco-run", bundle, rows, "--out", out)
    assert done.returncode == 1
    # Lines of progress may come first.
    assert done.stderr.splitlines()[-1].startswith(f"emsco-run: {rows}: {place}: ")
    assert not out.exists()


def test_run_takes_a_split_of_a_folder_of_parquet_files(tmp_path: Path) -> None:
    """It cannot be the file that the run was trained on, and may hold the same rows: they are decided, with a warning."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    made = make_bundle([["size"]], features=[Feature(name="size", kind="numeric", cost=1.0)], labels=[0, 1], threshold=0.6)
    bundle = write_sample(tmp_path / "bundle", made)
    (tmp_path / "rows").mkdir()
    for part in range(2):
        pa.parquet.write_table(pa.table({"size": [3.0, -3.0]}), tmp_path / "rows" / f"{part}.parquet")
    write_csv(tmp_path / "splits.csv", "row,split\n0,train\n1,test\n2,train\n3,test\n")
    files = [{"path": "rows.parquet", "split": None, "sha256": "0" * 64}]
    (tmp_path / "run.json").write_text(json.dumps({"data": {"files": files}}))
    out = tmp_path / "out.csv"
    done = run("emsco-run", bundle, tmp_path / "rows", "--out", out, "--run", tmp_path, "--split", "test")
    assert (done.returncode, "rows is not the file that the run was trained on" in done.stderr) == (0, True)
    assert len(out.read_text().splitlines()) == 3


def test_run_with_labels_of_a_parquet_file(tmp_path: Path) -> None:
    """Whole numbers, as frames with gaps hold them, are the labels that they mean; a gap is no label."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    made = make_bundle([["size"]], features=[Feature(name="size", kind="numeric", cost=1.0)], labels=[0, 1], threshold=0.6)
    rows = tmp_path / "rows.parquet"
    pa.parquet.write_table(pa.table({"size": [3.0, -3.0, 3.0], "label": pa.array([1.0, None, 1.0])}), rows)
    done = run("emsco-run", write_sample(tmp_path / "b", made), rows, "--out", tmp_path / "out.csv")
    assert "of 2 accepted are right" in done.stdout, done.stderr
    assert "does not know" not in done.stderr


def test_run_with_labels_that_are_none(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A column of lists or structs that is called label holds no label of the bundle: the rows are decided, and it is said."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    values = {"size": [3.0, -3.0], "links": [0.0, 0.0], "reputation": [0.0, 0.0]}
    for labels in ([["spam"], None], [{"name": "spam"}, None], pa.array([[1.0, 2.0]] * 2, pa.list_(pa.float64(), 2))):
        pa.parquet.write_table(pa.table({**values, "label": labels}), tmp_path / "rows.parquet")
        assert run_rows.main([str(bundle), str(tmp_path / "rows.parquet"), "--out", str(tmp_path / "out.csv")]) == 0
        assert "with labels that the bundle does not know" in capsys.readouterr().err


def test_run_with_boolean_labels(tmp_path: Path) -> None:
    """Booleans of Python are trained on as 0 and 1, those of a table as text: both bundles know them, from either form."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    typed, text, numbers = tmp_path / "rows.parquet", tmp_path / "rows.csv", tmp_path / "numbers.csv"
    pa.parquet.write_table(pa.table({"size": [3.0, -3.0, 3.0], "label": [True, False, False]}), typed)
    text.write_text("size,label\n3,True\n-3,False\n3,False\n")
    numbers.write_text("size,label\n3,1\n-3,0\n3,0\n")
    for labels, rows in itertools.product(([0, 1], ["False", "True"]), (typed, text, numbers)):
        made = make_bundle([["size"]], features=[Feature(name="size", kind="numeric", cost=1.0)], labels=labels, threshold=0.6)
        bundle = write_sample(tmp_path / f"{labels[0]} {rows.name}", made)
        done = run("emsco-run", bundle, rows, "--out", tmp_path / "out.csv")
        assert "of 3 accepted are right" in done.stdout, (done.stdout, done.stderr)
        assert "does not know" not in done.stderr


def test_an_interrupt_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C inside the work gives status 130 and one line, whatever the work was."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    assert run_command("emsco-test", interrupted) == 130
    assert capsys.readouterr().err == "emsco-test: interrupted\n"


def test_a_background_job_can_be_terminated(capsys: pytest.CaptureFixture[str]) -> None:
    """Shells let background jobs ignore Ctrl-C: SIGTERM still does what Ctrl-C does elsewhere, and Ctrl-C nothing."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def work() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)

    try:
        assert run_command("emsco-test", work) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "emsco-test: interrupted\n"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_program_that_handles_sigterm_itself() -> None:
    """What it does then is its own affair: a command that it runs changes nothing."""
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        assert run_command("emsco-test", lambda: signal.raise_signal(signal.SIGTERM)) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]


@pytest.mark.uncounted
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_can_be_interrupted(bundle: Path, tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, or a scheduler's SIGTERM: one line, status 130, no half-written file."""
    pipe = tmp_path / "rows.csv"
    os.mkfifo(pipe)
    # Where the tests themselves run in the background, interrupts are ignored, and children inherit that. It is undone in a
    # process of its own: Python that runs between fork and exec may wait forever for a lock that another thread held.
    heed = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", heed, BIN / "emsco-run", bundle, pipe, "--out", tmp_path / "out.csv"],
        stderr=subprocess.PIPE,
        text=True,
    )
    # The command waits for the header; once it has opened the pipe it is past its set-up.
    with pipe.open("w"):
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "emsco-run: interrupted\n")
    assert not [path for path in tmp_path.iterdir() if "out" in path.name]


# Progress


def test_run_clears_its_progress_before_an_error(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of progress is closed however the rows end: the error stands on a line of its own."""
    closed: list[bool] = []
    monkeypatch.setattr(RowProgress, "close", lambda _: closed.append(True))
    rows = write_csv(tmp_path / "rows.csv", "size,links,reputation\nx,0,0\n")
    assert "line 2" in run_refused(1, "emsco-run", bundle, rows, "--out", tmp_path / "out.csv")
    assert closed == [True]


def test_progress_in_plain_lines() -> None:
    """Away from a terminal, a plain line is written now and then."""
    stream = io.StringIO()
    progress = RowProgress(stream, every_s=0.0)
    progress.show(4096)
    progress.close()
    assert stream.getvalue().startswith("4,096 rows, ")
    assert stream.getvalue().endswith("rows/s\n")
    silent = io.StringIO()
    RowProgress(silent).show(1)
    assert silent.getvalue() == ""


def test_progress_on_a_terminal() -> None:
    """On a terminal one line is overwritten, and cleared at the end."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        progress = RowProgress(stream)
        progress._last -= 1.0
        progress.show(60)
        progress.close()
        shown = ""
        while not shown.endswith("\r\x1b[K"):
            shown += os.read(ours, 1000).decode()
    os.close(ours)
    assert shown.startswith("\r60 rows")
