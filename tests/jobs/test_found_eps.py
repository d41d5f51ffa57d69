"""Plugin EPs in installed packages, whatever these are called and whatever they say: each is the reference device."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from ortbench.core import eps
from ortbench.core.eps import installed_eps
from ortbench.core.errors import BadInput
from ortbench.worker import plugins
from ortbench.worker.plugins import Plugin
from tests.conftest import MODELS, ONCE, Ran, ortbench
from tests.expect import refusal, there
from tests.packages import having, install, put
from tests.refdevice import EP_NAME

Ask = Callable[..., list[Plugin]]
RUN = ("run", MODELS / "tiny.onnx", "--mode", "cpu-tensors", *ONCE, "--json", "-")
PATH = "from pathlib import Path\ndef get_library_path(): return Path(__file__).parent / 'libvendor.so'\n"
NAME = f"def get_ep_name(): return {EP_NAME!r}\n"
TEXT_PATH = PATH.replace("return ", "return str(").replace(".so'", ".so')")  # which ONNX Runtime takes too
OTHER = NAME.replace("RefDevice", "Other")
REGISTERED = "REGISTRATION_NAME = 'Vendor_Registered'\n"
CANARY = "raise SystemExit('imported')\n"


def vendor(
    library: Path, site: Path, text: str = PATH + NAME, name: str = "accelerator-of-vendor", at: str = "vendor"
) -> None:
    """A package with a library and functions."""
    install(site, name, {f"{at}/__init__.py": text, f"{at}/libvendor.so": library})


def run(ep: str, site: Path, out: Path) -> Ran:
    return ortbench(*RUN, "--ep", ep, "--out", out, **having(site))


def result_of(ran: Ran) -> dict[str, Any]:
    assert ran.code == 0, ran.err
    result: dict[str, Any] = json.loads(ran.out)
    return result


def distributions(site: Path) -> list[str]:
    """The distributions that are found by files."""
    return [it.distribution for it in eps.everywhere((str(site),))]


# What packages are found, and what they say


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Asks the packages of a folder, beside which there are no others."""
    monkeypatch.setattr(plugins, "_plugins", {})

    def asked(site: Path, *more: Path) -> list[Plugin]:
        packages = eps.everywhere((str(site),))
        monkeypatch.setattr(eps, "everywhere", lambda: packages)
        monkeypatch.setattr(eps, "by_name", lambda: ())
        for folder in (*more, site):
            monkeypatch.syspath_prepend(folder)
        with patch.dict(sys.modules):
            return plugins.ask_packages(packages)

    return asked


EDITABLE = {
    "top_level.txt": "vendor\n", "RECORD": "x.pth,,\nx-1.dist-info/direct_url.json,,\n",
    "direct_url.json": '{"url": "file:SITE/../my%20project", "dir_info": {"editable": true}}',
}  # fmt: skip


@pytest.mark.parametrize(
    ("module", "text", "path", "pips"),
    [
        ("vendor", PATH + NAME, "vendor/libvendor.so", None),
        ("vendor", CANARY, "vendor/lib/libvendor.so", None),  # a library alone
        ("vendor", TEXT_PATH, "vendor/libvendor.so", None),
        ("vendor", f"def get_library_path(): return 'SITE/native/lib.so'\n{NAME}", "native/lib.so", {"RECORD": "vendor/__init__.py,,\nvendor/helper.dll,,\n"}),
        ("accelerator_of_vendor", PATH + NAME, "accelerator_of_vendor/libvendor.so", {}),  # pip wrote no list of files
        ("../my project/src/vendor", PATH + NAME, "../my project/src/vendor/libvendor.so", EDITABLE),
    ],
)  # fmt: skip
def test_a_package_of_any_name_and_layout(
    module: str, text: str, path: str, pips: dict[str, str] | None, library: Path, tmp_path: Path, ask: Ask
) -> None:
    site = tmp_path / "site"
    pips = pips and {name: it.replace("SITE", str(site)) for name, it in pips.items()}
    install(
        site, "accelerator-of-vendor", {f"{module}/__init__.py": text.replace("SITE", str(site)), path: library}, pips
    )
    (plugin,) = ask(site, tmp_path / "my project" / "src")
    assert Path(plugin.library).resolve() == (site / path).resolve()
    assert (plugin.distribution, plugin.problem) == ("accelerator-of-vendor", "")
    assert plugin.ep_names == ((EP_NAME,) if NAME in text else ())
    assert plugin.module == ("vendor" if "str(" in text or "SITE" in text else "")


