"""The system-call filter, run by an interpreter of BPF: every processor's, on any machine."""

import re
from pathlib import Path

import pytest

from agentlearn.sandbox.inside.kernel import (
    ABSENT,
    ALLOW,
    DENY,
    KILL,
    MACHINES,
    Machine,
    calls_with_argument_rules,
    filter_program,
)

CLONE3 = 435
PID = 4321
O_RDONLY, O_WRONLY, O_ACCMODE, O_TRUNC, O_CREAT = 0, 1, 3, 0o1000, 0o100
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.fixture(params=sorted(MACHINES))
def machine(request: pytest.FixtureRequest) -> Machine:
    return MACHINES[request.param]


def decide(machine: Machine, number: int, *arguments: int, audit: int | None = None) -> int:
    """The filter's decision on a call."""
    words = {0: number, 4: machine.audit if audit is None else audit}
    for index, argument in enumerate(arguments):
        words[16 + 8 * index] = argument & 0xFFFFFFFF
        words[20 + 8 * index] = argument >> 32 & 0xFFFFFFFF
    accumulator, at, lines = 0, 0, filter_program(machine, PID)
    while True:
        code, if_true, if_false, value = lines[at]
        at += 1
        match code:
            case 0x20:
                accumulator = words.get(value, 0)
            case 0x54:
                accumulator &= value
            case 0x15:
                at += if_true if accumulator == value else if_false
            case 0x35:
                at += if_true if accumulator >= value else if_false
            case 0x06:
                return value
            case _:
                raise AssertionError(code)


def test_what_is_listed_is_allowed_and_nothing_else(machine: Machine) -> None:
    listed = set(machine.numbers.values())
    with_rules = {machine.numbers[name] for name in calls_with_argument_rules(PID) if name in machine.numbers}
    for number in range(1_000):
        if number not in with_rules:
            allowed = ABSENT if number == CLONE3 else ALLOW if number in listed else DENY
            assert decide(machine, number) == allowed, number


def test_calls_of_another_machine_end_the_process(machine: Machine) -> None:
    read = machine.numbers["read"]
    for audit in (0, 0x40000003, 0x40000028, *(other.audit for other in MACHINES.values())):
        assert decide(machine, read, audit=audit) == (ALLOW if audit == machine.audit else KILL)


def test_the_second_numbering_of_x86_64_ends_the_process() -> None:
    machine = MACHINES["x86_64"]
    for number in machine.numbers.values():
        assert decide(machine, 0x40000000 | number) == KILL
    assert decide(machine, 0xFFFFFFFF) == KILL


@pytest.mark.parametrize("name", ["kill", "tgkill", "tkill"])
def test_signals_reach_nobody_else(machine: Machine, name: str) -> None:
    number, thread = machine.numbers[name], [PID] if name == "tgkill" else []
    assert decide(machine, number, PID, *thread, 14) == ALLOW
    for other in (PID + 1, 0, 1, -1, -PID):
        for sent in (14, 9):
            assert decide(machine, number, other, *thread, sent) == DENY


@pytest.mark.parametrize("name", ["kill", "tgkill", "tkill"])
def test_code_cannot_send_itself_the_signal_that_means_an_end_from_outside(machine: Machine, name: str) -> None:
    number, thread = machine.numbers[name], [PID] if name == "tgkill" else []
    for sent in range(65):
        assert decide(machine, number, PID, *thread, sent) == (DENY if sent == 9 else ALLOW)
    assert decide(machine, number, PID, *thread, 9 | 1 << 32) == DENY  # the kernel reads the low word


def test_limits_of_others_are_out_of_reach(machine: Machine) -> None:
    number = machine.numbers["prlimit64"]
    assert [decide(machine, number, pid) for pid in (0, PID, 1)] == [ALLOW, ALLOW, DENY]


