"""Plugin EPs in installed packages, whatever these are called and whatever they say: each is the reference device."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ortbench.core import eps
from ortbench.core.eps import installed_eps
from tests.conftest import MODELS, ONCE, Ran, device_library, ortbench
from tests.packages import having, install, put
from tests.refdevice import EP_NAME

pytestmark = pytest.mark.process

RUN = ("run", MODELS / "tiny.onnx", "--mode", "cpu-tensors", *ONCE, "--json", "-")
PATH = "from pathlib import Path\ndef get_library_path(): return Path(__file__).parent / 'libvendor.so'\n"
NAME = f"def get_ep_name(): return {EP_NAME!r}\n"
REGISTERED = "REGISTRATION_NAME = 'Vendor_Registered'\n"
CANARY = "raise SystemExit('imported')\n"
LIBRARY = object()  # stands for the reference device


def vendor(
    library: Path, site: Path, text: str = PATH + NAME, name: str = "accelerator-of-vendor", at: str = "vendor"
) -> None:
    """A package with a library and functions."""
    install(site, name, {f"{at}/__init__.py": text, f"{at}/libvendor.so": library})


def run(ep: str, site: Path, out: Path) -> Ran:
    return ortbench(*RUN, "--ep", ep, "--out", out, **having(site))


def result_of(ran: Ran) -> dict[str, Any]:
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def told(found: dict[str, Any], code: str) -> list[str]:
    return [it["message"] for it in found["warnings"] if it["code"] == code]


def found_in(site: Path) -> list[str]:
    """The distributions that are found by files."""
    return [it.distribution for it in eps.everywhere((str(site),))]


LAYOUTS: dict[str, dict[str, Any]] = {
    "functions": {"vendor/libvendor.so": LIBRARY, "vendor/__init__.py": PATH + NAME},
    "a path alone": {"vendor/libvendor.so": LIBRARY, "vendor/__init__.py": PATH},
    "a library alone": {"vendor/lib/libvendor.so": LIBRARY, "vendor/__init__.py": CANARY},
    "a library and copies": {
        "vendor/libvendor.so": LIBRARY,
        "vendor/libvendor.so.1.5": LIBRARY,
        "vendor/__init__.py": "",
    },
    "no package": {"vendor_data/libvendor.so": LIBRARY},
    "a package of a namespace": {"com/vendor/libvendor.so": LIBRARY, "com/vendor/__init__.py": PATH + NAME},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_package_of_any_name_and_layout(layout: str, library: Path, tmp_path: Path) -> None:
    files = {path: library if it is LIBRARY else it for path, it in LAYOUTS[layout].items()}
    install(tmp_path / "site", "accelerator-of-vendor", files)
    target = result_of(run("accelerator-of-vendor", tmp_path / "site", tmp_path / "out"))["target"]
    assert (target["ep"], target["ep_library"], target["device"]["type"]) == (EP_NAME, next(iter(files)), "GPU")


def test_a_library_elsewhere_by_the_functions_of_a_package_that_has_another_one(library: Path, tmp_path: Path) -> None:
    text = f"def get_library_path(): return {str(library)!r}\n{NAME}"
    install(tmp_path / "site", "accelerator-of-vendor", {"vendor/__init__.py": text, "vendor/native/helper.dll": "MZ"})
    target = result_of(run("accelerator-of-vendor", tmp_path / "site", tmp_path / "out"))["target"]
    assert (target["ep"], target["ep_library"]) == (EP_NAME, library.name)


@pytest.mark.parametrize(
    ("pips", "source"),
    [
        ({}, "site/accelerator_of_vendor"),
        ({"top_level.txt": "vendor\n"}, "site/vendor"),
        ({"top_level.txt": "vendor\n", "RECORD": "x.pth,,\nx-1.dist-info/direct_url.json,,\n"}, "my project/src/vendor"),
    ],
    ids=["no list of files", "modules alone", "editable"],
)  # fmt: skip
def test_a_package_whose_files_pip_did_not_write_down(
    pips: dict[str, str], source: str, library: Path, tmp_path: Path
) -> None:
    project = tmp_path / Path(source).parts[0]
    if project.name != "site":
        pips = {**pips, "direct_url.json": json.dumps({"url": project.as_uri(), "dir_info": {"editable": True}})}
    install(tmp_path / "site", "accelerator-of-vendor", {}, pips)
    put(tmp_path / source, {"__init__.py": PATH + NAME, "libvendor.so": library})
    paths = having(tmp_path / "site", tmp_path / "my project/src")
    target = result_of(ortbench(*RUN, "--ep", "accelerator-of-vendor", "--out", tmp_path / "out", **paths))["target"]
    assert (target["ep"], target["ep_library"]) == (EP_NAME, f"{Path(source).name}/libvendor.so")


NO_EPS: dict[str, dict[str, Any]] = {
    "a function alone": {"speech/__init__.py": PATH, "speech/libvendor.so": "no library"},
    "a library alone": {"speech/__init__.py": "", "speech/libvendor.so": "no library"},
    "no library": {"speech/__init__.py": PATH + NAME},
    "an empty library": {"speech/__init__.py": PATH, "speech/libvendor.so": ""},
    "a library cut short": {"speech/__init__.py": PATH, "speech/libvendor.so": "\x7fELF\x02\x01CreateEpFactories\0"},
    "in the installed onnxruntime": {"onnxruntime/capi/libonnxruntime_providers_x.so": LIBRARY},
    "not there": {},
}


@pytest.mark.parametrize("layout", NO_EPS)
def test_packages_that_bring_none(layout: str, library: Path, tmp_path: Path) -> None:
    install(tmp_path, "speech", {path: library if it is LIBRARY else it for path, it in NO_EPS[layout].items()})
    install(tmp_path, "lost", {}, {"RECORD": "lost/libvendor.so,,\n"})
    assert found_in(tmp_path) == []
    (tmp_path / "site.zip").touch()
    assert found_in(tmp_path / "site.zip") == []


def test_a_library_that_is_no_elf_file_exports_what_it_holds(tmp_path: Path) -> None:
    install(tmp_path, "vendor", {"vendor/vendor.dll": "MZ … CreateEpFactories\0"})
    assert found_in(tmp_path) == ["vendor"]


@pytest.mark.wide
@pytest.mark.parametrize(
    "name",
    [
        "accelerator-of-vendor", "Accelerator_Of_Vendor", "vendor-module", "VENDOR_MODULE", EP_NAME, EP_NAME.lower(), "RefDevice",
        "refdevice", "vendor_registered", "Vendor-Registered", "libvendor", "vendor",
    ],
)  # fmt: skip
def test_every_name_in_any_spelling(name: str, library: Path, tmp_path: Path) -> None:
    vendor(library, tmp_path / "site", PATH + NAME + REGISTERED, at="vendor_module")
    install(tmp_path / "site", "another", {"another/__init__.py": PATH + NAME + CANARY})
    ran = run(name, tmp_path / "site", tmp_path / "out")
    if name == "libvendor":  # the name of a file: its path is what stands for it
        assert (ran.code, "no such execution provider" in ran.error_line) == (2, True)
    else:
        assert result_of(ran)["target"]["ep"] == EP_NAME


@pytest.mark.parametrize("text", ["", PATH])
def test_the_name_of_an_ep_whose_package_does_not_say_it(text: str, library: Path, tmp_path: Path) -> None:
    vendor(library, tmp_path / "site", text)
    assert result_of(run("refdevice", tmp_path / "site", tmp_path / "out"))["target"]["ep"] == EP_NAME


@pytest.mark.wide
@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    "text", [PATH + REGISTERED, REGISTERED, REGISTERED + "EP_NAME = 'other'\n", "EP_NAME: str = 'Vendor_Registered'\n"]
)
def test_an_ep_takes_the_registration_name_of_its_package_for_its_own(text: str, tmp_path: Path) -> None:
    library = device_library(named_as_registered=True)
    vendor(library, tmp_path / "site", text)
    result = result_of(run("vendor-registered", tmp_path / "site", tmp_path / "out"))
    assert result["target"]["ep"] == "Vendor_Registered"


def test_auto_takes_an_ep_of_any_package(library: Path, tmp_path: Path) -> None:
    vendor(library, tmp_path / "site", PATH)
    target = result_of(run("auto", tmp_path / "site", tmp_path / "out"))["target"]
    if target["device"]["vendor"] != "ortbench":
        pytest.skip(f"there is a {target['device']['type']} here, which comes first")
    assert target["ep"] == EP_NAME


LIES: Mapping[str, tuple[str, str]] = {
    "a file that is not there": (
        "def get_library_path(): return '/nowhere/libvendor.so'\n" + NAME,
        "get_library_path() names a file that is not there: /nowhere/libvendor.so",
    ),
    "a path that is none": (
        "def get_library_path(): return None\n" + NAME,
        "get_library_path() gives no path but None",
    ),
    "no path": (
        "def get_library_path(): raise OSError('no library\\nfor this CPU')\n" + NAME,
        "get_library_path() raises OSError: no library for this CPU",
    ),
    "a failing import": (PATH + NAME + "import nothing_such\n", "import vendor raises ModuleNotFoundError: No module named 'nothing_such'"),
    "an end": (PATH + NAME + "raise SystemExit(3)\n", "import vendor raises SystemExit: 3"),
    "an end in a function": (PATH + "def get_ep_name(): exit()\n", "get_ep_name() raises SystemExit: None"),
    "no name": (PATH + "def get_ep_name(): return 3\n", "get_ep_name() gives no name but 3"),
    "no names": (PATH + "def get_ep_names(): return []\n", "get_ep_names() gives no name but []"),
    "a name in place of names": (PATH + "def get_ep_names(): return 'RefDevice'\n", "get_ep_names() gives no name but 'RefDevice'"),
}  # fmt: skip


def test_a_package_that_lies_gets_a_line(library: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    for number, (text, _) in enumerate(LIES.values()):
        vendor(library, site, text, f"liar-{number}", f"vendor{number}")
    found = {
        ep["package"]: ep["problem"] for ep in json.loads(ortbench("devices", "--json", "-", **having(site)).out)["eps"]
    }
    problems = {f"liar-{n}": why.replace("vendor r", f"vendor{n} r") for n, (_, why) in enumerate(LIES.values())}
    assert {package: found[package] for package in problems} == problems
    lines = " ".join(ortbench("devices", **having(site), COLUMNS="300").out.split())
    assert f"does not load: {problems['liar-0']}" in lines
    ran = run("vendor0", site, tmp_path / "out")
    assert (ran.code, ran.out) == (1, "")
    assert ran.error_line == f"the package liar-0 does not load: {problems['liar-0']}"


@pytest.mark.parametrize("name", ["vendor", "other"])
def test_a_package_that_gives_its_ep_another_name(name: str, library: Path, tmp_path: Path) -> None:
    vendor(library, tmp_path / "site", PATH + NAME.replace("RefDevice", "Other"))
    result = result_of(run(name, tmp_path / "site", tmp_path / "out"))
    assert result["target"]["ep"] == EP_NAME


def test_what_a_package_prints_is_nobodys_output(library: Path, tmp_path: Path) -> None:
    text = PATH + NAME + "import os\nprint('hello')\nos.write(1, b'hello')\n"
    vendor(library, tmp_path / "site", text)
    assert result_of(run("vendor", tmp_path / "site", tmp_path / "out"))["target"]["ep"] == EP_NAME


@pytest.mark.parametrize("name", ["vendor", "cpu"])
def test_no_other_package_is_imported(name: str, library: Path, tmp_path: Path) -> None:
    trace = tmp_path / "imported"
    vendor(library, tmp_path / "site")
    install(tmp_path / "site", "canary", {
        "canary/__init__.py": f"open({str(trace)!r}, 'w')\ndef get_library_path(): ...\ndef get_ep_name(): ...\n",
        "canary/libcanary.so": "no library",
    })  # fmt: skip
    assert {"canary", "accelerator-of-vendor"} <= {*installed_eps((str(tmp_path / "site"),))}
    ran = run(name, tmp_path / "site", tmp_path / "out")
    assert (ran.code, trace.exists()) == (0, False), ran.err
    assert (run("canary", tmp_path / "site", tmp_path / "out").code, trace.exists()) == (1, True)


def test_a_name_of_several_is_refused_with_what_to_say(library: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    two: dict[str, str | Path] = {f"{module}/libvendor.so": library for module in ("red", "blue")}
    two |= {f"{module}/__init__.py": PATH + f"def get_ep_name(): return {module!r}\n" for module in ("red", "blue")}
    install(site, "colours", two)
    ran = run("colours", site, tmp_path / "out")
    assert (ran.code, ran.error_line) == (2, "--ep 'colours' is in several packages: say --ep blue or --ep red")
    for name, ep in {"one": "Green", "two": "GreenExecutionProvider"}.items():
        vendor(library, site, PATH + f"def get_ep_name(): return {ep!r}\n", name, name)
    ran = run("green", site, tmp_path / "out")
    message = "--ep 'green' can be Green (--ep one) or GreenExecutionProvider (--ep two)"
    assert (ran.code, ran.error_line) == (2, message)


def test_an_ep_of_two_packages_is_the_first_ones_and_that_is_said(library: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        vendor(library, tmp_path / "site", PATH + NAME, name, name)
    result = result_of(run("refdevice", tmp_path / "site", tmp_path / "out"))
    assert result["target"]["ep_library"] == "one/libvendor.so"
    (message,) = told(result, "ep-name-shared")
    assert message == f"{EP_NAME} is in one and two: by that name --ep takes the one of one, and --ep two the other"


def test_devices_and_doctor_list_what_run_takes(library: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    vendor(library, site, PATH + NAME.replace("RefDevice", "Other"))
    vendor(library, site, CANARY + PATH + NAME, "broken", "broken")
    found = json.loads(ortbench("devices", "--json", "-", **having(site)).out)
    ours = {ep["package"]: ep for ep in found["eps"] if ep["package"] in ("accelerator-of-vendor", "broken")}
    assert {package: (ep["name"], len(ep["devices"]), ep["problem"]) for package, ep in ours.items()} == {
        "accelerator-of-vendor": (EP_NAME, 1, None),
        "broken": ("broken", 0, "import broken raises SystemExit: imported"),
    }
    assert ours["accelerator-of-vendor"]["library"] == str(site / "vendor" / "libvendor.so")
    lines = ortbench("doctor", "--no-noise", COLUMNS="300", **having(site)).out.splitlines()
    assert f"good {EP_NAME} 1.0.0 loads and runs on GPU ortbench" in lines
    assert any(line.startswith("bad  broken 1.5 does not load: import broken raises") for line in lines), lines


@pytest.mark.parametrize("text", [PATH, PATH.replace("return ", "return str(").replace(".so'", ".so')"), ""])
def test_a_program_takes_the_path_as_onnxruntime_does(text: str, library: Path, tmp_path: Path) -> None:
    vendor(library, tmp_path / "site", text)
    ran = ortbench("code", MODELS / "tiny.onnx", "--ep", "vendor", "--mode", "cpu-tensors", **having(tmp_path / "site"))
    path = repr(str(tmp_path / "site" / "vendor" / "libvendor.so")).replace("'", '"')
    expected = "vendor.get_library_path()" if "str(" in text else path
    assert f"library = {expected}" in ran.out.splitlines(), ran.err


def test_packages_that_an_earlier_folder_hides_are_not_found(library: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    put(first, {"vendor.py": "", "onnxruntime_vendor/__init__.py": ""})
    for number, at in enumerate(("vendor", "onnxruntime_vendor")):
        vendor(library, second, name=f"hidden-{number}", at=at)
    for site in (first, second):
        install(site, "twice", {"twice_data/libep.so": library})
    found = eps.everywhere((str(first), str(second)))
    assert [it.libraries for it in found] == [(first / "twice_data" / "libep.so",)]


def test_a_package_called_as_those_of_onnxruntime_by_a_distribution_that_is_not(library: Path, tmp_path: Path) -> None:
    vendor(library, tmp_path / "site", at="onnxruntime_vendor")
    assert found_in(tmp_path / "site") == ["accelerator-of-vendor"]
    for name in ("accelerator-of-vendor", "onnxruntime-vendor", "refdevice"):
        result = result_of(run(name, tmp_path / "site", tmp_path / name))
        assert (result["target"]["ep"], told(result, "ep-name-shared")) == (EP_NAME, [])