@pytest.mark.parametrize(
    "files",
    [
        {"speech/__init__.py": PATH, "speech/libvendor.so": "no library"},
        {"speech/__init__.py": PATH + NAME},
        {"speech/__init__.py": PATH, "speech/libvendor.so": ""},
        {"speech/__init__.py": PATH, "speech/libvendor.so": "\x7fELF\x02\x01CreateEpFactories\0"},  # cut short
        {"onnxruntime/capi/libonnxruntime_providers_x.so": "MZ … CreateEpFactories\0"},
    ],
)
def test_packages_that_bring_none(files: dict[str, str], tmp_path: Path) -> None:
    install(tmp_path, "speech", files)
    install(tmp_path, "lost", {}, {"RECORD": "lost/libvendor.so,,\n"})
    assert distributions(tmp_path) == []
    (tmp_path / "site.zip").touch()
    assert distributions(tmp_path / "site.zip") == []


def test_a_library_that_is_no_elf_file_exports_what_it_holds_and_its_copies_are_none(tmp_path: Path) -> None:
    for name, begin in (
        ("vendor", "MZ"),
        ("stripped", "\x7fELF\x02\x01" + 100 * "\0"),
    ):  # one without a table of sections
        install(
            tmp_path / name,
            name,
            dict.fromkeys((f"{name}/it.dll", f"{name}/it.dll.1.5"), f"{begin}CreateEpFactories\0"),
        )
        assert distributions(tmp_path / name) == [name]


