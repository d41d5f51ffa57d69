"""Names that somebody made to do harm, in everything that people or programs are shown."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from rich.cells import cell_len

from ortbench.core.errors import BadInput
from ortbench.core.safe_text import LONGEST, plain_name, visible, visible_lines
from ortbench.features.devices import report as listing
from ortbench.model.result_file import parse
from ortbench.report.model import Column, Command, Heading, Kind, Note, Notes, Paragraph, Report, Table, Title
from ortbench.report.progress import LiveProgress
from ortbench.report.records import csv_text, escape, markdown
from ortbench.report.terminal import print_report
from tests.conftest import MODELS, ROOT, Ran, ortbench, ortbench_here
from tests.hostile import NAMES, UNSEEN, model
from tests.report.test_terminal import screen

ORDINARY = [
    "models/tiny.onnx (input: 1x3x224x224)",
    "input_ids",
    "/head/Conv_12",
    "onnx::MatMul_123",
    "input.1",
    "a-b/c d:0",
    "C:\\models\\Übung.onnx",
    "~/models/模型 🦄.onnx",
    "first at [0, 12]: 1 instead of 2 < 3 & 4 > 2 (50 %)",
    "batch, x[0], tensor(float)",
    "≈1.2 µs × 3 – 95 %",
]
TAGS = {"h1", "h2", "p", "br", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "code", "em"}
HTML = MarkdownIt("commonmark").enable(["table", "strikethrough"])


@pytest.mark.process
@pytest.mark.parametrize("folder", ["copy_bound-cuda-h100", "gpu-h100/chain", "gpu-h100/load-rate", "gpu-h100-2/start"])
def test_texts_of_a_result_are_neither_obeyed_nor_opened_loaded_or_run(
    folder: str, undrawn: None, tmp_path: Path
) -> None:
    """Results come from anywhere: whatever text of one can be a path is that of a file, which no reader touches."""
    named = tmp_path / "named\x1b[31m\u202e<script>.so"
    named.write_text("#!/bin/sh\n")
    named.chmod(0o755)
    data = json.loads((ROOT / "reports" / folder / "result.json").read_text())
    for case in data["cases"]:
        case |= {"samples": {}, "blocks": {}}  # which take long to read
    changed = 0
    for holder, key in list(_texts(data)):
        before, holder[key] = holder[key], str(named) if changed % 2 else f"{named}\x00\x9b\ud800\ufffe\t\n"
        changed += 1
        try:
            parse(json.dumps(data).encode(), "result.json")
        except BadInput:
            holder[key] = before
            changed -= 1
    assert changed > 20
    (tmp_path / "result.json").write_text(json.dumps(data))
    touched: list[tuple[str, object]] = []
    looking = True

    def look(event: str, args: tuple[object, ...]) -> None:
        if looking and any(named.name in str(it) for it in args) and event.startswith(_TOUCHING):
            touched.append((event, args))

    sys.addaudithook(look)  # to the end of the process
    for line in (
        ("report", tmp_path, "--html", "-"),
        ("compare", tmp_path, tmp_path, "--markdown", "-"),
        ("gate", tmp_path, "--max-cpu-nodes", 0, "--junit", "-"),
        ("gate", tmp_path, "--baseline", tmp_path),
    ):
        ran = ortbench_here(*line)
        assert ran.code in (0, 2, 3, 4, 5)
        assert not UNSEEN.search(ran.out.replace("\t", "") + ran.err)
        assert line[0] != "report" or "<script>" not in ran.out
        assert line[0] != "compare" or seen(HTML.render(ran.out))[0] <= TAGS
    looking = False
    assert touched == []


_TOUCHING = ("open", "os.", "subprocess.", "ctypes.", "import", "exec", "shutil.", "glob.", "pathlib.", "socket.")


def _texts(data: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(value, str):
            yield data, key
        elif isinstance(value, (dict, list)):
            yield from _texts(value)


def of_devices(name: str) -> list[str]:
    device: Any = {
        "hardware": {"type": name, "vendor": name, "vendor_id": 1, "device_id": 2, "metadata": {name: name}},
        "memory": {"kind": name, "default": name, "host_accessible": name},
        "streams": {"offered": False, "why": name},
        "modes": {"cpu-tensors": None, "device-tensors": name},
    }
    ep = {"name": name, "library": name, "version": name, "package": name, "problem": None, "devices": [device]}
    listed = {"runtime": {"onnxruntime": name, "python": name}, "abilities": [], "eps": [ep, {**ep, "problem": name}]}
    return screen(listing.print_devices, listed)


def of_progress(name: str) -> list[str]:
    with LiveProgress() as progress:
        progress._progress.start()  # as on a terminal
        progress.stage(f"preparing {name}")
        (task,) = progress._progress.tasks
        assert cell_len(task.description) <= progress._console.width
        return [task.description]


@pytest.mark.parametrize("shown_of", [of_devices, of_progress])
def test_nothing_unseen_passes(shown_of: Callable[[str], list[str]]) -> None:
    for name in NAMES:
        shown = shown_of(name)
        assert not any(UNSEEN.search(text.replace("\t", "")) for text in shown), name


def test_texts_in_one_line_and_in_several() -> None:
    for name in NAMES:
        for shown in (visible(name), visible_lines(name)):
            assert not UNSEEN.search(shown.replace("\t", "")), name
            assert len(shown) <= LONGEST
        assert "\n" not in visible(name)
        assert folded(visible(name)) == folded(name)  # what is shown is not changed by being shown once more
    for name in ORDINARY:
        assert visible(name) == visible_lines(name) == escape(name) == name
    long, text = "L" + "o" * 4998 + "ng", "word " * 10_000
    assert re.fullmatch("Loo.*…o.*ong", visible(long))
    assert (visible(text), visible("x" * LONGEST)) == (text, "x" * LONGEST)
    assert visible("a\udcff\ud800") == "a\\udcff\\ud800"  # halves of characters are told apart
    assert visible_lines("a\udcff") == "a\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("name", [*NAMES, *ORDINARY, "..", ".", "/", "\udcff", "模" * 500])
def test_folders_and_files_of_any_name(name: str, tmp_path: Path) -> None:
    place = tmp_path / plain_name(name)
    place.mkdir()
    assert [it.name for it in tmp_path.iterdir()] == [place.name]
    assert re.fullmatch(r"[\w.-]+", place.name)


def seen(html: str) -> tuple[set[str], str]:
    """The elements and the text of a page or of Markdown."""
    text = unescape(re.sub(r"<[^>]*>", "", html))
    return {*re.findall(r"<([a-zA-Z]\w*)", html)}, " ".join(text.split())


def folded(name: str) -> str:
    """A name as a reader sees it, of whose spaces those in a row count as one."""
    return " ".join(visible(name).split())


def test_markdown_shows_every_name_word_for_word() -> None:
    for text in (*NAMES, *ORDINARY, *(f"before {it}, after" for it in NAMES)):
        blocks = [
            Title(text),
            Heading([text, text]),
            Paragraph(text),
            Table((Column(text, Kind.NAME), Column("b")), ((text, "1"), (text, text)), rest=text),
            Notes([Note(text)]),
            Command([text]),
        ]
        found = markdown(Report(text, [blocks]))
        assert not UNSEEN.search(found)
        html = HTML.render(found)
        tags, shown = seen(html)
        assert tags <= TAGS, text
        assert {*re.findall(r' (\w+)="[^"]*"(?=[^<]*>)', html)} <= {"style"}  # of a table's columns
        assert shown.count(folded(text)) == 12, text
        assert len(shown.replace(folded(text), "").split()) == 2  # "b" and "1"


def test_no_spreadsheet_takes_a_name_for_a_formula() -> None:
    for name in NAMES:
        (row,) = csv.DictReader(io.StringIO(csv_text(["a", "b"], [{"a": name, "b": -1.5}])))
        assert row["a"].removeprefix("'") == visible_lines(name)
        assert row["a"].lstrip()[:1] not in tuple("=+-@")
        assert row["b"] == "-1.5"  # a number is one
    assert not any("'" in csv_text(["a"], [{"a": name}]) for name in ORDINARY)


@pytest.mark.parametrize("width", [20, 80, 10_000])
def test_a_terminal_gets_no_commands(width: int) -> None:
    rows = tuple((name, name, "1") for name in NAMES)
    columns = (Column("a", Kind.NAME, 0), Column("b", Kind.LONG_NAME), Column("c"))
    texts = [[Title(name), Heading([name]), Paragraph(name), Notes([Note(name)])] for name in NAMES]
    report = Report(NAMES[0], [*texts, [Table(columns, rows, rest=NAMES[0])]])
    lines = screen(print_report, report, width=width)
    assert not any(UNSEEN.search(line) for line in lines)
    assert any("[bold red]" in line for line in lines) or width < 40  # rich takes it for text
    assert max(map(cell_len, lines)) <= width


@dataclass(frozen=True)
class Whole:
    """A model with all the names in a folder with one, what was run with it, and where it was saved."""

    folder: Path
    model: Path
    run: Ran
    saved: Path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("hostile")
    inside = folder / "<b>|`x`\u202e\x1b[31m"
    inside.mkdir()
    path = model(inside / "=cmd|'[a](b)\n\u202e.onnx")
    exports = [("html", "page.html"), ("junit", "junit.xml"), ("action-json", "action.json"), ("trace", "trace.json")]
    places = [item for option, name in exports for item in (f"--{option}", folder / name)]
    summary = str(folder / "step.md")
    line = ("run", path, "--ep", "cpu", "--measure-nodes", "--iterations", 2, "--warmup", 0, "--out", folder / "out")
    ran = ortbench(*line, *places, GITHUB_STEP_SUMMARY=summary)
    assert ran.code == 0, ran.err
    (saved,) = (folder / "out").glob("[!.]*")
    return Whole(folder, path, ran, saved)


@pytest.mark.process
def test_a_run_of_such_a_model_keeps_the_true_names_in_its_result_alone(whole: Whole) -> None:
    assert not UNSEEN.search(whole.run.out + whole.run.err)
    assert re.fullmatch(r"cmd-a-b--cpu-[\d-]+", whole.saved.name)
    result = json.loads((whole.saved / "result.json").read_text(encoding="utf-8"))
    assert [it["name"] for it in result["model"]["inputs"]] == NAMES
    assert [it["name"] for it in result["model"]["outputs"]] == [f"{name} out" for name in NAMES]
    assert result["model"]["path"] == str(whole.model)
    files = [path for folder in (whole.folder, whole.saved) for path in folder.glob("[!.]*") if path.is_file()]
    assert len(files) == 8
    for path in files:
        shown = path.read_text(encoding="utf-8").replace("\t", "")
        assert path.name == "result.json" or not UNSEEN.search(shown), path.name
    for name in ("action.json", "trace.json"):  # as programs read them
        data = json.loads((whole.folder / name).read_text(encoding="utf-8"))
        shown = "".join(f"{key}{holder[key]}" for holder, key in _texts(data))
        assert "cmd" in shown
        assert not UNSEEN.search(re.sub("[\n\t]", "", shown)), name


@pytest.mark.process
def test_tables_job_summary_and_page_show_every_name_and_take_none_for_markup(whole: Whole) -> None:
    for path in (whole.saved / "table.md", whole.folder / "step.md"):
        tags, shown = seen(HTML.render(path.read_text(encoding="utf-8")))
        assert tags <= TAGS
        assert all(folded(name) in shown for name in NAMES)
    page = (whole.folder / "page.html").read_text(encoding="utf-8")
    tags, shown = seen(page)
    assert not tags & {"script", "img", "link"}
    assert "<b>|" not in page
    assert all(" ".join(visible_lines(name).split()) in shown for name in NAMES)


COMMANDS = [
    ["inspect", "MODEL", "--ep", "cpu"],
    ["compare", "RESULT", "RESULT", "--csv", "-"],
    ["gate", "RESULT", "--baseline", "RESULT"],
    ["run", "MODEL", "--shape", f"{NAMES[1]}:3", "--ep", "cpu"],
    ["run", "MODEL", "--dim", f"{NAMES[2]}=3", "--ep", NAMES[2]],
    ["run", NAMES[1]],
    ["run", "MODEL", f"--{NAMES[1]}"],
    ["suite", NAMES[8][:200]],
]


@pytest.mark.process
@pytest.mark.parametrize("number", range(len(COMMANDS)))
def test_every_command_and_every_error(number: int, whole: Whole, tmp_path: Path) -> None:
    given = {"MODEL": whole.model, "RESULT": whole.saved}
    ran = ortbench(*[given.get(word, word) for word in COMMANDS[number]], cwd=tmp_path)
    assert "Traceback" not in ran.err
    assert ran.out or ran.err
    assert not UNSEEN.search(ran.out.replace("\t", "") + ran.err)
    assert not re.search(rf"\S{{{LONGEST + 100}}}", ran.err)
    assert len(ran.err.splitlines()) <= 1


@pytest.mark.process
def test_a_suite_with_such_names(tmp_path: Path) -> None:
    name, ep, tiny = (json.dumps(it) for it in (NAMES[2], NAMES[8], str(MODELS / "tiny.onnx")))
    (tmp_path / "suite.toml").write_text(
        f'[suite]\nname = {name}\n[[bench]]\nmodel = {tiny}\nep = [{{name = {ep}, ep = "cpu"}}, {{name = "none", ep = "none"}}]\n'
        'iterations = 1\nwarmup = 0\nmode = "cpu-tensors"\n'
    )
    ran = ortbench(
        "suite", "suite.toml", "--junit", "j.xml", cwd=tmp_path, GITHUB_STEP_SUMMARY=str(tmp_path / "step.md")
    )
    assert ran.code == 1, ran.err
    assert not UNSEEN.search(ran.out + ran.err)
    (place,) = (tmp_path / "reports").glob("[!.]*")
    for path in (tmp_path / "step.md", tmp_path / "j.xml", place / "summary.md", place / "summary.csv"):
        assert not UNSEEN.search(path.read_text(encoding="utf-8")), path.name
    assert all(re.fullmatch(r"[\w.-]+", path.name) for path in place.iterdir())
