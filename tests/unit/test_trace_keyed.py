# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The queues of bits, variables and folios: their addresses and their names."""

from __future__ import annotations

import pytest

from kfabric.trace.keyed import Key, futex_name, key_name, process_of_futex

WORD = 0xFFFFFFFFC0104008
FOLIO = 0xFFFFEA0004A7D3C0
FIVE_LEVELS = 0xFF11000123456780
SLEEPER = ("prepare_to_wait+0x5", "out_of_line_wait_on_bit+0x90", "nfs_wait_on_request+0x24 [nfs]")
READER = ("folio_wait_bit+0x5", "folio_wait_locked+0x17", "filemap_read+0x3e0")
WAKER = ("__wake_up_common+0x5", "__wake_up_bit+0x75", "wake_up_bit+0x3c", "nfs_page_end+0x9 [nfs]")


def address_of_key(word: int, bit: int) -> int:
    """As in keyed.bpf.c."""
    return (word << 7 | bit & 0x7F) & (1 << 63) - 1


@pytest.mark.parametrize("word", [WORD, FOLIO, FIVE_LEVELS])
@pytest.mark.parametrize("bit", [0, 63, 127])
def test_key_is_read_from_the_address_of_its_queue(word: int, bit: int) -> None:
    """For every kernel address, also with page tables of five levels."""
    assert Key.of(address_of_key(word, bit)) == Key(word, bit)


def test_key_of_a_variable_has_no_bit() -> None:
    """The kernel's number for it is -1."""
    assert Key.of(address_of_key(WORD, -1)).is_variable
    assert not Key.of(address_of_key(WORD, 63)).is_variable


def test_keys_are_named_by_the_best_that_is_known() -> None:
    """Symbol, else sleeper, else waker."""
    key, variable = Key(WORD, 3), Key(WORD, 127)
    assert key_name(key, "busy_word [nfs]", SLEEPER, WAKER) == "bit 3 of busy_word [nfs]"
    assert key_name(variable, "users [nfs]", SLEEPER) == "users [nfs] (variable)"
    assert key_name(key, "", SLEEPER, WAKER) == "bit 3, waited for in nfs_wait_on_request [nfs]"
    assert key_name(key, "", (), WAKER) == "bit 3, woken in nfs_page_end [nfs]"
    assert key_name(variable, "") == "unknown variable"


def test_lock_of_a_folio_is_named_and_its_other_bits_are_numbered() -> None:
    """The lock is bit 0 in all kernels; the numbers of the others differ."""
    assert key_name(Key(FOLIO, 0), "", READER, folio=True) == (
        "folio lock, waited for in filemap_read"
    )
    assert key_name(Key(FOLIO, 15), "", READER, folio=True) == (
        "folio bit 15, waited for in filemap_read"
    )


def test_process_of_a_futex_is_read_from_the_address_of_its_queue() -> None:
    """Also the highest one that Linux allows."""
    for process in (1, 4_194_303):
        assert process_of_futex((0x7F00_1234_5678 >> 2 & (1 << 40) - 1) << 22 | process) == process


def test_futex_is_named_by_its_address_and_its_process() -> None:
    """The name of the process is known at the end of a trace."""
    assert futex_name(0x7F0012345678, 42, "worker") == "futex 0x7f0012345678 of worker/42"
    assert futex_name(0x7F0012345678, 42) == "futex 0x7f0012345678 of 42"