def test_packages_that_an_earlier_folder_hides_are_not_found(library: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    put(first, {"vendor.py": "", "onnxruntime_vendor/__init__.py": ""})
    for number, at in enumerate(("vendor", "onnxruntime_vendor")):
        vendor(library, second, name=f"hidden-{number}", at=at)
    for site in (first, second):
        install(site, "twice", {"twice_data/libep.so": library})
    found = eps.everywhere((str(first), str(second)))
    assert [it.libraries for it in found] == [(first / "twice_data" / "libep.so",)]


# Each says something that cannot be: its text, and the line that it gets.
LIES: Mapping[str, str] = {
    f"def get_library_path(): return '/nowhere/libvendor.so'\n{NAME}": "get_library_path() names a file that is not there: /nowhere/libvendor.so",
    f"def get_library_path(): return None\n{NAME}": "get_library_path() gives no path but None",
    f"def get_library_path(): raise OSError('no library\\nfor this CPU')\n{NAME}": "get_library_path() raises OSError: no library for this CPU",
    f"{PATH}{NAME}import nothing_such\n": "import vendor raises ModuleNotFoundError: No module named 'nothing_such'",
    f"{PATH}def get_ep_name(): exit()\n": "get_ep_name() raises SystemExit: None",
    f"{PATH}def get_ep_name(): return 3\n": "get_ep_name() gives no name but 3",
    f"{PATH}def get_ep_names(): return 'RefDevice'\n": "get_ep_names() gives no name but 'RefDevice'",
}  # fmt: skip


@pytest.mark.parametrize("text", LIES)
def test_a_package_that_lies_gets_a_line(text: str, library: Path, tmp_path: Path, ask: Ask) -> None:
    vendor(library, tmp_path, text)
    assert [plugin.problem for plugin in ask(tmp_path)] == [LIES[text]]


# What --ep stands for


@pytest.mark.parametrize(
    "name",
    [
        "accelerator-of-vendor", "Accelerator_Of_Vendor", "vendor-module", "VENDOR_MODULE", EP_NAME, EP_NAME.lower(), "RefDevice",
        "refdevice", "vendor_registered", "Vendor-Registered", "vendor",
    ],
)  # fmt: skip
def test_every_name_in_any_spelling(name: str, library: Path, tmp_path: Path, ask: Ask) -> None:
    vendor(library, tmp_path, PATH + NAME + REGISTERED, at="vendor_module")
    ask(tmp_path)
    assert plugins.find_ep(name).ep == EP_NAME
    assert refusal(BadInput, plugins.find_ep, "libvendor").startswith("--ep 'libvendor': no such execution provider")


def test_a_name_of_several_packages(library: Path, tmp_path: Path, ask: Ask) -> None:
    two: dict[str, str | Path] = {f"{module}/libvendor.so": library for module in ("red", "blue")}
    two |= {f"{module}/__init__.py": PATH + f"def get_ep_name(): return {module!r}\n" for module in ("red", "blue")}
    install(tmp_path, "colours", two)
    for name, ep in {"one": "Green", "two": "GreenExecutionProvider", "first": EP_NAME, "second": EP_NAME}.items():
        vendor(library, tmp_path, PATH + f"def get_ep_name(): return {ep!r}\n", name, name)
    ask(tmp_path)
    for name, message in {
        "colours": "--ep 'colours' is in several packages: say --ep blue or --ep red",
        "green": "--ep 'green' can be Green (--ep one) or GreenExecutionProvider (--ep two)",
    }.items():
        assert refusal(BadInput, plugins.find_ep, name) == message
    found, shared = plugins.find_ep("refdevice"), f"{EP_NAME} is in first and second"
    assert there(found.plugin).distribution == "first"
    assert found.note == f"{shared}: by that name --ep takes the one of first, and --ep second the other"


# From the command line on


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vendor", PATH + OTHER + "import os\nprint('hello')\nos.write(1, b'hello')\n"),  # which is nobody's output
        ("other", PATH + OTHER),  # the name that it gives is not the EP's
        ("refdevice", ""),
        ("auto", PATH),
    ],
)
def test_an_ep_is_known_by_its_library(name: str, text: str, library: Path, tmp_path: Path) -> None:
    vendor(library, tmp_path / "site", text)
    target = result_of(run(name, tmp_path / "site", tmp_path / "out"))["target"]
    if name == "auto" and target["device"]["vendor"] != "ortbench":
        pytest.skip(f"there is a {target['device']['type']} here, which comes first")
    assert (target["ep"], target["ep_library"], target["device"]["type"]) == (EP_NAME, "vendor/libvendor.so", "GPU")


def test_no_other_package_is_imported(library: Path, tmp_path: Path) -> None:
    site, trace = tmp_path / "site", tmp_path / "imported"
    vendor(library, site)
    install(site, "canary", {
        "canary/__init__.py": f"open({str(trace)!r}, 'w')\ndef get_library_path(): ...\ndef get_ep_name(): ...\n",
        "canary/libcanary.so": "no library",
    })  # fmt: skip
    assert {"canary", "accelerator-of-vendor"} <= {*installed_eps((str(site),))}
    for name, code, is_imported in (("vendor", 0, False), ("cpu", 0, False), ("canary", 1, True)):
        assert (run(name, site, tmp_path / name).code, trace.exists()) == (code, is_imported)


def test_devices_and_doctor_list_what_run_takes(library: Path, tmp_path: Path) -> None:
    site, problem = tmp_path / "site", "import broken raises SystemExit: imported"
    vendor(library, site, PATH + OTHER)
    vendor(library, site, CANARY + PATH + NAME, "broken", "broken")
    found = {ep["package"]: ep for ep in json.loads(ortbench("devices", "--json", "-", **having(site)).out)["eps"]}
    ours, broken = found["accelerator-of-vendor"], found["broken"]
    assert (ours["name"], len(ours["devices"]), ours["problem"]) == (EP_NAME, 1, None)
    assert ours["library"] == str(site / "vendor" / "libvendor.so")
    assert (broken["name"], broken["devices"], broken["problem"]) == ("broken", [], problem)
    assert f"good {EP_NAME} 1.5 loads and runs" in ortbench("doctor", "--no-noise", COLUMNS="300", **having(site)).out
    ran = run("broken", site, tmp_path / "out")
    assert (ran.code, ran.out, ran.error_line) == (1, "", f"the package broken does not load: {problem}")
