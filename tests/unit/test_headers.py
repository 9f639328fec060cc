# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The public headers are those of kfabric 1.7, and ours come behind.

The facts (names, values, orders, types) are data in ``tests/data/kfabric_1_7.toml``. They become
C probes of nothing but compile-time assertions, which the guest kernel's own build compiles with
W=1 and -Werror: a probe that has an object file is a proof. What the inlines do with their
arguments is proved by running them on the host, against operations tables that note each call.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "kmod" / "include"
DATA = ROOT / "tests" / "data"
FACTS: dict[str, Any] = tomllib.loads((DATA / "kfabric_1_7.toml").read_text())

# The providers' side and the test hooks are no part of kfabric 1.7.
OURS = {"kfi_channel.h", "kfi_core.h", "kfi_profile.h", "kfi_test.h", "kfi_verbs_ext.h"}
HEADERS = [
    "kfabric.h",
    "kfi_atomic.h",
    "kfi_cm.h",
    "kfi_cxi_ext.h",
    "kfi_debug.h",
    "kfi_direct.h",
    "kfi_domain.h",
    "kfi_endpoint.h",
    "kfi_enosys.h",
    "kfi_eq.h",
    "kfi_errno.h",
    "kfi_log.h",
    "kfi_prov.h",
    "kfi_rma.h",
    "kfi_tagged.h",
    "kfi_trigger.h",
    "direct/kfi_direct.h",
]
GUEST_HEADERS = "linux-headers-6.1.0-*-amd64"
BUILD_SECONDS = 300


# --- Facts as C ------------------------------------------------------------------------------


def enums() -> Iterator[tuple[str, dict[str, int]]]:
    """Each enum's name and its enumerators, our additions behind the others."""
    for name, enum in FACTS["enums"].items():
        yield name, enum["values"] | FACTS["additions"].get(name, {})


def split_arguments(arguments: str) -> list[tuple[str, str]]:
    """``"int a, void *b"`` as ``[("int", "a"), ("void *", "b")]``."""
    found = (re.fullmatch(r"(.*?)(\w+)", item) for item in arguments.split(", ") if item)
    return [(match[1].strip(), match[2]) for match in found if match]


def prototype(returns: str, arguments: str) -> str:
    """The type of a pointer to a function."""
    return f"{returns} (*)({arguments or 'void'})"


def same_type(expression: str, expected: str) -> str:
    """An assertion that an expression has a type; qualifiers of pointers' targets count."""
    return (
        f"static_assert(__builtin_types_compatible_p(typeof({expression}), "
        f'typeof({expected})), "{expression} is {expected}");'
    )


def equal(expression: str, value: int | str) -> str:
    """An assertion on an integer constant."""
    message = f"{expression} is {value}".replace('"', "'")
    return f'static_assert(({expression}) == ({value}), "{message}");'


def value_facts() -> Iterator[str]:
    """Macros, flags, error numbers and enumerators."""
    for name, value in (FACTS["macros"] | FACTS["errnos"]).items():
        yield equal(name, value)
        yield same_type(name, "int")
    for name in FACTS["all_ones"]["names"]:
        yield equal(name, "~0ULL")
    for name, bit in FACTS["flag_bits"].items():
        yield equal(name, f"1ULL << {bit}")
        yield same_type(name, "uint64_t")
    for name, value in FACTS["small_flags"].items():
        yield equal(name, value)
        yield same_type(name, "int")
    for _, values in enums():
        yield from (equal(name, value) for name, value in values.items())
    yield equal("KFI_VERSION(1, 7)", 0x10007)
    yield equal("KFI_MAJOR(0x10007)", 1)
    yield equal("KFI_MINOR(0x10007)", 7)
    for other, newer_or_same in ((0x10006, 1), (0x10007, 1), (0x10008, 0)):
        yield equal(f"KFI_VERSION_GE(0x10007, {other})", newer_or_same)
        yield equal(f"KFI_VERSION_LT(0x10007, {other})", 1 - newer_or_same)
    for name, text in (("FAB", "cxi_fab_ops_v1"), ("DOM", "cxi_dom_ops_v1")):
        yield equal(f'__builtin_strcmp(KFI_CXI_{name}_OPS_1, "{text}")', 0)


