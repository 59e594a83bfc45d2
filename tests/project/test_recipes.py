"""The recipes: the code of each page runs as it stands, on the real framework, and answers what a cascade in this process does.

What is asked is the same for all frameworks; a `Service` hides how each of them is asked.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra `dev` is not installed")

import httpx
from jsonschema import Draft202012Validator

from emsco_runtime import Cascade, write_bundle
from emsco_runtime.testing import make_bundle, sample_bundle
from tests.runtime.waiting import our_threads, wait_until

# starlette would like another library than httpx for its test client.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "docs" / "recipes"
SCHEMA = json.loads((ROOT / "schemas" / "decision.v1.schema.json").read_text(encoding="utf-8"))
MESSAGES = [
    {"id": f"m-{number}", "sender": sender, "text": "x" * length + " http" * links}
    for number, (sender, length, links) in enumerate(
        [("friend", 400, 0), ("friend", 5, 0), ("foe", 5, 0), ("unknown", 0, 0), ("unknown", 5, 3), ("foe", 90, 1)]
    )
]
SCORES = {"friend": -1.0, "foe": 1.0, "unknown": 0.0}


def reputation(request: httpx.Request) -> httpx.Response:
    """Stand in for the remote source; of "nobody" it knows nothing, and fails."""
    sender = request.url.params["sender"]
    return httpx.Response(200, json={"score": SCORES[sender]}) if sender in SCORES else httpx.Response(500)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service answered."""

    status: int
    body: Any
    text: str


