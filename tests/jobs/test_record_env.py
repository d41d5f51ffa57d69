"""`--record-env`: what a plugin reads is in the result, on every medium without harm, and compared; and what it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ortbench.analysis.comparable import recorded_variables
from ortbench.model.result import Result
from ortbench.model.result_file import save
from tests.conftest import MODELS, ONCE, measure, ortbench
from tests.results import measured, result_of, steady

pytestmark = pytest.mark.process

SAME = "nothing recorded differs between the two (model files with the same contents, same EP, options, versions, machine): differences are noise, or come from what is not recorded"


def saved(folder: Path, name: str, **variables: str) -> Path:
    made = plain()
    made.environment["record_env"] = ["SIMDEV_*"]
    made.environment["variables"] = variables
    save(made, folder / f"{name}.json")
    return folder / f"{name}.json"


def plain() -> Result:
    return result_of(measured("cpu-tensors", latency=steady([1000, 1001, 999] * 8)))


def test_a_run_records_them_and_compare_lists_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = [MODELS / "tiny.onnx", "--ep", "cpu", "--mode", "cpu-tensors", *ONCE, "--record-env", "SIMDEV_*"]
    monkeypatch.setenv("SIMDEV_DELAY", "5")
    monkeypatch.setenv("SIMDEV_TOKEN", "hidden")
    first = measure(*arguments, out=tmp_path / "one")
    assert first["environment"]["record_env"] == ["SIMDEV_*"]
    assert first["environment"]["variables"] == {"SIMDEV_DELAY": "5"}
    assert "hidden" not in json.dumps(first)
    assert [it["message"] for it in first["warnings"] if it["code"] == "record-env"] == [
        "--record-env: not recorded, because the name or the value looks like a secret: SIMDEV_TOKEN; "
        "one that is named without a wildcard is"
    ]
    monkeypatch.setenv("SIMDEV_DELAY", "9")
    measure(*arguments, out=tmp_path / "other")
    (one,), (other,) = (list((tmp_path / name).glob("*/result.json")) for name in ("one", "other"))
    ran = ortbench("compare", one, other, COLUMNS="300")
    assert ran.code == 0
    assert any(it.endswith(": environment variable SIMDEV_DELAY: 5 → 9") for it in ran.out.splitlines())


def test_a_suite_has_the_key_and_does_a_case_again_when_a_value_changes(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        f'[defaults]\niterations = 1\nwarmup = 1\nmode = "cpu-tensors"\nrecord-env = ["SIMDEV_*"]\n'
        f'[[bench]]\nmodel = "{MODELS / "tiny.onnx"}"\nep = "cpu"\n'
    )
    said = []
    for value in ("1", "1", "2"):
        ran = ortbench("suite", tmp_path / "s.toml", "--out", tmp_path / "out", SIMDEV_A=value)
        assert ran.code == 0, ran.err
        said.append("done before" in ran.err)
        result = json.loads((tmp_path / "out" / "tiny--cpu" / "result.json").read_text())
        assert result["environment"]["variables"] == {"SIMDEV_A": value}
    assert said == [False, True, False]


def test_hostile_values_are_shown_without_harm(tmp_path: Path) -> None:
    paths = [saved(tmp_path, "a", SIMDEV_A="1"), saved(tmp_path, "b", SIMDEV_A="\x1b[31mred\nline |<b>\u202e")]
    shown = "environment variable SIMDEV_A: 1 → \N{REPLACEMENT CHARACTER}[31mred line |<b>\N{REPLACEMENT CHARACTER}"
    page = ortbench("report", paths[1], "--html", "-").out
    assert "SIMDEV_A=\N{REPLACEMENT CHARACTER}[31mred" in page
    assert "|&lt;b&gt;\N{REPLACEMENT CHARACTER}" in page
    ran = ortbench("compare", *paths, COLUMNS="300")
    assert f"• what differs (a → b): {shown}" in ran.out.splitlines()
    markdown = ortbench("compare", *paths, "--markdown", "-").out
    assert "\x1b" not in markdown
    assert r"\<b>" in markdown


def test_results_that_are_the_same_in_everything_are_told_so(tmp_path: Path) -> None:
    one, other = (saved(tmp_path, name, SIMDEV_A="1") for name in ("a", "b"))
    ran = ortbench("compare", one, other, COLUMNS="200")
    assert ran.code == 0
    assert f"• a and b: {SAME}" in ran.out.splitlines()
    assert f"- a and b: {SAME}" in ortbench("compare", one, other, "--markdown", "-").out.splitlines()
    gate = ortbench("gate", one, "--baseline", other, "--max-regression", "5%", COLUMNS="200", cwd=tmp_path)
    assert gate.code == 0
    assert f"• baseline and candidate: {SAME}" in gate.out.splitlines()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("environment__variables", {"SIMDEV_A": "2"}),
        ("environment__onnxruntime", "1.29.0"),
        ("environment__git_commit", "abc"),
        ("target__session_config", {"a": "b"}),
        ("tool__version", "1"),
        ("setup__seed", 3),
    ],
)
def test_results_that_differ_in_something_are_not(path: str, value: object, tmp_path: Path) -> None:
    save(plain(), tmp_path / "a.json")
    other = plain()
    part, key = path.split("__")
    getattr(other, part)[key] = value
    save(other, tmp_path / "b.json")
    assert SAME not in ortbench("compare", tmp_path / "a.json", tmp_path / "b.json", COLUMNS="300").out


SECRETS = {
    **dict.fromkeys(
        ("NPM_AUTH", "CI_CRED", "GITHUB_PAT", "PGPASS", "MYSQL_PWD", "SENTRY_DSN", "COOKIES", "AZURE_SAS", "API_KEY"),
        "x",
    ),
    "PROXY": "https://user:word@host",
    "BLOB": "https://host/a?sv=1&sig=ab",
    "STORAGE": "AccountName=a;AccountKey=b",
    "LOGIN": "ghp_abc",
}
PLAIN = dict.fromkeys(("PATH", "PATTERN", "SASS", "SIGNAL_FD", "COMPAT", "PASSES"), "a=1") | {"OTHER": "https://host/a"}


def test_what_looks_like_a_secret_is_recorded_by_its_very_name_alone() -> None:
    found, remarks = recorded_variables(["*"], {**SECRETS, **PLAIN})
    assert found == PLAIN
    assert remarks[0].count(",") - 1 == len(SECRETS) - 1
    assert recorded_variables([*SECRETS], SECRETS) == (SECRETS, [])