def struct_facts() -> Iterator[str]:
    """Sizes of structs; offsets and types of members; typedefs."""
    for name, struct in FACTS["structs"].items():
        yield equal(f"sizeof(struct {name})", struct["size"])
        for offset, type_, member in struct["members"]:
            yield equal(f"offsetof(struct {name}, {member})", offset)
            yield same_type(f"((struct {name} *)NULL)->{member}", type_)
    for name, type_ in FACTS["typedefs"].items():
        yield same_type(f"({name})0", type_)
    yield "static inline void probe_bit_fields(void)\n{"
    for name, fields in FACTS["bit_fields"].items():
        for low, width, member in fields["members"]:
            yield f"\t{{ struct {name} v = {{ .qw = 0 }}; v.{member} = {(1 << width) - 1:#x};"
            yield f"\tBUILD_BUG_ON(v.qw != GENMASK_ULL({low + width - 1}, {low})); }}"
    yield "}\nvoid (*const probe_keep)(void) = probe_bit_fields;"


def call_facts() -> Iterator[str]:
    """Slots of operations tables, functions, inlines and stubs."""
    for table, ops in FACTS["ops"].items():
        yield equal(f"sizeof(struct {table})", ops["size"])
        first = 0
        if ops.get("sized", True):
            yield equal(f"offsetof(struct {table}, size)", 0)
            yield same_type(f"((struct {table} *)NULL)->size", "size_t")
            first = 8
        for index, (slot, returns, arguments) in enumerate(ops["slots"]):
            yield equal(f"offsetof(struct {table}, {slot})", first + 8 * index)
            yield same_type(f"((struct {table} *)NULL)->{slot}", prototype(returns, arguments))
    for functions in FACTS["functions"].values():
        for name, (returns, arguments, _) in functions.items():
            yield same_type(f"&{name}", prototype(returns, arguments))
    for table, stubs in FACTS["stubs"].items():
        for stub, slot in stubs:
            yield same_type(f"&{stub}", f"((struct {table} *)NULL)->{slot}")
    old = FACTS["old_stubs"]
    for stub in old["names"]:
        yield same_type(f"&{stub}", prototype(old["returns"], old["arguments"]))


def assigned_calls() -> Iterator[str]:
    """Every inline assigned to a pointer of its type, every stub to its slot.

    Taking their addresses also makes the compiler generate code for each of them.
    """
    for functions in FACTS["functions"].values():
        for name, (returns, arguments, through) in functions.items():
            if through != "kfabric.ko":
                yield f"{returns} (*const use_{name})({arguments}) = {name};"
    for table, stubs in FACTS["stubs"].items():
        slots = " ".join(f".{slot} = {stub}," for stub, slot in stubs)
        yield f"const struct {table} use_{table} = {{ {slots} }};"
    for stub in FACTS["old_stubs"]["names"]:
        yield f"ssize_t (*const use_{stub})(struct kfid_ep *ep) = {stub};"


def probe(facts: Iterable[str]) -> str:
    """A translation unit that holds facts."""
    includes = [f"#include <{header}>" for header in HEADERS]
    return "\n".join(["#include <linux/bits.h>", "#include <linux/build_bug.h>", *includes, *facts])


def alone(header: str) -> str:
    """A translation unit that includes nothing but one header, twice."""
    return f"#include <{header}>\n#include <{header}>\n"


# --- The guest kernel's build ----------------------------------------------------------------