def test_a_file_cannot_be_emptied_while_it_is_opened_to_read(machine: Machine) -> None:
    calls: list[tuple[int, tuple[int, ...]]] = [(machine.numbers["openat"], (0, 0))]
    if "open" in machine.numbers:
        calls.append((machine.numbers["open"], (0,)))
    for number, before in calls:
        for flags in (O_RDONLY, O_WRONLY, O_WRONLY | O_TRUNC | O_CREAT, 2 | O_TRUNC, O_CREAT):
            assert decide(machine, number, *before, flags) == ALLOW
        for flags in (O_RDONLY | O_TRUNC, O_TRUNC | O_CREAT, O_ACCMODE | O_TRUNC):
            assert decide(machine, number, *before, flags) == DENY


def test_descriptors_can_be_copied_and_not_turned_into_signals(machine: Machine) -> None:
    assert [decide(machine, machine.numbers["fcntl"], 3, command) for command in (0, 1, 3, 1030)] == [ALLOW] * 4
    assert [decide(machine, machine.numbers["fcntl"], 3, command) for command in (8, 10, 15, 1031, 1033)] == [DENY] * 5
    assert decide(machine, machine.numbers["ioctl"], 0, 0x5401) == ALLOW
    assert decide(machine, machine.numbers["ioctl"], 0, 0x5412) == DENY


THREAD = 0x3D0F00
"""Flags with which the C library starts a thread."""


def test_threads_can_be_started_and_processes_cannot(machine: Machine) -> None:
    number = machine.numbers["clone"]
    assert decide(machine, number, THREAD) == ALLOW
    new_user, traced, shared_memory = 0x10000000, 0x2000, 0x100
    for flags in (0, 17, shared_memory, 0x4111, THREAD | new_user, THREAD | traced, THREAD & ~0x10000, THREAD | 17):
        assert decide(machine, number, flags) == DENY


def test_sockets_come_in_pairs_of_streams_and_reach_no_address(machine: Machine) -> None:
    pair, send, receive, ask = (machine.numbers[name] for name in ("socketpair", "sendto", "recvfrom", "getsockopt"))
    unix, stream, nonblocking, inet, datagram, packet = 1, 1, 0o4000, 2, 2, 5
    assert [decide(machine, pair, unix, kind) for kind in (stream, stream | nonblocking)] == [ALLOW, ALLOW]
    assert [decide(machine, pair, unix, kind) for kind in (datagram, packet, 3)] == [DENY] * 3
    assert decide(machine, pair, inet, stream) == DENY
    assert decide(machine, send, 3, 0x1000, 1, 0, 0, 0) == ALLOW
    assert decide(machine, send, 3, 0x1000, 1, 0, 0x2000, 110) == DENY
    urgent, fast_open = 1, 0x20000000
    assert [decide(machine, send, 3, 0, 1, flags) for flags in (urgent, fast_open)] == [DENY] * 2
    assert decide(machine, receive, 3, 0, 1, urgent) == DENY
    peers_process, peers_user, error = 77, 17, 4
    assert [decide(machine, ask, 3, 1, what) for what in (peers_process, peers_user, error)] == [DENY, DENY, ALLOW]
    assert {"socket", "connect", "bind", "sendmsg", "recvmsg", "setsockopt"}.isdisjoint(machine.numbers)


def test_a_program_fits_into_the_kernel(machine: Machine) -> None:
    lines = filter_program(machine, PID)
    assert len(lines) <= 4096
    assert all(0 <= jump <= 255 for _, if_true, if_false, _ in lines for jump in (if_true, if_false))


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_numbers_are_those_of_the_kernel_headers(name: str) -> None:
    if not HEADERS[name].exists():
        pytest.skip("no kernel headers here")
    text = HEADERS[name].read_text()
    known = {call: int(number) for call, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    known.setdefault("newfstatat", known.get("fstatat", -1))
    assert {call: known.get(call) for call in MACHINES[name].numbers} == MACHINES[name].numbers
