# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The exceptions of kfabric_py: numbers, names and what they are instances of."""

from __future__ import annotations

import errno
import os
import pickle
import re
from pathlib import Path

import pytest

from kfabric_py import errors

HEADER = Path(__file__).resolve().parents[2] / "kmod" / "include" / "kfi_errno.h"


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EAGAIN, errors.Again),
        (errno.EAGAIN, BlockingIOError),
        (errno.ETIMEDOUT, errors.KfiTimeout),
        (errno.ETIMEDOUT, TimeoutError),
        (errno.EBUSY, errors.Busy),
        (errno.ENODEV, errors.DeviceLost),
        (errno.ENODATA, errors.NoMatch),
        (errno.ENOSYS, errors.NotSupported),
        (errno.EOPNOTSUPP, errors.NotSupported),
        (errno.ECONNREFUSED, ConnectionRefusedError),
        (errno.EFAULT, errors.KfiError),
        (errno.ENOENT, FileNotFoundError),
        (errno.EACCES, PermissionError),
        (errno.ERANGE, errors.TooSmall),
        (errno.EBADFD, errors.BadState),
        (errno.EBADMSG, errors.ErrorAvailable),
        (errno.EOVERFLOW, errors.Overrun),
        (errno.EBADRQC, errors.KfiError),
    ],
)
def test_error_number_chooses_the_class(number: int, kind: type[Exception]) -> None:
    error = errors.error_for(number, "CQ_READ")
    assert isinstance(error, kind)
    assert isinstance(error, errors.KfiError)
    assert isinstance(error, OSError)
    assert (error.errno, error.call) == (number, "CQ_READ")
    assert error.strerror is not None
    assert error.name in error.strerror
    assert error.strerror.startswith("CQ_READ: ")


def test_kfabric_errors_are_those_of_the_header() -> None:
    text = HEADER.read_text()
    for member in errors.KfabricErrno:
        assert re.search(rf"\b{member.name}\b", text), f"{member.name} is not in the header"


def test_every_kfabric_error_has_a_number_of_linux_to_itself() -> None:
    assert len(errors.KfabricErrno) == len(errors.KfabricErrno.__members__)
    for member in errors.KfabricErrno:
        assert member.value in errno.errorcode
        assert "Unknown" not in os.strerror(member.value)


def test_every_kfabric_number_has_a_text() -> None:
    for member in errors.KfabricErrno:
        assert "errno" not in errors.error_text(member)
        assert errors.error_name(member) == member.name


def test_linux_numbers_have_linux_names() -> None:
    assert errors.error_name(errno.EBUSY) == "EBUSY"
    assert errors.error_name(9999) == "errno 9999"


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(errors.error_for(errors.KfabricErrno.KFI_EAVAIL, "CQ_READ")))
    assert isinstance(error, errors.ErrorAvailable)
    assert (error.errno, error.call) == (errors.KfabricErrno.KFI_EAVAIL, "CQ_READ")