def guest_kernel_headers() -> Path | None:
    """The guest kernel's build directory: $KDIR, else the newest that is installed."""
    if named := os.environ.get("KDIR"):
        return Path(named)
    release = re.compile(r"6\.1\.0-(\d+)-")
    found = [path for path in Path("/usr/src").glob(GUEST_HEADERS) if release.search(path.name)]
    return max(found, key=lambda path: int(release.search(path.name)[1]), default=None)  # type: ignore[index]


@dataclass(frozen=True)
class Build:
    """What came of building the probes.

    Attributes:
        directory: where the sources and objects lie.
        log: what make and the compiler said.
    """

    directory: Path
    log: str = field(repr=False)

    def compiled(self, name: str) -> bool:
        """Whether a probe has an object, that is: compiled without a warning."""
        return (self.directory / f"{name}.o").exists()

    def said(self, name: str) -> str:
        """The first of the compiler's lines about a probe."""
        about = re.compile(
            rf"\b{name}\.[co]\b.*(error|warning|note|from)|/include/.*(error|warning)"
        )
        return "\n".join([line for line in self.log.splitlines() if about.search(line)][:40])


def probe_name(header: str) -> str:
    """Name of the probe that includes a header alone."""
    return "alone_" + header.removesuffix(".h").replace("/", "_")


def probes() -> dict[str, str]:
    """All translation units by name."""
    lines = {
        "values": probe(value_facts()),
        "structs": probe(struct_facts()),
        "calls": probe(call_facts()),
        "assigned": probe(assigned_calls()),
        "consumer": (DATA / "kfabric_1_7_consumer.c").read_text(),
        "wrong_value": probe([equal("KFI_GETWAITOBJ", 14)]),
        "wrong_type": probe([same_type("&kfi_close", "int (*)(const struct kfid *)")]),
        "wrong_slot": probe(["struct kfi_ops_mr use = { .regv = kfi_no_mr_regbv };"]),
    }
    return lines | {probe_name(header): alone(header) for header in HEADERS}


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """All probes, compiled once against the guest kernel's headers."""
    kdir = guest_kernel_headers()
    if kdir is None or not kdir.is_dir():
        pytest.skip(f"no guest kernel headers: {kdir or '/usr/src/' + GUEST_HEADERS} is missing")
    directory = tmp_path_factory.mktemp("headers")
    units = probes()
    for name, text in units.items():
        (directory / f"{name}.c").write_text(text)
    objects = [f"{name}.o" for name in units]
    (directory / "Kbuild").write_text(
        f"ccflags-y := -I{INCLUDE} -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare "
        f"-Wno-missing-field-initializers\nobj-m := {' '.join(objects)}\n"
    )
    made = subprocess.run(
        ["make", "-k", "-C", kdir, f"M={directory}", "W=1", "KCFLAGS=-Werror", *objects],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    return Build(directory, made.stdout)


@pytest.mark.parametrize("header", HEADERS)
def test_header_compiles_first_and_alone(build: Build, header: str) -> None:
    """A consumer may include any header first; a second inclusion is harmless."""
    assert build.compiled(probe_name(header)), build.said(probe_name(header))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("values", id="macros-flags-errnos-enums"),
        pytest.param("structs", id="structs-members-typedefs"),
        pytest.param("calls", id="slots-functions-stubs"),
        pytest.param("assigned", id="assigned-to-pointers"),
    ],
)
def test_facts_hold(build: Build, name: str) -> None:
    """Values, sizes, offsets, types and slot orders are those of kfabric 1.7."""
    assert build.compiled(name), build.said(name)


def test_consumer_of_kfabric_1_7_compiles(build: Build) -> None:
    """A ULP and a provider as they are written for kfabric 1.7 compile unmodified."""
    assert build.compiled("consumer"), build.said("consumer")


@pytest.mark.parametrize("name", ["wrong_value", "wrong_type", "wrong_slot"])
def test_probe_notices_what_is_wrong(build: Build, name: str) -> None:
    """The probes above are able to fail."""
    assert not build.compiled(name)
    assert f"{name}.c" in build.log


# --- Names -----------------------------------------------------------------------------------


