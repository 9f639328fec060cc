# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Writes the generated files of vm/kernels/rv, which add the automata to a kernel.

    python -m kfabric.rv.files

`tree/` mirrors the kernel's source. A monitor's NAME.dot is its automaton, NAME.h the same in the
layout of the kernel's dot2k, NAME_probes.h the prototypes of its probes. Three files are written by
hand: NAME.c makes events of the tracepoints, kfi_probes.h attaches to the module, and hook.patch
lets the kernel build the monitors.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from kfabric.root import ROOT
from kfabric.rv.automaton import Automaton
from kfabric.rv.catalogue import ALL

DIRECTORY = Path("vm/kernels/rv")
# The older name of this module: with another text in the files, the kernels would be built anew.
COMMAND = "python -m harness.rv.files"
TRACEPOINTS = ROOT / "kmod/include/trace/events/kfabric.h"

_SPDX = "SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause"
_MODELS = "tree/tools/verification/models"
_MONITORS = "tree/kernel/trace/rv/monitors"
_INVALID = "INVALID_STATE"
_PROTO = re.compile(r"(?:TRACE_EVENT|DEFINE_EVENT)\((\w+),(?:\s*(\w+),)?\s*TP_PROTO\(([^)]+)\)")
_WIDTH = 80


def files() -> dict[Path, str]:
    """The text of each generated file, by its path in the checkout."""
    found: dict[Path, str] = {}
    for automaton in ALL:
        name = automaton.name
        found[DIRECTORY / _MODELS / f"{name}.dot"] = dot(automaton)
        found[DIRECTORY / _MONITORS / name / f"{name}.h"] = header(automaton)
        found[DIRECTORY / _MONITORS / name / f"{name}_probes.h"] = probes(automaton)
    return found


def dot(automaton: Automaton) -> str:
    """The automaton as a graph, in the form that the kernel's tools read."""
    start = f'"__init_{automaton.initial}"'
    lines = [
        "digraph state_automaton {",
        f"\t// {_SPDX}",
        f"\t// Written by {COMMAND}.",
        f"\t// Rules {', '.join(automaton.rules)} of docs/contract.md: {automaton.text}.",
        f'\t{{node [shape = plaintext, style=invis, label=""] {start}}};',
        f'\t{{node [shape = ellipse] "{automaton.initial}"}};',
        *(f'\t{{node [shape = plaintext] "{state}"}};' for state in automaton.states),
        f'\t{start} -> "{automaton.initial}";',
    ]
    for state in automaton.states:
        colour = ", color = green3" if state == automaton.initial else ""
        lines.append(f'\t"{state}" [label = "{state}"{colour}];')
        lines += [
            f'\t"{state}" -> "{arrow.target}" [ label = "{arrow.event}" ];'
            for arrow in automaton.arrows
            if arrow.source == state
        ]
    end = ["\t{ rank = min ;", f"\t\t{start};", f'\t\t"{automaton.initial}";', "\t}", "}"]
    return "\n".join([*lines, *end, ""])


def header(automaton: Automaton) -> str:
    """The automaton in C, in the layout of dot2k."""
    name, states, events = automaton.name, automaton.states, automaton.events
    finals = ", ".join("1" if state == automaton.initial else "0" for state in states)
    return "\n".join(
        [
            f"/* {_SPDX} */",
            "/*",
            f" * Automatically generated C representation of {name} automaton",
            " * For further information about this format, see kernel documentation:",
            " *   Documentation/trace/rv/deterministic_automata.rst",
            " */",
            "",
            *_enumeration("state", states, name),
            f"#define {_INVALID} state_max_{name}",
            "",
            *_enumeration("event", events, name),
            f"struct automaton_{name} {{",
            f"\tchar *state_names[state_max_{name}];",
            f"\tchar *event_names[event_max_{name}];",
            f"\tunsigned char function[state_max_{name}][event_max_{name}];",
            "\tunsigned char initial_state;",
            f"\tbool final_states[state_max_{name}];",
            "};",
            "",
            f"static struct automaton_{name} automaton_{name} = {{",
            *_names("state", states),
            *_names("event", events),
            "\t.function = {",
            *_rows(automaton),
            "\t},",
            f"\t.initial_state = {automaton.initial}_{name},",
            f"\t.final_states = {{ {finals} }},",
            "};",
            "",
        ]
    )


def _enumeration(kind: str, words: list[str], name: str) -> list[str]:
    first, *rest = words
    middle = [f"\t{word}_{name}," for word in rest]
    head = [f"enum {kind}s_{name} {{", f"\t{first}_{name} = 0,"]
    return [*head, *middle, f"\t{kind}_max_{name}", "};", ""]


def _names(kind: str, words: list[str]) -> list[str]:
    quoted = ",\n".join(f'\t\t"{word}"' for word in words)
    return [f"\t.{kind}_names = {{", quoted, "\t},"]


def _rows(automaton: Automaton) -> Iterator[str]:
    suffix = f"_{automaton.name}"
    width = max(len(word) for word in (_INVALID, *automaton.states)) + len(suffix)
    for state in automaton.states:
        targets = [automaton.function.get((state, event)) for event in automaton.events]
        cells = (target + suffix if target else _INVALID for target in targets)
        yield f"\t\t{{ {', '.join(cell.rjust(width) for cell in cells)} }},"


def probes(automaton: Automaton) -> str:
    """Prototypes of the probes, by which the compiler checks them, and their table."""
    known = prototypes(TRACEPOINTS.read_text())
    lines = [
        f"/* {_SPDX} */",
        f"/* Written by {COMMAND} from kfabric's tracepoints. */",
        "",
    ]
    for probe in automaton.probes:
        lines += _prototype(f"static void handle_{probe}(", ["void *data", *known[probe]])
    table = (f'\t{{ "{probe}", handle_{probe} }},' for probe in automaton.probes)
    lines += ["", f"static const struct kfi_probe {automaton.name}_probes[] = {{", *table, "};"]
    return "\n".join([*lines, ""])


def prototypes(text: str) -> dict[str, list[str]]:
    """The arguments of each tracepoint of a header."""
    found: dict[str, list[str]] = {}
    for first, second, arguments in _PROTO.findall(text):
        found[second or first] = [" ".join(one.split()) for one in arguments.split(",")]
    return found


def _prototype(head: str, arguments: list[str]) -> Iterator[str]:
    """A function's declaration in lines of the kernel's width."""
    line = head
    indent = "\t" * (len(head) // 8) + " " * (len(head) % 8)
    for number, argument in enumerate(arguments, 1):
        word = argument + (");" if number == len(arguments) else ",")
        room = _WIDTH - len(line.expandtabs()) - (line not in (head, indent))
        if len(word) > room:
            yield line
            line = indent
        line += word if line in (head, indent) else f" {word}"
    yield line


def main() -> None:
    """Write the files."""
    for path, text in files().items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main()
