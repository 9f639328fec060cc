# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Frames survive any split of the stream, and an invalid stream is detected."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfabric.vm.wire import MAX_PAYLOAD, Decoder, Frame, Kind, encode, pack

frames = st.builds(Frame, st.sampled_from(Kind), st.integers(0, 2**32 - 1), st.binary(max_size=300))


@settings(deadline=None)  # a busy host is no fault
@given(st.lists(frames, max_size=8), st.integers(1, 40))
def test_frames_come_out_as_they_went_in(sent: list[Frame], step: int) -> None:
    stream = b"".join(map(encode, sent))
    decoder = Decoder()
    pieces = (stream[i : i + step] for i in range(0, len(stream), step))
    assert [frame for piece in pieces for frame in decoder.feed(piece)] == sent


def test_json_frames_carry_their_fields() -> None:
    (frame,) = Decoder().feed(pack(Kind.EXIT, 7, status=-9))
    assert (frame.kind, frame.job, frame.json()) == (Kind.EXIT, 7, {"status": -9})


def test_too_long_a_payload_is_refused_by_the_sender() -> None:
    with pytest.raises(ValueError, match="payload"):
        encode(Frame(Kind.STDIN, 1, bytes(MAX_PAYLOAD + 1)))


@pytest.mark.parametrize("noise", [b"[    1.0] printk: hello\n", bytes([99, *bytes(8)])])
def test_a_stream_that_is_not_ours_is_refused(noise: bytes) -> None:
    with pytest.raises(ValueError):
        list(Decoder().feed(noise))