def code(header: str) -> str:
    """A header without its comments."""
    return re.sub(r"/\*.*?\*/", "", (INCLUDE / header).read_text(), flags=re.DOTALL)


def macros_of(header: str) -> set[str]:
    """Public macros, with parentheses if they take arguments; private ones begin with _."""
    found = re.findall(r"^#define\s+(?!_)(\w+)(\()?", code(header), flags=re.MULTILINE)
    return {name + ("()" if opened else "") for name, opened in found}


def enumerators_of(header: str) -> list[list[str]]:
    """The enumerators of each enum, in their order."""
    bodies = re.findall(r"\benum\s*\w*\s*\{(.*?)\}", code(header), flags=re.DOTALL)
    return [re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", body.strip()) for body in bodies]


def functions_of(header: str) -> set[str]:
    """Functions that a header declares or defines."""
    plain = re.findall(r"^(?:[a-z][\w *]*?)?\b(kfi_\w+)\(", code(header), flags=re.MULTILINE)
    stubs = re.findall(r"^_KFI_STUB\(\w+, (kfi_\w+),", code(header), flags=re.MULTILINE)
    return {*plain, *stubs}


def structs_of(header: str) -> set[str]:
    """Structs that a header defines."""
    return set(re.findall(r"^struct (\w+) \{", code(header), flags=re.MULTILINE))


def test_set_of_headers() -> None:
    """Exactly the headers of kfabric 1.7, flat, beside those of the framework's own."""
    found = {path.name for path in INCLUDE.glob("*.h")} - OURS
    found |= {f"direct/{path.name}" for path in (INCLUDE / "direct").glob("*.h")}
    assert found == set(HEADERS)


@pytest.mark.parametrize("header", HEADERS)
def test_header_defines_its_names_and_no_others(header: str) -> None:
    """Structs and functions are in the header where they belong, and nothing is beside them."""
    expected = set(FACTS["functions"].get(header, {}))
    if header == "kfi_enosys.h":
        expected = {stub for stubs in FACTS["stubs"].values() for stub, _ in stubs}
        expected |= set(FACTS["old_stubs"]["names"])
    ours = FACTS["additions"]["headers"].get(header, {})
    assert functions_of(header) == expected | set(ours.get("functions", []))
    assert structs_of(header) == set(ours.get("structs", [])) | {
        name
        for kind in ("structs", "ops")
        for name, fact in FACTS[kind].items()
        if fact["header"] == header
    }
    if header != "kfabric.h":
        others = set(FACTS["other_macros"].get(header, [])) | set(ours.get("macros", []))
        assert macros_of(header) - set(FACTS["macros"]) == others


def test_base_header_defines_its_macros_and_no_others() -> None:
    """Flags and constants of all headers are in kfabric.h."""
    expected = set(FACTS["macros"]) - {"KFI_ERRNO_OFFSET"}
    expected |= set(FACTS["flag_bits"]) | set(FACTS["small_flags"])
    expected |= set(FACTS["all_ones"]["names"]) | set(FACTS["other_macros"]["kfabric.h"])
    assert macros_of("kfabric.h") == expected


def test_enums_have_their_members_and_no_others() -> None:
    """Each enum is in its header with its enumerators in order, ours last."""
    for header in HEADERS:
        expected = [
            list(values) for name, values in enums() if FACTS["enums"][name]["header"] == header
        ]
        if header == "kfi_errno.h":
            expected = [list(FACTS["errnos"])]
        assert sorted(enumerators_of(header)) == sorted(expected), header


# --- What the inlines do ---------------------------------------------------------------------

SHIM = """
#pragma once
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#define BIT_ULL(bit) (1ULL << (bit))
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
typedef struct { int counter; } atomic_t;
static inline void atomic_set(atomic_t *v, int i) { v->counter = i; }
static inline void atomic_inc(atomic_t *v) { v->counter++; }
static inline bool atomic_dec_and_test(atomic_t *v) { return --v->counter == 0; }
struct completion { unsigned int done; };
static inline void init_completion(struct completion *c) { c->done = 0; }
static inline void complete(struct completion *c) { c->done++; }
void wait_for_completion(struct completion *c);
struct kvec; struct bio_vec; struct scatterlist;
"""
SHIMMED = [
    *("atomic", "bits", "bvec", "completion", "kernel"),
    *("scatterlist", "stddef", "types", "uio"),
]


def owner_and_table(arguments: str, through: str) -> tuple[str, str, str]:
    """The object that an inline jumps through, its member for the table, and the table's type."""
    path, _, _ = through.rpartition("->")
    variable, _, member = path.partition("->")
    types = {name: type_ for type_, name in split_arguments(arguments)}
    # kfi_cancel() and its like find the endpoint around their fid.
    owner = types.get(variable, "struct kfid_ep *").removeprefix("struct ").removesuffix(" *")
    if member == "fid.ops":
        return owner, member, "kfi_ops"
    table = next(type_ for _, type_, name in FACTS["structs"][owner]["members"] if name == member)
    return owner, member, table.removeprefix("struct ").removesuffix(" *")


def forward_test(name: str, returns: str, arguments: str, through: str) -> str:
    """C that calls one inline and compares what reached the slot with what went in."""
    owner, member, table = owner_and_table(arguments, through)
    slot = through.rpartition("->")[2]
    taken = next(facts for facts in FACTS["ops"][table]["slots"] if facts[0] == slot)[2]
    given = [type_ for type_, _ in split_arguments(arguments)]
    first = "&owner" if given[0] == f"struct {owner} *" else "&owner.fid"
    passed = [first, *(f"({given[i]})(uintptr_t){17 * i}" for i in range(1, len(given)))]
    seen = "".join(f"\tsee((uintptr_t){arg});\n" for _, arg in split_arguments(taken))
    return (
        f"static {returns} slot_{name}({taken})\n{{\n{seen}\treturn ({returns})0x5a;\n}}\n"
        f"static void forward_{name}(void)\n{{\n\tstruct {owner} owner = {{}};\n"
        f"\tstruct {table} table = {{ .size = sizeof(table), .{slot} = slot_{name} }};\n"
        f"\towner.{member} = &table;\n\tforget();\n"
        f'\texpect("{name}: result", (uintptr_t){name}({", ".join(passed)}) == 0x5a);\n'
        f'\texpect("{name}: arguments", seen_in_order({len(given)}, (uintptr_t)&owner));\n}}\n'
    )


def forward_tests() -> str:
    """C for all inlines that only jump through a slot."""
    calls = [
        (name, *fact)
        for functions in FACTS["functions"].values()
        for name, fact in functions.items()
        if "->" in fact[2]
    ]
    tests = "".join(forward_test(*call) for call in calls)
    run = "".join(f"\tforward_{call[0]}();\n" for call in calls)
    return f"{tests}static int forward_all(void)\n{{\n{run}\treturn {len(calls)};\n}}\n"


def test_inlines_do_what_they_say(tmp_path: Path) -> None:
    """Each inline reaches its slot with its arguments in order and returns what the slot did."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc on this host")
    (tmp_path / "linux").mkdir()
    (tmp_path / "shim.h").write_text(SHIM)
    for name in SHIMMED:
        (tmp_path / "linux" / f"{name}.h").write_text("#include <shim.h>\n")
    (tmp_path / "forward.h").write_text(forward_tests())
    program = tmp_path / "inlines"
    source = DATA / "kfabric_1_7_inlines.c"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    subprocess.run(
        ["gcc", *flags, f"-I{tmp_path}", f"-I{INCLUDE}", "-o", program, source],
        check=True,
        timeout=BUILD_SECONDS,
    )
    ran = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert int(ran.stdout) == sum(
        "->" in fact[2] for functions in FACTS["functions"].values() for fact in functions.values()
    )
