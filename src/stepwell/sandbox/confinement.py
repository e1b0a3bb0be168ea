"""Confinement: a process gives up, for good, what untrusted code never needs.

Child programs of the sandbox import this file by its path; run as a program, it confines itself and becomes
another program. It imports nothing of the package. The interpreter of the code is the first wall, the jail
the last.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import resource
import struct
import sys

_DATA_BYTES = 512 * 1024 * 1024
_OPEN_FILES = 16
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2  # options of prctl
_FORBIDDEN = (
    *("socket", "socketpair", "connect", "bind", "accept", "accept4", "sendto", "sendmsg"),
    *("ptrace", "process_vm_readv", "process_vm_writev", "kill", "pidfd_open", "pidfd_send_signal"),
    *("mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "open_by_handle_at"),
    *("bpf", "perf_event_open", "keyctl", "add_key", "request_key", "userfaultfd", "io_uring_setup"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "reboot", "personality"),
    *("memfd_create", "execveat", "shmget", "msgget", "semget", "fork", "vfork"),
)
_BEGINNERS = ("fork", "vfork")  # and clone, unless it starts a thread
_NUMBERS: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        dict(zip(_FORBIDDEN, (
            *(41, 53, 42, 49, 43, 288, 44, 46), *(101, 310, 311, 62, 434, 424),
            *(165, 166, 155, 161, 272, 308, 304), *(321, 298, 250, 248, 249, 323, 425),
            *(175, 313, 176, 246, 169, 135), *(319, 322, 29, 68, 64, 57, 58),
        ), strict=True)) | {"clone": 56, "clone3": 435},
    ),
    "aarch64": (
        0xC00000B7,  # it has neither fork nor vfork
        dict(zip(_FORBIDDEN, (
            *(198, 199, 203, 200, 202, 242, 206, 211), *(117, 270, 271, 129, 434, 424),
            *(40, 39, 41, 51, 97, 268, 265), *(280, 241, 219, 217, 218, 282, 425),
            *(105, 273, 106, 104, 142, 92), *(279, 281, 194, 186, 190, -1, -1),
        ), strict=True)) | {"clone": 220, "clone3": 435},
    ),
}  # fmt: skip
_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _RETURN = (
    0x20,
    0x15,
    0x35,
    0x45,
    0x06,
)  # instructions of a seccomp filter
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_THREAD = 0x00010000  # a flag of clone
_X32 = 0x40000000  # another architecture's calls to the same kernel


def confine(*, kill: bool = True) -> None:
    """Give up processes, sockets, large memory and writing files. Only threads can still be started.

    A process that starts another one is killed by SIGSYS, so that its parent knows why. Without `kill` the
    call is refused.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (_DATA_BYTES, _DATA_BYTES))  # stacks of threads count as well
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    kernel = ctypes.CDLL(None, use_errno=True)
    kernel.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    known = _NUMBERS.get(platform.machine())
    if known is not None:
        _filter_calls(kernel, *known, _KILL if kill else _FAIL | errno.EPERM)


def forbid_threads() -> None:
    with contextlib.suppress(ValueError, OSError):  # root has no such limit
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def _filter_calls(kernel: ctypes.CDLL, machine: int, numbers: dict[str, int], fork: int) -> None:
    """Let the kernel refuse these calls. On a kernel without filters, the limits and the jail remain."""
    program = [
        *(_step(_LOAD, 4), _step(_EQUAL, machine, 1), _step(_RETURN, _FAIL | errno.EPERM)),
        *(_step(_LOAD, 0), _step(_AT_LEAST, _X32, 0, 1), _step(_RETURN, _FAIL | errno.EPERM)),
        # A filter cannot read its flags, which are behind a pointer. The C library falls back to clone.
        *(_step(_EQUAL, numbers["clone3"], 0, 1), _step(_RETURN, _FAIL | errno.ENOSYS)),
        *(_step(_EQUAL, numbers["clone"], 0, 4), _step(_LOAD, 16), _step(_HAS_BITS, _THREAD, 0, 1)),
        *(_step(_RETURN, _ALLOW), _step(_RETURN, fork)),
    ]
    for name in _FORBIDDEN:
        if numbers[name] >= 0:
            answer = fork if name in _BEGINNERS else _FAIL | errno.EPERM
            program += [_step(_EQUAL, numbers[name], 0, 1), _step(_RETURN, answer)]
    program.append(_step(_RETURN, _ALLOW))
    steps = ctypes.create_string_buffer(b"".join(program))
    whole = struct.pack("HxxxxxxP", len(program), ctypes.addressof(steps))
    kernel.prctl(_SECCOMP, _FILTER, ctypes.create_string_buffer(whole), 0, 0)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


if __name__ == "__main__":
    confine()
    os.execv(sys.argv[1], sys.argv[1:])