@dataclass(frozen=True, slots=True)
class Service:
    """A service that runs.

    Parameters
    ----------
    ask
        Takes a method, a path and a document or None; returns the answer.
    folder
        Where its bundle lies.
    app
        The page's `app.py`.
    """

    ask: Callable[[str, str, Any], Answer]
    folder: Path
    app: ModuleType

    def expected(self, messages: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
        """Return what a cascade in this process decides."""
        values = [{"size": self.app.size(one), "links": self.app.links(one)} for one in map(self.message, messages)]
        items = [{**known, "reputation": SCORES[one["sender"]]} for known, one in zip(values, messages, strict=True)]
        keys = [one["id"] for one in messages]
        return [timeless(one.to_dict()) for one in Cascade.load(self.folder).decide_many(items, keys=keys, **options)]

    def message(self, document: dict[str, Any]) -> Any:
        """Return the page's own object of a message."""
        return self.app.Message(**document)


def timeless(document: dict[str, Any]) -> dict[str, Any]:
    """Return a decision without its time, and to nine digits: the last ones depend on how many items are scored together."""
    rounded = json.loads(json.dumps(document), parse_float=lambda text: round(float(text), 9))
    return {key: value for key, value in rounded.items() if key != "elapsed_s"}


def blocks(page: str) -> dict[str, str]:
    """Return the files that a page shows, by their names."""
    text = (RECIPES / f"{page}.md").read_text(encoding="utf-8")
    return {
        name: f"# {name}\n{code}"
        for name, code in re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    }


@pytest.fixture
def put(tmp_path: Path) -> Callable[[Any], str]:
    """Return a function that puts a bundle into the service's folder, and returns its id."""

    def write(bundle: Any) -> str:
        write_bundle(tmp_path / "bundle", bundle.manifest, bundle.models, force=True)
        return str(bundle.manifest.id)

    write(sample_bundle())
    return write


@pytest.fixture(params=["fastapi", "flask"])
def page(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Write the files of a page, and let them be imported for the time of a test."""
    files = blocks(request.param)
    for name, code in files.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield request.param
    for name in files:
        sys.modules.pop(name.removesuffix(".py"), None)


@pytest.fixture
def service(page: str, put: Callable[[Any], str], tmp_path: Path) -> Iterator[Service]:
    """Start the service of a page; when it has ended, none of its threads is left."""
    before = our_threads()
    app = importlib.import_module("app")
    with ExitStack() as stack:
        start = start_fastapi if page == "fastapi" else start_flask
        yield Service(start(app, tmp_path / "bundle", stack), tmp_path / "bundle", app)
    wait_until(lambda: all(thread in before for thread in our_threads()), "its threads end", seconds=20)


def start_fastapi(app: ModuleType, folder: Path, stack: ExitStack) -> Callable[[str, str, Any], Answer]:
    """Start the FastAPI service, and return how it is asked."""
    from fastapi.testclient import TestClient

    made = app.create_app(str(folder), "http://reputation.test", httpx.MockTransport(reputation))
    client = stack.enter_context(TestClient(made))

    def ask(method: str, path: str, document: Any) -> Answer:
        got = client.request(method, path, json=document)
        is_json = got.headers["content-type"].startswith("application/json")
        return Answer(got.status_code, got.json() if is_json else None, got.text)

    return ask


def start_flask(app: ModuleType, folder: Path, stack: ExitStack) -> Callable[[str, str, Any], Answer]:
    """Start the Flask service, and return how it is asked."""
    from prometheus_client import CollectorRegistry

    from emsco_runtime import ReloadingCascade
    from emsco_runtime.observing.prometheus import Metrics

    registry = CollectorRegistry()
    remote = stack.enter_context(httpx.Client(base_url="http://reputation.test", transport=httpx.MockTransport(reputation)))
    acquirers = app.local | app.remote(remote)
    cascade = stack.enter_context(ReloadingCascade(folder, acquirers, observers=[Metrics(registry=registry)], period_s=10.0))
    client = app.create_app(cascade, registry).test_client()

    def ask(method: str, path: str, document: Any) -> Answer:
        got = client.open(path, method=method, json=document)
        return Answer(got.status_code, got.json if got.is_json else None, got.text)

    return ask


def test_decisions_are_those_of_the_cascade(service: Service) -> None:
    """Each answer is the object of the schema, and equals what a cascade in this process decides, key included."""
    answers = [service.ask("POST", "/decide", {"message": message}) for message in MESSAGES]
    assert [answer.status for answer in answers] == [200] * len(MESSAGES)
    for answer in answers:
        Draft202012Validator(SCHEMA).validate(answer.body)
    found = [timeless(answer.body) for answer in answers]
    assert found == service.expected(MESSAGES)
    assert {one["stages"] for one in found} == {1, 2, 3}
    assert {one["status"] for one in found} == {"accepted", "rejected"}


def test_many_decisions_are_those_of_the_cascade(service: Service) -> None:
    """The same for many in one request, each with its own key."""
    answer = service.ask("POST", "/decide-many", MESSAGES)
    assert answer.status == 200
    assert list(map(timeless, answer.body)) == service.expected(MESSAGES)
    assert service.ask("POST", "/decide-many", []).body == []


def test_options_of_a_question(service: Service) -> None:
    """A budget and known values go through to the cascade."""
    unsure = MESSAGES[3]
    budget = service.ask("POST", "/decide", {"message": unsure, "budget": 10}).body
    assert [timeless(budget)] == service.expected([unsure], budget=10.0)
    assert budget["reason"] == "budget"
    known = service.ask("POST", "/decide", {"message": unsure, "known": {"reputation": -3.0}}).body
    assert (known["label"], known["trace"][2]["known"]) == ("ham", ["reputation"])


def test_a_source_that_fails_is_a_503(service: Service) -> None:
    """It tells the feature, the kind of failure and the key, and no value; the service goes on."""
    lost = {"id": "m-9", "sender": "nobody", "text": "hello"}
    answer = service.ask("POST", "/decide", {"message": lost})
    assert answer.status == 503
    assert answer.body["detail"] == {"feature": "reputation", "kind": "exception", "stage": 3, "key": "m-9", "cost": 28.0}
    many = service.ask("POST", "/decide-many", [MESSAGES[0], lost])
    assert (many.status, many.body["detail"]["key"]) == (503, "m-9")
    assert service.ask("POST", "/decide", {"message": MESSAGES[0]}).status == 200


BAD: dict[str, tuple[str, Any, str]] = {
    "no message": ("/decide", {}, "message"),
    "a message without an id": ("/decide", {"message": {"sender": "friend", "text": ""}}, "id"),
    "a negative budget": ("/decide", {"message": MESSAGES[0], "budget": -1}, "budget"),
    "a feature that does not exist": ("/decide", {"message": MESSAGES[0], "known": {"colour": 1.0}}, "no feature 'colour'"),
    "one message where many are expected": ("/decide-many", MESSAGES[0], "list"),
    "too many messages": ("/decide-many", MESSAGES[:1] * 1001, "at most 1000 items"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_a_422(service: Service, name: str) -> None:
    """What does not fit, for the framework or for the cascade, is reported with its place and decides nothing."""
    path, document, message = BAD[name]
    answer = service.ask("POST", path, document)
    assert answer.status == 422
    assert message in json.dumps(answer.body["detail"])
    assert "emsco_decisions_total{" not in service.ask("GET", "/metrics", None).text


def test_metrics_count_the_decisions(service: Service) -> None:
    """A scrape tells as many decisions as were asked for."""
    for message in MESSAGES:
        service.ask("POST", "/decide", {"message": message})
    lines = service.ask("GET", "/metrics", None).text.splitlines()
    counts = [float(line.rpartition(" ")[2]) for line in lines if line.startswith("emsco_decisions_total{")]
    assert sum(counts) == len(MESSAGES)


def test_health_and_reload(service: Service, put: Callable[[Any], str]) -> None:
    """Health shows the bundle in service; a new one is taken up on request, and a bad one leaves it and shows its error."""
    old, new = sample_bundle().manifest, make_bundle([["size"], ["reputation"], ["links"]], seed=3, name="newer")
    assert service.ask("GET", "/health", None).body == {
        "bundle": old.id,
        "name": "sample",
        "version": "1",
        "reload_error": None,
    }
    put(new)
    assert service.ask("POST", "/reload", None).body == {"outcome": "changed", "bundle": new.manifest.id}
    assert service.ask("GET", "/health", None).body["bundle"] == new.manifest.id
    answers = [service.ask("POST", "/decide", {"message": message}).body for message in MESSAGES]
    assert list(map(timeless, answers)) == service.expected(MESSAGES)
    assert {answer["bundle"] for answer in answers} == {new.manifest.id}
    (service.folder / "manifest.json").write_bytes(b"{}")
    assert service.ask("POST", "/reload", None).body == {"outcome": "failed", "bundle": new.manifest.id}
    assert "manifest.json" in service.ask("GET", "/health", None).body["reload_error"]


def test_the_tests_of_a_page_pass(page: str, tmp_path: Path) -> None:
    """The page's own `test_app.py` is right, as it stands."""
    tests = importlib.import_module("test_app")
    found = [test for name, test in vars(tests).items() if name.startswith("test_")]
    assert found
    for number, test in enumerate(found):
        (tmp_path / str(number)).mkdir()
        test(tmp_path / str(number))


def test_openapi_describes_a_decision(put: Callable[[Any], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FastAPI's own description of the answer is the decision's schema, not that of an array."""
    app = load_app("fastapi", tmp_path, monkeypatch)
    described = app.create_app("bundle", "http://reputation.test").openapi()
    answer = described["paths"]["/decide"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer == {"$ref": "#/components/schemas/Decision"}
    decision = described["components"]["schemas"]["Decision"]
    assert decision["type"] == "object"
    assert list(decision["properties"]) == list(SCHEMA["properties"])
    assert decision["required"] == SCHEMA["required"]


def test_response_model_will_do() -> None:
    """A service that does not annotate its function says `response_model=Decision`, and may choose fields."""
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    from emsco_runtime import Decision

    app, cascade = FastAPI(), Cascade(sample_bundle())

    @app.get("/whole", response_model=Decision)
    def whole():  # type: ignore[no-untyped-def]  # noqa: ANN202 - what this is about
        return cascade.decide({"size": 2.0}, key="a")

    @app.get("/short", response_model=Decision, response_model_include={"label", "key"})
    def short():  # type: ignore[no-untyped-def]  # noqa: ANN202
        return cascade.decide({"size": 2.0}, key="a")

    with TestClient(app) as client:
        assert timeless(client.get("/whole").json()) == timeless(cascade.decide({"size": 2.0}, key="a").to_dict())
        assert client.get("/short").json() == {"label": "spam", "key": "a"}


def test_an_app_closes_its_cascade(put: Callable[[Any], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the FastAPI application ends, its cascade decides no more."""
    from fastapi.testclient import TestClient

    from emsco_runtime import ClosedError

    app = load_app("fastapi", tmp_path, monkeypatch)
    made = app.create_app(str(tmp_path / "bundle"), "http://reputation.test", httpx.MockTransport(reputation))
    with TestClient(made) as client:
        cascade = app.get_cascade(SimpleNamespace(state=SimpleNamespace(**client.app_state)))
        assert cascade.decide_columns({"size": [2.0], "links": [0.0], "reputation": [0.0]}).label.tolist() == ["spam"]
    with pytest.raises(ClosedError):
        cascade.decide_columns({"size": [2.0], "links": [0.0], "reputation": [0.0]})


def load_app(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the `app.py` of a page."""
    (folder / "app.py").write_text(blocks(page)["app.py"], encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "app", raising=False)
    loaded = importlib.import_module("app")
    monkeypatch.delitem(sys.modules, "app")
    return loaded


START = {
    "fastapi": """
import app
from fastapi.testclient import TestClient
with TestClient(app.main()) as client:
    answer = client.get("/health").json()
""",
    "flask": """
import wsgi
answer = wsgi.app.test_client().get("/health").json
""",
}


def test_what_a_server_loads(page: str, put: Callable[[Any], str], tmp_path: Path) -> None:
    """What the page's command names is there, takes its settings from the environment, and ends without a word."""
    environment = {
        **os.environ,
        "BUNDLE": str(tmp_path / "bundle"),
        "REPUTATION_URL": "http://reputation.test",
        "PYTHONPATH": str(ROOT),
    }
    code = f"import warnings; warnings.simplefilter('ignore')\n{START[page]}\nprint(answer['bundle'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, sample_bundle().manifest.id + "\n", "")
