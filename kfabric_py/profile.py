# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Profiles: statistics and events of an object.

::

    with ep.profile() as profile:
        print(profile["unexp_msg_cnt"])
        for name, value in profile.snapshot().items():
            print(name, value)
        profile.keep("unexp_msg_recvd")
        for event in profile.events():
            ...

The values belong to the object: every profile of it shows the same ones. Latencies are
measured while any profile is open in the machine; other times are in ticks until then.
"""

from __future__ import annotations

import ctypes
import errno
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kfabric_py import _uapi
from kfabric_py._call import deadline_after, u32
from kfabric_py._waitable import Waitable
from kfabric_py.enums import CqFlags
from kfabric_py.errors import Again, TooSmall, error_for
from kfabric_py.handle import KernelObject

_MESSAGE = (_uapi.KFAB_DEFINED_TYPE, _uapi.KFAB_TYPE_CQ_ERR_ENTRY)
_NUMBER = ctypes.sizeof(ctypes.c_uint64)
# Entries of a list in the first read.
_ROOM = 16


@dataclass(frozen=True, slots=True)
class Message:
    """A message that arrived before a receive was posted for it.

    Attributes:
        flags: kind of the message.
        len: number of bytes.
        data: remote CQ data, if ``flags`` has ``REMOTE_CQ_DATA``.
        tag: tag of a tagged message.
    """

    flags: CqFlags
    len: int
    data: int
    tag: int


#: Value of a variable: a number, a histogram, or a list of messages.
Value = int | tuple[int, ...] | tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """Description of a variable or an event of a profile.

    Attributes:
        name: its name.
        description: its meaning, in words.
        id: its number; the same name has the same number in every profile.
        size: bytes of the value, or of one entry of a list.
        is_list: whether it is a list, with any number of entries.
        resets: whether :meth:`Profile.reset` sets it to 0.
    """

    name: str
    description: str
    id: int
    size: int
    is_list: bool
    resets: bool
    _type: tuple[int, int]


@dataclass(frozen=True, slots=True)
class ProfileEvent:
    """One event of an object.

    Attributes:
        name: of the event.
        seq: its number among the kept events, from 1; a gap is a dropped event.
        data: its data.
    """

    name: str
    seq: int
    data: Message | int | None


class Profile(Waitable):
    """An open profile.

    It behaves like a mapping of variables' names to values, each read at its access.
    Its descriptors are readable while an event is kept; a profile without events has
    none (EINVAL).

    Attributes:
        variables: the variables, by name.
        kinds: the events that can be kept, by name.
    """

    def __init__(self, target: KernelObject, context: object = None) -> None:
        """Use the ``profile`` method of the object."""
        arg = _uapi.kfab_profile_open(handle=target._live_handle())
        super().__init__(target, target._client, _uapi.KFAB_IOC_PROFILE_OPEN, arg, context)
        self._reading = threading.Lock()
        self._dropped = 0
        self.variables = self._query(_uapi.KFAB_PROFILE_VARS)
        self.kinds = self._query(_uapi.KFAB_PROFILE_EVENTS)
        self._names = {kind.id: kind.name for kind in self.kinds.values()}

    def _query(self, what: int) -> Mapping[str, Variable]:
        arg = _uapi.kfab_profile_query(profile=self._live_handle(), what=what)
        self._client(_uapi.KFAB_IOC_PROFILE_QUERY, arg)
        descs = (_uapi.kfab_profile_desc * arg.count)()
        arg.descs = ctypes.addressof(descs)
        arg.desc_size = ctypes.sizeof(_uapi.kfab_profile_desc)
        count = self._client(_uapi.KFAB_IOC_PROFILE_QUERY, arg)
        found = map(_variable, descs[:count])
        return MappingProxyType({variable.name: variable for variable in found})

    def __iter__(self) -> Iterator[str]:
        """Yield the variables' names."""
        return iter(self.variables)

    def __len__(self) -> int:
        """Return the number of variables."""
        return len(self.variables)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a variable of this name."""
        return name in self.variables

    def __getitem__(self, name: str) -> Value:
        """Return the value of a variable, now.

        Raises:
            KeyError: there is none of this name.
        """
        variable = self.variables[name]
        if variable.is_list:
            return self._entries(variable)
        room = ctypes.create_string_buffer(variable.size)
        self._read(variable, room)
        return _value(variable, room.raw)

    def _read(self, variable: Variable, room: ctypes.Array[ctypes.c_char]) -> int:
        """Read into a buffer; return the bytes written."""
        arg = _uapi.kfab_profile_read(
            profile=self._live_handle(),
            id=variable.id,
            buf=ctypes.addressof(room),
            buf_size=len(room),
        )
        try:
            self._client(_uapi.KFAB_IOC_PROFILE_READ, arg)
        except TooSmall:
            if not variable.is_list:
                raise
            return max(arg.buf_size, len(room) + 1)
        return arg.buf_size

    def _entries(self, variable: Variable) -> Value:
        """Read a list, which may grow meanwhile."""
        size = _ROOM * variable.size
        while True:
            room = ctypes.create_string_buffer(size)
            size = self._read(variable, room)
            if size <= len(room):
                return _value(variable, room.raw[:size])
            size += _ROOM * variable.size

    def number(self, name: str) -> int:
        """Return the value of a variable that is one number.

        Raises:
            KeyError: there is none of this name.
            TypeError: its value is not one number.
        """
        value = self[name]
        if not isinstance(value, int):
            raise TypeError(f"{name} is not one number")
        return value

    def snapshot(self) -> dict[str, Value]:
        """Return all values, of one instant.

        Of a domain, whose values are sums over its objects, each object's part is
        of one instant.

        Raises:
            Busy: another process that shares the handle is taking a snapshot.
        """
        with self._reading:
            self._control(_uapi.KFAB_PROFILE_START_READS)
            try:
                return {name: self[name] for name in self.variables}
            finally:
                self._control(_uapi.KFAB_PROFILE_END_READS)

    def reset(self) -> None:
        """Make the object count from 0, for every profile of it.

        A domain's values are sums, so its queues, counters and endpoints count from 0.
        """
        self._control(_uapi.KFAB_PROFILE_RESET)

    def _control(self, command: int, event: int = 0) -> None:
        arg = _uapi.kfab_profile_control(profile=self._live_handle(), command=command, id=event)
        self._client(_uapi.KFAB_IOC_PROFILE_CONTROL, arg)

    def keep(self, *names: str) -> None:
        """Keep events of these names, or all events, until they are read.

        Raises:
            KeyError: there is no such event.
        """
        for name in names or self.kinds:
            self._control(_uapi.KFAB_PROFILE_KEEP, self.kinds[name].id)

    def discard(self, *names: str) -> None:
        """Stop keeping events of these names, or all events. Events already kept stay.

        Raises:
            KeyError: there is no such event.
        """
        for name in names or self.kinds:
            self._control(_uapi.KFAB_PROFILE_DISCARD, self.kinds[name].id)

    def read(self, count: int = 16, timeout: float | None = 0) -> list[ProfileEvent]:
        """Read events that were kept, oldest first.

        Args:
            count: most events to read, 1 or more.
            timeout: seconds to wait for the first; 0: do not wait, ``None``: no limit.

        Returns:
            The events; an empty list if the time is up.
        """
        events = (_uapi.kfab_profile_event * u32(count, "count"))()
        arg = _uapi.kfab_profile_events(
            profile=self._live_handle(),
            count=count,
            events=ctypes.addressof(events),
            deadline=deadline_after(timeout),
        )
        try:
            got = self._client(_uapi.KFAB_IOC_PROFILE_EVENTS, arg)
        except Again:
            return []
        self._dropped = max(self._dropped, arg.out_dropped)
        return [self._event(event) for event in events[:got]]

    def _event(self, raw: _uapi.kfab_profile_event) -> ProfileEvent:
        data: Message | int | None = None
        if (raw.datatype_sel, raw.datatype) == _MESSAGE and raw.data_size:
            data = _message(raw.data.msg)
        elif raw.data_size:
            data = raw.data.value
        return ProfileEvent(name=self._names[raw.id], seq=raw.seq, data=data)

    def events(self, timeout: float | None = None) -> Iterator[ProfileEvent]:
        """Yield events as they arrive, until none arrives for ``timeout`` seconds.

        Each is read when it is asked for: a loop that ends early leaves the others.
        """
        while found := self.read(1, timeout=timeout):
            yield found[0]

    @property
    def dropped(self) -> int:
        """Number of dropped events, as of the last read that returned any."""
        return self._dropped


class Profiled(KernelObject):
    """An object that has profiles."""

    def profile(self, *, context: object = None) -> Profile:
        """Open a profile of the object, which is closed before the object.

        Args:
            context: as for the other objects.
        """
        return Profile(self, context)


def _text(raw: ctypes.Array[ctypes.c_uint8]) -> str:
    return bytes(raw).partition(b"\0")[0].decode(errors="replace")


def _variable(raw: _uapi.kfab_profile_desc) -> Variable:
    return Variable(
        name=_text(raw.name),
        description=_text(raw.desc),
        id=raw.id,
        size=raw.var_size,
        is_list=bool(raw.var_flags & _uapi.KFAB_PROFILE_LIST),
        resets=bool(raw.var_flags & _uapi.KFAB_PROFILE_RESETS),
        _type=(raw.datatype_sel, raw.datatype),
    )


def _message(raw: _uapi.kfab_profile_msg) -> Message:
    return Message(flags=CqFlags(raw.msg_flags), len=raw.len, data=raw.data, tag=raw.tag)


def _value(variable: Variable, raw: bytes) -> Value:
    """Convert the bytes of a value to the variable's type."""
    if variable._type == _MESSAGE:
        kind = _uapi.kfab_profile_msg * (len(raw) // ctypes.sizeof(_uapi.kfab_profile_msg))
        return tuple(_message(one) for one in kind.from_buffer_copy(raw))
    if variable._type != (_uapi.KFAB_PRIMITIVE_TYPE, _uapi.KFAB_UINT64) or len(raw) % _NUMBER:
        raise error_for(errno.EOPNOTSUPP, f"type of {variable.name}")
    numbers = tuple((ctypes.c_uint64 * (len(raw) // _NUMBER)).from_buffer_copy(raw))
    return numbers[0] if variable.size == _NUMBER and not variable.is_list else numbers
