# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The steps that open whole stacks of objects, so that the random calls after them reach deep.

Without them most calls would fail at a handle that was never opened. A generated program
begins with one or two preambles, in which a step may be changed or left out.
"""

from typing import Final

from kfabric.fuzz.program import Program


def _opened(info: str) -> str:
    """The steps that open the fabric and the domain of an offer."""
    return f"f = FABRIC_OPEN info=@info:{info}\nd = DOMAIN_OPEN fabric=%f info=@info:{info}"


def _enabled(name: str, step: str, *to: str) -> str:
    """The steps that open an object, bind it to others (perhaps with flags), and enable it."""
    binds = [f"BIND handle=%{name} to=%{one.replace(' ', ' bind_flags=')}" for one in to]
    return "\n".join([f"{name} = {step}", *binds, f"CONTROL handle=%{name} command=6"])


_MR = "MR_REG domain=%d iov_count=1 iov=@iov:%b/0/0/8192 access=0x3f00"

_MOCK = f"""
{_opened("mock")}
ws = WAIT_OPEN fabric=%f wait_obj=3
eq = EQ_OPEN fabric=%f wait_obj=2 wait_set=%ws context=1
cq = CQ_OPEN domain=%d entries=16 wait_obj=2 wait_set=%ws context=2
cn = CNTR_OPEN domain=%d wait_obj=2 wait_set=%ws context=3
b = BUF_ALLOC length=8192
mr = {_MR}
{_enabled("ep", "EP_OPEN domain=%d info=@info:mock context=4", "cq 0xc00", "cn 0xc00", "eq")}
po = POLL_OPEN domain=%d
POLL_ADD poll=%po handle=%cq
POLL_ADD poll=%po handle=%cn
cq2 = CQ_OPEN domain=%d entries=4 wait_obj=1 wait_cond=1
cn2 = CNTR_OPEN domain=%d wait_obj=1
{_enabled("ep2", "EP_OPEN domain=%d info=@info:mock", "cq2 0xc00", "cn2 0xc00", "eq")}
RECV ep=%ep iov_count=1 iov=@iov:%b/%mr/0/64 context=5
MOCK of=%ep how=inject,recv,2
"""

_CHANNEL = f"""
{_opened("mock")}
ch = CHANNEL_OPEN fabric=%f
cq = CQ_OPEN domain=%d entries=16 wait_obj=5 context=2
CHANNEL_BIND cq=%cq channel=%ch
REQ_NOTIFY flags=2 cq=%cq
eq = EQ_OPEN fabric=%f wait_obj=5
b = BUF_ALLOC length=4096
{_enabled("ep", "EP_OPEN domain=%d info=@info:mock", "cq 0xc00", "eq")}
cw = CONTROL handle=%ch command=5
qw = CONTROL handle=%cq command=5
MOCK of=%ep how=inject,recv,1
"""

_RING = f"""
{_opened("mock")}
ws = WAIT_OPEN fabric=%f wait_obj=3
cq = CQ_OPEN domain=%d entries=4 wait_obj=2 wait_set=%ws
rg = CQ_RING cq=%cq
rm = MMAP of=%rg length=4096 prot=3 flags=1
cq2 = CQ_OPEN domain=%d entries=4 wait_obj=1
{_enabled("ep", "EP_OPEN domain=%d info=@info:mock", "cq 0x400", "cq2 0x800")}
MOCK of=%ep how=inject,recv,3
TOUCH of=%rm at=64 value=2
WAIT wait=%ws
"""

_POLLFD = f"""
{_opened("manual")}
ws = WAIT_OPEN fabric=%f wait_obj=6
wx = WAIT_OPEN fabric=%f wait_obj=1
CONTROL handle=%wx command=1 value=0x1000000000000000
cq = CQ_OPEN domain=%d wait_obj=2 wait_set=%ws
cq2 = CQ_OPEN domain=%d wait_obj=2 wait_set=%wx
eq = EQ_OPEN fabric=%f wait_obj=2 wait_set=%ws
cn = CNTR_OPEN domain=%d wait_obj=2 wait_set=%wx
qw = CONTROL handle=%cq command=5
{_enabled("ep", "EP_OPEN domain=%d info=@info:manual", "cq 0x400", "cq2 0x800", "eq", "cn 0xc00")}
pr = PROFILE_OPEN handle=%cq
pe = PROFILE_OPEN handle=%ep
PROFILE_CONTROL profile=%pe command=3
MOCK of=%ep how=arrive,3
MOCK of=%ep how=inject,recv,1
"""

_ASKING = f"""
f = FABRIC_OPEN info=@info:msg
leq = EQ_OPEN fabric=%f wait_obj=1
pep = PEP_OPEN fabric=%f info=@info:msg
BIND handle=%pep to=%leq
LISTEN pep=%pep
n = GETNAME handle=%pep addr_len=128 addr=@out:128
d = DOMAIN_OPEN fabric=%f info=@info:msg
ws = WAIT_OPEN fabric=%f wait_obj=1
cq = CQ_OPEN domain=%d entries=64 wait_obj=2 wait_set=%ws
eq = EQ_OPEN fabric=%f wait_obj=1
b = BUF_ALLOC length=8192
mr = {_MR}
{_enabled("ep", "EP_OPEN domain=%d info=@info:msg", "cq 0xc00", "eq")}
CONNECT ep=%ep addr=@addr:n addr_len=16 param=@str:hello param_len=5
rq = EQ_SREAD eq=%leq deadline=+500ms cm_data=@out:256 data_len=256
"""

_REJECTED = f"""{_ASKING}
REJECT pep=%pep connreq=%rq.connreq param=@str:no param_len=2
EQ_SREAD eq=%eq deadline=+500ms cm_data=@out:256 data_len=256
EQ_READERR eq=%eq err_data=@out:256 err_data_size=256
"""

# Of an atomic operation: the local and the remote operand, and the place of the old value.
_WORD = "iov_count=1 iov=@iov:%b/%mr/0/8 rma_iov=@rma:%mr.iova/8/%mr.key rma_iov_count=1"
_OLD = "result_count=1 result=@iov:%b/%mr/8/8"

# The last request is left for the random calls.
_MSG = f"""{_ASKING}
{_enabled("ep2", "EP_OPEN domain=%d connreq=%rq.connreq", "cq 0xc00", "leq")}
RECV ep=%ep2 iov_count=1 iov=@iov:%b/%mr/0/4096
ACCEPT ep=%ep2
EQ_SREAD eq=%eq deadline=+500ms cm_data=@out:256 data_len=256
SEND ep=%ep iov_count=1 iov=@iov:%b/%mr/4096/64
ATOMIC_VALID ep=%ep datatype=7 op=2
ATOMIC ep=%ep datatype=7 op=2 {_WORD}
FETCH_ATOMIC ep=%ep datatype=7 op=2 {_WORD} {_OLD}
COMPARE_ATOMIC ep=%ep datatype=7 op=12 {_WORD} {_OLD} compare_count=1 compare=@iov:%b/%mr/16/8
{_enabled("ep3", "EP_OPEN domain=%d info=@info:msg", "cq 0xc00", "eq")}
CONNECT ep=%ep3 addr=@addr:n addr_len=16 param=@str:hello param_len=5
"""

_RDM = f"""
{_opened("rdm")}
ws = WAIT_OPEN fabric=%f wait_obj=1
cq = CQ_OPEN domain=%d entries=64 wait_obj=2 wait_set=%ws
eq = EQ_OPEN fabric=%f wait_obj=1
cn = CNTR_OPEN domain=%d wait_obj=2 wait_set=%ws
av = AV_OPEN domain=%d
b = BUF_ALLOC length=8192
{_enabled("ep", "EP_OPEN domain=%d info=@info:rdm", "cq 0xc00", "eq", "cn 0xc00", "av")}
{_enabled("mr", f"{_MR} requested_key=1", "ep")}
n = GETNAME handle=%ep addr_len=128 addr=@out:128
p = AV_INSERT av=%av count=1 addr_len=16 addrs=@addr:n out_addrs=@out:8
pr = PROFILE_OPEN handle=%ep
PROFILE_CONTROL profile=%pr command=3
RECV ep=%ep iov_count=1 iov=@iov:%b/0/0/4096 addr=0xffffffffffffffff
TRECV ep=%ep iov_count=1 iov=@iov:%b/0/4096/64 addr=0xffffffffffffffff tag=1
TSEND ep=%ep iov_count=1 iov=@iov:%b/0/0/64 addr=%p.addr tag=1
"""

_SEP = f"""
{_opened("sep")}
cq = CQ_OPEN domain=%d entries=64 wait_obj=1
av = AV_OPEN domain=%d rx_ctx_bits=1
b = BUF_ALLOC length=8192
{_enabled("sep", "SEP_OPEN domain=%d info=@info:sep", "av")}
tx = TX_CTX_OPEN sep=%sep
rx = RX_CTX_OPEN sep=%sep
BIND handle=%tx to=%cq bind_flags=0x800
BIND handle=%rx to=%cq bind_flags=0x400
CONTROL handle=%tx command=6
CONTROL handle=%rx command=6
n = GETNAME handle=%sep addr_len=128 addr=@out:128
p = AV_INSERT av=%av count=1 addr_len=16 addrs=@addr:n out_addrs=@out:8
RECV ep=%rx iov_count=1 iov=@iov:%b/0/0/4096 addr=0xffffffffffffffff
SEND ep=%tx iov_count=1 iov=@iov:%b/0/4096/64 addr=%p.addr
"""

#: By name: the weight with which it is drawn, and the steps.
PREAMBLES: Final[dict[str, tuple[int, Program]]] = {
    name: (weight, Program.parse(text))
    for name, weight, text in (
        ("mock", 30, _MOCK),
        ("channel", 15, _CHANNEL),
        ("ring", 10, _RING),
        ("pollfd", 20, _POLLFD),
        ("msg", 10, _MSG),
        ("rejected", 3, _REJECTED),
        ("rdm", 15, _RDM),
        ("sep", 5, _SEP),
        ("nothing", 5, ""),
    )
}
